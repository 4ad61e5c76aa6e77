"""Highest counts by window, against a naive model: the maxima of all records, whatever their order."""

import random

import pytest
from coldnotify_schemas.tenant_usage import CUMULATIVE, TenantCounters
from coldnotify_usage.core.highs import NO_COUNTS, Counts, Highs, above, counters_of, counts_of, highest, total
from hypothesis import given
from hypothesis import strategies as st

counts = st.lists(st.integers(0, 50), min_size=len(CUMULATIVE), max_size=len(CUMULATIVE)).map(tuple)
records = st.lists(st.tuples(st.integers(0, 2), counts), max_size=30)


def naively(of: list[tuple[int, Counts]], window: int) -> Counts:
    """What a window counted: its highest, less the highest before it."""
    high = [one for number, one in of if number == window]
    before = [one for number, one in of if number < window]
    return tuple(
        max(0, max((one[f] for one in high), default=0) - max((one[f] for one in before), default=0))
        for f in range(len(CUMULATIVE))
    )


@given(records, st.randoms())
def test_neither_order_nor_repetition_changes_counts(read: list[tuple[int, Counts]], draw: random.Random) -> None:
    again = read + draw.sample(read, draw.randint(0, len(read)))
    draw.shuffle(again)
    highs = Highs(3)
    for window, one in again:
        highs.add(window, one)
    assert [highs.counted(window) for window in range(3)] == [naively(read, window) for window in range(3)]


@given(records)
def test_adding_the_same_counts_reports_no_change(read: list[tuple[int, Counts]]) -> None:
    highs = Highs(3)
    for window, one in read:
        highs.add(window, one)
    assert not any(highs.add(window, one) for window, one in read)


def test_dropped_windows_still_count_as_the_floor() -> None:
    highs = Highs(2)
    for window, one in ((1, 5), (2, 7), (3, 12), (5, 20)):
        highs.add(window, (one, *NO_COUNTS[1:]))
    assert [highs.counted(window)[0] for window in range(7)] == [0, 0, 0, 5, 0, 8, 0]
    assert highs.add(1, (9, *NO_COUNTS[1:])), "so late that its window is closed: it hides a part of the next one"
    assert [highs.counted(window)[0] for window in (3, 5)] == [3, 8]


def test_the_next_record_makes_up_for_a_lost_one() -> None:
    highs = Highs(3)
    for one in (3, 4, 9):  # of 1 to 9
        highs.add(7, (one, *NO_COUNTS[1:]))
    assert highs.counted(7)[0] == 9


@pytest.mark.parametrize("name", CUMULATIVE)
def test_counts_are_the_cumulative_fields(name: str) -> None:
    counters = TenantCounters(**{name: 4}, objects=9)
    assert counters_of(counts_of(counters)) == TenantCounters(**{name: 4})


def test_sums_and_differences_are_field_by_field() -> None:
    one, other = tuple(range(8)), tuple(range(8, 0, -1))
    assert total([one, other]) == (8,) * 8
    assert above(one, other) == (0, 0, 0, 0, 0, 2, 4, 6)
    assert highest(one, other) == (8, 7, 6, 5, 4, 5, 6, 7)
