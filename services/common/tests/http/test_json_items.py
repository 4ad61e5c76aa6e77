"""JSON item by item: the same as a parser says, as far as anybody reads, and never more."""

import json
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
import pytest
from coldnotify_common.http.json_items import InvalidJson, ItemTooLong, JsonItems, TooManyItems, list_in
from hypothesis import given
from hypothesis import strategies as st

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def decoded(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1, "\t"]))
def test_elements_are_what_was_written(values: list[Any], indent: Any) -> None:
    text = JsonItems(json.dumps(values, indent=indent).encode() + b" \n")
    assert [decoded(raw) for raw in text.elements()] == values
    text.end()


@given(st.dictionaries(st.text(), VALUES, max_size=6), st.sampled_from([None, 1]))
def test_members_are_what_was_written(values: dict[str, Any], indent: Any) -> None:
    text = JsonItems(b" " + json.dumps(values, indent=indent).encode())
    assert {name: decoded(raw) for name, raw in text.members()} == values
    text.end()


def test_what_is_inside_is_read_in_its_place() -> None:
    text = JsonItems(b'{"a": [1, {"b": "]"}], "c": {"d": 2}, "e": null}')
    found: list[Any] = []
    for name in text.names():
        if name == "a":
            found += [decoded(raw) for raw in text.elements()]
        elif name == "c":
            found += [(inner, decoded(raw)) for inner, raw in text.members()]
        else:
            found.append(decoded(text.value()))
    text.end()
    assert found == [1, {"b": "]"}, ("d", 2), None]


def test_nothing_behind_what_is_read_is_looked_at() -> None:
    text = JsonItems(b"[1, 2, 3, this is no JSON")
    assert [decoded(raw) for raw in islice(text.elements(), 3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "text", [b"", b"  ", b"[", b"[1", b"[1,", b"[1,]", b"[,]", b"[1 2]", b"{}", b"[1]]", b"[1],", b'["\xff', b"[nul]"]
)
def test_what_is_no_list_is_told(text: bytes) -> None:
    def read() -> None:
        items = JsonItems(text)
        list(items.elements())
        items.end()

    with pytest.raises(InvalidJson):
        read()


@pytest.mark.parametrize("text", [b"[]", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{1:2}", b'{"a":1 "b":2}', b'{"a":1'])
def test_what_is_no_object_is_told(text: bytes) -> None:
    with pytest.raises(InvalidJson):
        list(JsonItems(text).members())


@given(st.binary(max_size=80))
def test_no_bytes_make_it_fail_otherwise(text: bytes) -> None:
    items = JsonItems(text, 20)
    with suppress(InvalidJson, ItemTooLong):
        list(items.elements())
    with suppress(InvalidJson, ItemTooLong):
        list(JsonItems(text, 20).members())


def test_an_item_that_is_too_long_is_not_read_to_its_end() -> None:
    for long in (b'["%s"]' % (b"x" * 100), b"[%s1]" % (b"1," * 3 + b"[" * 100), b"[1%s]" % (b" " * 100)):
        with pytest.raises(ItemTooLong, match="more than 20 bytes"):
            list(JsonItems(long, 20).elements())
    assert len(list(JsonItems(b'["%s"]' % (b"x" * 17), 20).elements())) == 1


def test_a_list_in_a_field_is_counted() -> None:
    assert [decoded(raw) for raw in list_in(b'{"a": [1, "b"]}', "a", 2, 100)] == [1, "b"]
    with pytest.raises(TooManyItems, match="more than the 2"):
        list_in(b'{"a": [1, 2, 3, this is no JSON', "a", 2, 100)
    for text in (b"{}", b'{"b": []}', b'{"a": {}}', b'{"a": []} 1'):
        with pytest.raises(InvalidJson):
            list_in(text, "a", 2, 100)
