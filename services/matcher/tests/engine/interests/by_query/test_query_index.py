"""The index of queries: it finds those whose truth a change changes, hardly any other, and forgets what is removed."""

import tracemalloc
from collections.abc import Callable

import pytest
from coldnotify_matcher.engine.interests.by_query import query_index
from coldnotify_matcher.engine.interests.by_query.language import parse
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.query_index import QueryIndex, size_bytes_of
from coldnotify_schemas.descriptions import Description, Value
from coldnotify_testkit.queries import DESCRIPTIONS, NAMES, PATIENT, TREES, naive
from hypothesis import given
from hypothesis import strategies as st

QUERIES = st.lists(TREES.map(CanonicalQuery), max_size=8)
STATES = st.none() | DESCRIPTIONS


def index_of(*texts: str) -> tuple[QueryIndex, dict[str, CanonicalQuery]]:
    """An index, and its queries by their texts."""
    index, queries = QueryIndex(), {text: query_of(text) for text in texts}
    for query in queries.values():
        index.add(query)
    return index, queries


def truth(query: CanonicalQuery, name: str, state: Description | None) -> bool:
    """Whether an object in this state fits."""
    return state is not None and naive(query.tree, name, state)


@PATIENT
@given(QUERIES, QUERIES, NAMES, STATES, STATES, st.sampled_from([1, 4, 1024]))
def test_it_finds_all_whose_truth_changes(
    queries: list[CanonicalQuery],
    removed: list[CanonicalQuery],
    name: str,
    before: Description | None,
    after: Description | None,
    places: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_index, "PLACES_MAX", places)
        index = QueryIndex()
        for query in (*removed, *queries):
            index.add(query)
        for query in removed:
            index.remove(query)

    concerned = index.concerned(name, before, after)
    assert {query for query in queries if truth(query, name, before) != truth(query, name, after)} <= set(concerned)
    assert set(concerned) <= set(queries)
    assert len(set(concerned)) == len(concerned)
    if after is not None:
        assert {query for query in queries if truth(query, name, after)} <= set(index.candidates(name, after))


@pytest.mark.parametrize("condition", [
    "has a", "a = x", "a = 1", "a = '1'", "a = true", "a < 1", "a <= 1", "a > 1", "a >= 1", "a like 'x'",
])  # fmt: skip
def test_it_finds_each_condition_for_each_change_of_a_value(condition: str) -> None:
    index, queries = index_of(condition, f"not {condition}", f"{condition} and has b", f"{condition} or b = 1")
    values: list[Value | None] = [None, "x", "1", "", 1.0, 2.0, 0.5, True, False]
    states: list[Description] = [
        {key: value for key, value in (("a", a), ("b", b)) if value is not None} for a in values for b in (None, 1.0)
    ]
    for before in states:
        for after in states:
            changed = {query for query in queries.values() if truth(query, "o", before) != truth(query, "o", after)}
            assert changed <= set(index.concerned("o", before, after)), (before, after)


@PATIENT
@given(QUERIES)
def test_removed_queries_leave_nothing(queries: list[CanonicalQuery]) -> None:
    index = QueryIndex()
    for query in queries:
        index.add(query)
    for query in reversed(queries):
        index.remove(query)
    assert [value for value in vars(index).values() if value] == []


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        ({"Kind": "lamp", "Room": 1.0}, {"Kind": "lamp", "Room": 2.0},
         ["Kind = lamp AND Room = 1", "Kind = lamp AND Room = 2"]),
        ({"Kind": "lamp", "Room": 1.0}, {"Kind": "fan", "Room": 1.0}, ["Kind = lamp AND Room = 1"]),
        ({"Kind": "lamp", "Room": 7.0}, {"Kind": "fan", "Room": 7.0}, []),
        ({"Level": 1.5}, {"Level": 2.5}, ["Level > 2"]),
        ({"Level": 3.0}, {"Level": 2.0}, ["Level >= 3", "Level > 2", "Level < 3"]),
        ({"Level": 5.0}, {"Level": 9.0}, []),
        ({"Level": 2.5}, {"Level": "high"}, ["Level > 2", "Level < 3"]),
        ({"Other": 1.0}, {"Other": 2.0}, []),
        ({}, {"Other": 2.0}, []),
        (None, {}, ["NAME STARTS WITH 'desk/'", "NAME BETWEEN 'desk/a' AND 'desk/m'", "NAME = 'desk/lamp'"]),
        ({}, None, ["NAME STARTS WITH 'desk/'", "NAME BETWEEN 'desk/a' AND 'desk/m'", "NAME = 'desk/lamp'"]),
        (None, None, []),
    ],
)  # fmt: skip
def test_it_finds_hardly_any_other(before: Description | None, after: Description | None, concerned: list[str]) -> None:
    # The first is found under its kind: which of its conditions the others share was not known then.
    rooms = [f"Kind = lamp AND Room = {room}" for room in (0, 1, 2, 3, 4)]
    levels = ["Level > 2", "Level >= 3", "Level < 3", "Level <= 1"]
    names = ["NAME STARTS WITH 'desk/'", "NAME STARTS WITH 'hall/'", "NAME BETWEEN 'desk/a' AND 'desk/m'",
             "NAME BETWEEN 'z' AND 'a'", "NAME = 'desk/lamp'", "NAME = 'hall/lamp'"]  # fmt: skip
    index, queries = index_of(*rooms, *levels, *names)
    found = set(index.concerned("desk/lamp", before, after)) - {queries[rooms[0]]}
    assert found == {queries[text] for text in concerned}


