"""MQTT's topic filters: the standard's examples in schemas/filter_vectors.json, and the trie beside a naive matcher."""

import gc
import json
import random
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from coldnotify_schemas import filters
from coldnotify_schemas.filters import (
    FILTER_BYTES_MAX,
    FilterTrie,
    InvalidFilter,
    SharedFilter,
    can_be_said,
    check_filter,
    fits,
    is_exact,
    no_local_in,
    options_of,
    qos_in,
    retain_as_published_in,
    retain_handling_in,
)
from coldnotify_schemas.names import OBJECT_BYTES_MAX
from hypothesis import given
from hypothesis import strategies as st

VECTORS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parents[1] / "filter_vectors.json").read_text())
LEVELS = st.sampled_from(["", "a", "b", "$a", "aa", "é"])
NAMES = st.lists(st.sampled_from(["", "a", "b", "$a", "aa", "é", "+", "#"]), min_size=1, max_size=5).map("/".join)
FILTERS = st.tuples(
    st.lists(st.one_of(LEVELS, st.just("+")), max_size=5), st.one_of(LEVELS, st.sampled_from(["+", "#"]))
).map(lambda drawn: "/".join([*drawn[0], drawn[1]]))
ALLOWED = FILTERS.filter(lambda text: text != "")


def naive(filter_: str, name: str) -> bool:
    """What a filter means, as a regular expression."""
    if name.startswith("$") and filter_.startswith(("+", "#")):
        return False
    levels = ["[^/]*" if level == "+" else re.escape(level) for level in filter_.split("/")]
    if levels[-1] != re.escape("#"):
        return re.fullmatch("/".join(levels), name, re.DOTALL) is not None
    before = "/".join(levels[:-1])
    return re.fullmatch(f"{before}(/.*)?" if levels[1:] else ".*", name, re.DOTALL) is not None


@pytest.mark.parametrize("vector", VECTORS["filters"])
def test_a_filter(vector: dict[str, Any]) -> None:
    assert check_filter(vector["filter"]) == vector["filter"]
    assert is_exact(vector["filter"]) is vector["exact"]


@pytest.mark.parametrize("vector", VECTORS["refused"])
def test_a_text_that_is_not_a_filter(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidFilter, match=f"^filter: .*{re.escape(vector['fault'])}") as caught:
        check_filter(vector["filter"])
    assert isinstance(caught.value, SharedFilter) is vector.get("shared", False)


@pytest.mark.parametrize("vector", VECTORS["fits"])
def test_a_filter_fits_a_name(vector: dict[str, Any]) -> None:
    assert fits(check_filter(vector["filter"]), vector["name"]) is vector["fits"]
    assert naive(vector["filter"], vector["name"]) is vector["fits"]
    trie = FilterTrie[str]()
    trie.add(vector["filter"], "value")
    assert trie.of(vector["name"]) == ["value"] * vector["fits"]


@pytest.mark.parametrize("vector", VECTORS["names"])
def test_a_name_that_can_be_said(vector: dict[str, Any]) -> None:
    assert can_be_said(vector["name"]) is vector["can_be_said"]


def test_a_filter_is_as_long_as_a_name() -> None:
    assert FILTER_BYTES_MAX == OBJECT_BYTES_MAX
    check_filter("é" * 127 + "a")
    with pytest.raises(InvalidFilter, match="has 256 bytes"):
        check_filter("é" * 128)


@given(text=st.text(st.sampled_from("a/+#$é\x00"), max_size=12))
def test_a_text_is_a_filter_or_refused(text: str) -> None:
    good = text and "\x00" not in text and not text.startswith("$share/")
    good = good and re.fullmatch(r"(\+|[^/+#]*)(/(\+|[^/+#]*))*(/#)?|#", text) is not None
    try:
        assert check_filter(text) == text
    except InvalidFilter:
        assert not good
    else:
        assert good


@given(filter_=ALLOWED, name=NAMES)
def test_a_filter_fits_as_the_naive_one(filter_: str, name: str) -> None:
    assert check_filter(filter_) == filter_
    assert fits(filter_, name) is naive(filter_, name)
    if is_exact(filter_):
        assert fits(filter_, name) is (filter_ == name)


