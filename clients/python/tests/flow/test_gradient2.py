"""Gradient2: against figures computed by hand from its description."""

import pytest
from coldnotify.flow.gradient2 import Gradient2
from coldnotify.flow.windows import Window


def window(limit: float, wait_s: float) -> Window:
    return Window(round(limit), 0.0, 1.0, 100, 100, wait_s)


def test_it_grows_by_a_fifth_of_the_queue_while_the_time_stays() -> None:
    controller = Gradient2()
    assert controller.next_limit(window(100, 1.0)) == pytest.approx(100.8)
    assert controller.next_limit(window(101, 1.0)) == pytest.approx(101.6)  # its own estimate has fractions


def test_it_shrinks_by_at_most_a_half_and_that_smoothed() -> None:
    controller = Gradient2()
    for _ in range(9):
        controller.next_limit(window(100, 1.0))
    # The tenth is in the mean, too: (9 x 1 + 1.5) / 10 = 1.05, a gradient of 0.7.
    assert controller.next_limit(window(100, 1.5)) == pytest.approx(100 + 0.2 * (70 + 4 - 100))
    assert controller.next_limit(window(100, 100.0)) == pytest.approx(100 + 0.2 * (50 + 4 - 100))


def test_a_long_term_time_of_a_load_that_is_over_is_lowered() -> None:
    controller = Gradient2()
    for _ in range(10):
        controller.next_limit(window(100, 10.0))
    for _ in range(30):
        controller.next_limit(window(100, 1.0))
    assert controller.next_limit(window(100, 4.0)) < 100


def test_a_time_of_0_is_no_gradient() -> None:
    assert Gradient2().next_limit(window(100, 0.0)) == pytest.approx(100.8)
