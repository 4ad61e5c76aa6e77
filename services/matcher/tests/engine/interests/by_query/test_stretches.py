"""Stretches: those that contain a number are found, and no other, however many there are."""

import math

from coldnotify_matcher.engine.interests.by_query.stretches import Stretches, ordered
from coldnotify_testkit.queries import PATIENT
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-4, 4).map(float)
STRETCHES = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (ordered(min(pair)), ordered(max(pair))))


@PATIENT
@given(NUMBERS, NUMBERS)
def test_integers_have_the_order_of_numbers(one: float, other: float) -> None:
    assert (ordered(one) < ordered(other), ordered(one) == ordered(other)) == (one < other, one == other)
    assert ordered(math.nextafter(one, math.inf)) == ordered(one) + 1


@PATIENT
@given(st.sets(STRETCHES), st.sets(STRETCHES), st.lists(NUMBERS))
def test_those_around_a_number_are_found_and_no_other(
    kept: set[tuple[int, int]], removed: set[tuple[int, int]], numbers: list[float]
) -> None:
    stretches = Stretches()
    for stretch in kept | removed:
        stretches.add(stretch)
    for stretch in removed - kept:
        stretches.remove(stretch)
    for number in numbers:
        around = list(stretches.around(number))
        assert sorted(around) == sorted((low, high) for low, high in kept if low <= ordered(number) <= high)
    for stretch in kept:
        stretches.remove(stretch)
    assert not stretches
    assert not list(stretches.around(0.0))
