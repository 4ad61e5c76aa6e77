"""Last Three Points, row by row of its table."""

import pytest
from coldnotify.flow.last_three_points import LastThreePoints, steps_of
from coldnotify.flow.windows import Window


@pytest.mark.parametrize(
    ("a", "b", "c", "steps"),
    [
        (100, 110, 120, -1),  # on a line: b > a, c > b
        (100, 110, 124, -1),  # off by 4 of 124
        (120, 110, 100, 1),  # on a line, otherwise
        (100, 100, 100, 1),
        (100, 102, 100, 1),
        (100, 100, 104, 1),
        (200, 100, 90, 2),  # b < a, c <= b
        (200, 100, 100, 2),
        (200, 100, 150, 0),  # b < a, c > b
        (100, 200, 150, 0),  # b > a, c <= b
        (100, 200, 200, 0),
        (100, 110, 200, -2),  # b >= a, c > b
        (100, 100, 200, -2),
        (100, 100, 50, 1),  # b = a, c < b
    ],
)
def test_each_row_of_the_table(a: float, b: float, c: float, steps: int) -> None:
    assert steps_of(a, b, c) == steps


def window(limit: int, wait_s: float) -> Window:
    return Window(limit, 0.0, 1.0, 100, 100, wait_s)


def test_three_windows_raise_the_limit_and_then_the_last_three_decide() -> None:
    controller = LastThreePoints(100)
    assert [controller.next_limit(window(limit, 1.0)) for limit in (1000, 1100, 1200)] == [1100, 1200, 1300]
    assert controller.next_limit(window(1300, 2.0)) == 1100  # 1, 1, 2: two down
    assert controller.next_limit(window(1100, 1.0)) == 1100  # 1, 2, 1
    assert controller.next_limit(window(1100, 0.5)) == 1300  # 2, 1, 0.5