@given(data=st.data())
def test_a_trie_finds_what_the_naive_one_finds(data: st.DataObject) -> None:
    # Few filters that have levels in common, so that they branch, and are found when they are taken back.
    level = st.sampled_from(["a", "+", "$", ""])
    filters = st.lists(level, max_size=4).flatmap(
        lambda before: st.sampled_from([[*before, "#"], [*before, "a"], before])
    )
    pool = data.draw(st.lists(filters.map("/".join).filter(bool), min_size=1, max_size=8, unique=True))
    steps = data.draw(st.lists(st.tuples(st.booleans(), st.sampled_from(pool), st.integers(0, 1)), max_size=40))
    names = data.draw(st.lists(st.lists(level | st.just("#"), min_size=1, max_size=5).map("/".join), max_size=20))
    names += [filter_.removesuffix("/#") for filter_ in pool]
    trie, kept = FilterTrie[int](), set[tuple[str, int]]()
    for adds, filter_, value in steps:
        if adds:
            trie.add(filter_, value)
            kept.add((filter_, value))
        else:
            assert trie.remove(filter_, value) is ((filter_, value) in kept)
            kept.discard((filter_, value))
        assert len(trie) == len(kept)
    below = nodes(trie)
    assert all(node.values or len(node.children) > 1 for node in below)
    assert len(below) <= 2 * len({filter_ for filter_, _ in kept})
    for name in names:
        assert sorted(trie.of(name)) == sorted(value for filter_, value in kept if naive(filter_, name))
    for filter_, value in kept:
        assert trie.remove(filter_, value)
    assert (len(trie), nodes(trie), trie._root.values) == (0, [], {})


def nodes(trie: FilterTrie[int]) -> list[Any]:
    """All nodes below the root."""
    found, waiting = [], [*trie._root.children.values()]
    while waiting:
        found.append(node := waiting.pop())
        waiting += node.children.values()
    return found


def test_a_trie_is_as_small_as_its_filters() -> None:
    rng = random.Random(3)
    pool = ["/".join(levels) for count in (1, 2, 3, 4) for levels in product("ab+", repeat=count)]
    trie, kept = FilterTrie[int](), set[str]()
    for step in range(2_000):
        # It grows, and shrinks, and grows.
        filter_ = rng.choice(pool) if step // 200 % 2 == 0 or not kept else rng.choice(sorted(kept))
        if filter_ in kept:
            assert trie.remove(filter_, 0)
        else:
            trie.add(filter_, 0)
        kept ^= {filter_}
        below = nodes(trie)
        assert sum(len(node.values) for node in below) == len(kept)
        assert all(node.values or len(node.children) > 1 for node in below)
    names = ["/".join(levels) for levels in product("ab", repeat=3)]
    assert [len(trie.of(name)) for name in names] == [sum(naive(one, name) for one in kept) for name in names]


def many_filters(count: int) -> list[str]:
    """Different filters of devices, as they are in a large group: of one device, of a kind, of all."""
    rng = random.Random(count)
    kinds = [f"units/lamp-{i}/{rng.choice(['state', '+', '#', 'state/#', '+/on'])}" for i in range(count - 3)]
    return [*kinds, "#", "units/+/state", "+/lamp-7/#"]


def test_a_walk_visits_no_more_for_more_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    visited = 0
    end_in = filters._Node.end_in

    def counted(node: Any, levels: list[str], at: int) -> int | None:
        nonlocal visited
        visited += 1
        return end_in(node, levels, at)

    monkeypatch.setattr(filters._Node, "end_in", counted)

    def visits(count: int) -> int:
        nonlocal visited
        trie = FilterTrie[int]()
        for value, filter_ in enumerate(many_filters(count)):
            trie.add(filter_, value)
        visited = 0
        for i in range(200):
            trie.of(f"units/lamp-{i * 7 % (count - 3)}/state")
        return visited

    assert visits(20_000) < 2 * visits(200)


def test_a_walk_through_hostile_filters_visits_each_once() -> None:
    rng = random.Random(1)
    trie = FilterTrie[int]()
    for value in range(2_000):
        trie.add("/".join(rng.choice("a+") for _ in range(127)), value)
    # Of 2^127 ways.
    assert sorted(trie.of("/".join("a" * 127))) == list(range(2_000))


def test_a_removed_filter_leaves_no_memory() -> None:
    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    trie, filters = FilterTrie[int](), many_filters(5_000)
    before = blocks()
    for value, filter_ in enumerate(filters):
        trie.add(filter_, value)
    full = blocks() - before
    for value, filter_ in enumerate(filters):
        assert trie.remove(filter_, value)
    assert blocks() - before < full / 50


def test_a_byte_of_options_says_all_of_them() -> None:
    for qos, no_local, retain_as_published, retain_handling in product(
        range(3), (False, True), (False, True), range(3)
    ):
        byte = options_of(
            qos, no_local=no_local, retain_as_published=retain_as_published, retain_handling=retain_handling
        )
        assert qos_in(byte) == qos
        assert no_local_in(byte) is no_local
        assert retain_as_published_in(byte) is retain_as_published
        assert retain_handling_in(byte) == retain_handling
    assert options_of(0, no_local=True, retain_as_published=True, retain_handling=2) == 0x2C
