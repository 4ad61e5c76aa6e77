"""The token bucket: whatever is asked, no more than the rate and the burst come through, and waiting helps."""

import pytest
from coldnotify_common.tenancy.token_bucket import TokenBucket
from hypothesis import given
from hypothesis import strategies as st

ASKED = st.lists(st.tuples(st.floats(0, 5), st.integers(1, 30)), max_size=50)


@given(ASKED, st.floats(0.5, 100), st.floats(1, 50))
def test_no_more_than_the_rate_and_one_burst(asked: list[tuple[float, int]], rate: float, capacity: float) -> None:
    bucket, now_s, taken = TokenBucket(rate, capacity, 0.0), 0.0, 0
    for pause_s, cost in asked:
        now_s += pause_s
        if bucket.wait_s(cost, now_s) == 0:
            bucket.take(cost)
            taken += cost
            largest = max(cost for _, cost in asked)
            assert taken <= now_s * rate + max(capacity, largest) + 0.001


@given(ASKED, st.floats(0.5, 100), st.floats(1, 50))
def test_who_waits_as_long_as_told_is_let_in(asked: list[tuple[float, int]], rate: float, capacity: float) -> None:
    bucket, now_s = TokenBucket(rate, capacity, 1000.0), 1000.0
    for pause_s, cost in asked:
        now_s += pause_s
        now_s += bucket.wait_s(cost, now_s)
        assert bucket.wait_s(cost, now_s) == 0
        bucket.take(cost)


def test_what_is_more_than_it_holds_passes_when_it_is_full_and_leaves_a_debt() -> None:
    bucket = TokenBucket(10, 20, 0.0)
    assert bucket.wait_s(100, 0.0) == 0
    bucket.take(100)
    assert bucket.wait_s(1, 0.0) == pytest.approx(8.1)
    assert bucket.wait_s(100, 0.0) == pytest.approx(10)


def test_a_change_counts_from_then_on() -> None:
    bucket = TokenBucket(10, 20, 0.0)
    bucket.take(20)
    bucket.change(100, 200, 1.0)  # ten have come
    assert bucket.wait_s(10, 1.0) == 0
    bucket.take(10)
    assert bucket.wait_s(100, 1.0) == pytest.approx(1)
    bucket.change(1, 2, 3.0)
    assert bucket.wait_s(2, 3.0) == 0
    bucket.take(2)
    assert bucket.wait_s(2, 2.0) == pytest.approx(2), "a clock that went back gives nothing"
