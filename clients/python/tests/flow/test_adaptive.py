"""Adaptive, row by row of its table, and the slopes."""

import pytest
from coldnotify.flow.adaptive import Adaptive, slope, steps_of
from coldnotify.flow.windows import Window


@pytest.mark.parametrize(
    ("throughput", "wait", "steps"),
    [
        (0.06, -0.06, 3),
        (0.06, -0.05, 2),
        (0.06, -0.01, 2),
        (0.06, 0.0, 1),
        (0.06, 0.019, 1),
        (0.06, 0.02, 0),
        (0.06, 0.049, 0),
        (0.06, 0.05, -1),
        (-0.06, -0.5, -1),
        (-0.06, 0.5, -1),
        (0.05, -0.06, 1),
        (0.0, -0.06, 1),
        (0.0, 0.06, -1),
        (-0.05, 0.06, -1),
        (0.0, 0.05, 0),
        (0.0, -0.05, 0),
    ],
)
def test_each_row_of_the_table(throughput: float, wait: float, steps: int) -> None:
    assert steps_of(throughput, wait) == steps


def test_slopes_are_of_the_least_squares_and_by_the_mean() -> None:
    assert slope([1, 2, 3, 4, 5]) == pytest.approx(1 / 3)
    assert slope([5, 4, 3, 2, 1]) == pytest.approx(-1 / 3)
    assert slope([1, 3, 1, 3, 1]) == pytest.approx(0)
    assert slope([0, 0, 0]) == 0


def test_five_windows_decide_and_fewer_raise_the_limit() -> None:
    controller = Adaptive(100)

    def next_limit(limit: int, completions: int, wait_s: float) -> float:
        return controller.next_limit(Window(limit, 0.0, 1.0, completions, completions, wait_s))

    assert [next_limit(1000, 100, 1.0) for _ in range(4)] == [1100] * 4
    assert next_limit(1000, 100, 1.0) == 1000
    assert next_limit(1000, 100, 3.0) == 900
    assert Adaptive(100, steep=9.0).next_limit(Window(7, 0.0, 1.0, 1, 1, 1.0)) == 107
