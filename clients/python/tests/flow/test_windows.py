"""Windows: what is counted, from when on, and Little's law."""

import pytest
from coldnotify.flow.windows import Measuring, Window


def test_a_window_says_the_rates_the_time_and_what_was_in_flight() -> None:
    window = Window(limit=10, ended_s=9.0, seconds=2.0, arrivals=40, completions=30, wait_s=0.5)
    assert (window.arrivals_per_s, window.completions_per_s, window.in_flight) == (20, 15, 10)


@pytest.mark.parametrize(("limit", "is_point"), [(10, True), (12, True), (13, False), (1000, False)])
def test_a_window_whose_demand_did_not_need_the_limit_is_not_a_point(limit: int, is_point: bool) -> None:
    """L is 10: 0.8 of 12.5."""
    assert Window(limit, 0.0, 1.0, arrivals=20, completions=20, wait_s=0.5).is_point is is_point


def test_it_ends_after_so_many_completions_and_the_next_one_begins() -> None:
    measuring = Measuring(2, 60)
    assert measuring.completed(1.0, 0.5, 1, 7) is None  # begins it
    measuring.arrived(3)
    assert measuring.completed(2.0, 1.0, 1, 7) is None
    assert measuring.completed(3.0, 0.0, 1, 7) == Window(7, 3.0, 2.0, 3, 2, 2.0)
    assert measuring.completed(4.0, 3.0, 2, 7) == Window(7, 4.0, 1.0, 0, 2, 1.0)


def test_it_ends_after_so_long_at_the_next_completion() -> None:
    measuring = Measuring(1000, 1.0)
    measuring.completed(1.0, 0.5, 1, 7)
    assert measuring.completed(1.9, 1.5, 1, 7) is None
    window = measuring.completed(2.5, 2.4, 2, 7)
    assert window is not None
    assert (window.seconds, window.completions) == (1.5, 3)
    assert window.wait_s == pytest.approx((0.4 + 0.2) / 3)


def test_after_a_resize_only_what_was_taken_since_counts() -> None:
    measuring = Measuring(1, 60)
    measuring.completed(1.0, 0.5, 1, 7)
    measuring.resized(2.0)
    assert measuring.completed(3.0, 1.9, 1, 8) is None  # waited under the limit before
    measuring.arrived(5)
    assert measuring.completed(4.0, 2.0, 1, 8) is None  # begins the window
    measuring.arrived(1)
    assert measuring.completed(5.0, 4.0, 1, 8) == Window(8, 5.0, 1.0, 1, 1, 1.0)


def test_completions_of_one_moment_make_no_window_without_a_duration() -> None:
    measuring = Measuring(1, 60)
    assert [measuring.completed(1.0, 0.5, 1, 7) for _ in range(3)] == [None] * 3
    window = measuring.completed(2.0, 1.0, 1, 7)
    assert window is not None
    assert window.completions == 3