def test_a_number_and_true_are_two_values() -> None:
    index, queries = index_of("a = 1", "a = true")
    assert set(index.concerned("x", {"a": 1.0}, {"a": True})) == set(queries.values())
    assert index.concerned("x", {"b": 1.0}, {"b": True}) == []


RANGES = st.builds(
    "{} {} {} and {} {} {}".format,
    st.sampled_from("ab"),
    st.sampled_from([">", ">=", "<", "<="]),
    st.integers(-2, 4),
    st.sampled_from("ab"),
    st.sampled_from([">", ">=", "<", "<="]),
    st.integers(-2, 4),
)
OF_RANGES = st.none() | st.dictionaries(
    st.sampled_from("ab"), st.integers(-3, 5).map(float) | st.sampled_from(["x", True])
)


@PATIENT
@given(
    st.lists(RANGES, max_size=12),
    st.sampled_from(["", " and has b", " and b = 1", " or b = 1", " and not a = 2"]),
    OF_RANGES,
    OF_RANGES,
)
def test_it_finds_all_ranges(
    texts: list[str], more: str, before: Description | None, after: Description | None
) -> None:
    index, queries = index_of(*(text + more for text in texts))
    changed = {query for query in queries.values() if truth(query, "n", before) != truth(query, "n", after)}
    assert changed <= set(index.concerned("n", before, after))
    for query in queries.values():
        index.remove(query)
    assert [value for value in vars(index).values() if value] == []


STRETCHES = st.builds(
    lambda low, width, b: f"a >= {low} and a < {low + width} and b = {b}",
    st.integers(-3, 4), st.integers(0, 3), st.integers(0, 1),
)  # fmt: skip
OF_STRETCHES = st.none() | st.fixed_dictionaries(
    {}, optional={"a": st.integers(-3, 6).map(float) | st.just("x"), "b": st.integers(0, 1).map(float)}
)


@PATIENT
@given(st.lists(STRETCHES, min_size=4, max_size=12, unique=True), OF_STRETCHES, OF_STRETCHES)
def test_it_finds_all_that_are_anchored_by_a_stretch(
    texts: list[str], before: Description | None, after: Description | None
) -> None:
    """With several queries for the same b, a stretch that few share is the better anchor."""
    index, queries = index_of(*texts)
    changed = {query for query in queries.values() if truth(query, "n", before) != truth(query, "n", after)}
    assert changed <= set(index.concerned("n", before, after))


def test_of_many_ranges_a_number_concerns_those_that_it_lies_in() -> None:
    texts = [f"Temp >= {low} and Temp < {low + 10}" for low in range(1000)]
    index, queries = index_of(*texts)
    assert set(index.candidates("n", {"Temp": 500.5})) == {queries[text] for text in texts[491:501]}
    moved = {*range(491, 493), *range(501, 503)}
    assert set(index.concerned("n", {"Temp": 500.5}, {"Temp": 502.5})) == {queries[texts[low]] for low in moved}
    assert index.concerned("n", {"Temp": 500.5}, {"Temp": 500.7}) == []
    assert len(index.concerned("n", {"Temp": 500.5}, {"Temp": "warm"})) == 10


def test_of_many_ranges_of_one_kind_an_object_concerns_those_that_it_lies_in() -> None:
    texts = [f"Kind = lamp and Temp >= {low} and Temp < {low + 10}" for low in range(1000)]
    index, queries = index_of(*texts)
    early = 20  # those that came while the kind had as few queries as a range
    found = set(index.candidates("n", {"Kind": "lamp", "Temp": 500.5}))
    assert {queries[text] for text in texts[491:501]} <= found
    assert len(found) <= 10 + early
    assert len(index.concerned("n", {"Kind": "lamp", "Temp": 500.5}, {"Kind": "fan", "Temp": 500.5})) <= 10 + early


def test_of_many_ranges_that_all_share_a_kind_serves_better() -> None:
    texts = [f"Kind = lamp-{low} and Temp >= {low} and Temp < {low + 5000}" for low in range(1000)]
    index, queries = index_of(*texts)
    assert index.candidates("n", {"Kind": "lamp-7", "Temp": 2000.0}) == [queries[texts[7]]]


def _of_ands(number: int) -> str:
    parts = (
        f"(a IN ({', '.join(f'{number}{j}{k}' for j in range(8))}) AND b IN ({', '.join(f'{j}{k}' for j in range(8))}))"
        for k in range(6)
    )
    return " OR ".join(parts)


SHAPES: dict[str, Callable[[int], str]] = {
    "one": lambda number: f"HAS k{number}",
    "two": lambda number: f"Kind = lamp AND Room = {number}",
    "range": lambda number: f"Temp > {number} AND Temp < {number + 5}",
    "in": lambda number: f"a IN ({', '.join(f'{number}x{j}' for j in range(100))})",
    "ands": _of_ands,
    "nots": lambda number: " AND ".join(f"c{j} != {number}" for j in range(50)),
    "names": lambda number: " OR ".join(f'NAME = "obj{j}-{number}"' for j in range(50)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_query_takes_in_memory_is_estimated(shape: str) -> None:
    texts = [SHAPES[shape](number) for number in range(50)]
    index = QueryIndex()
    tracemalloc.start()
    try:
        queries = [CanonicalQuery(parse(text)) for text in texts]
        for query in queries:
            index.add(query)
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    estimated_bytes = sum(map(size_bytes_of, queries))
    # A set, which is not in here, is part of the estimate.
    assert 0.85 * taken_bytes < estimated_bytes < 2 * taken_bytes + 2000 * len(queries)
