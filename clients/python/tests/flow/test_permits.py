"""The semaphore: permits out, permits free, and one resize at a time."""

import pytest
from coldnotify.flow.permits import Permits
from hypothesis import given
from hypothesis import strategies as st


def test_permits_are_taken_until_there_is_none_and_given_back() -> None:
    permits = Permits(2)
    assert [permits.take(), permits.take(), permits.take()] == [True, True, False]
    permits.give_back()
    assert (permits.free, permits.in_flight, permits.take()) == (1, 1, True)


def test_a_batch_is_taken_as_a_whole_if_one_permit_is_free() -> None:
    permits = Permits(3)
    assert permits.take(2)
    assert permits.take(5)
    assert (permits.in_flight, permits.free, permits.shrinking) == (7, 0, False)
    assert not permits.take()
    permits.give_back(5)
    assert permits.take()


def test_a_lower_limit_takes_no_permit_away_and_no_other_resize_begins_before_it_is_in_force() -> None:
    permits = Permits(3)
    assert permits.take(3)
    permits.resize(1)
    assert (permits.free, permits.in_flight, permits.shrinking) == (0, 3, True)
    with pytest.raises(ValueError, match=r"limit: 1 is not in force yet, 3 are out"):
        permits.resize(5)
    permits.give_back(2)
    permits.resize(5)
    assert (permits.free, permits.shrinking) == (4, False)


def test_wrong_use_is_told() -> None:
    with pytest.raises(ValueError, match=r"limit: 0 is less than 1"):
        Permits(0)
    with pytest.raises(ValueError, match=r"count: 1 permits are given back, 0 are out"):
        Permits(1).give_back()


@given(st.integers(1, 20), st.lists(st.tuples(st.sampled_from(["take", "give back", "resize"]), st.integers(1, 25))))
def test_free_permits_are_never_negative_and_none_is_lost(limit: int, steps: list[tuple[str, int]]) -> None:
    permits, out, pending = Permits(limit), 0, False
    for step, number in steps:
        if step == "take":
            taken = permits.take(number)
            assert taken == (out < permits.limit)
            out += number if taken else 0
        elif step == "give back" and number <= out:
            permits.give_back(number)
            out -= number
            pending = pending and out > permits.limit
        elif step == "resize" and not permits.shrinking:
            pending = number < min(permits.limit, out)
            permits.resize(number)
        assert permits.in_flight == out
        assert permits.free == max(0, permits.limit - out)
        assert permits.shrinking == pending
