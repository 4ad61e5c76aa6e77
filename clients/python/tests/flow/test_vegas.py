"""Vegas: by the queue that it estimates."""

import pytest
from coldnotify.flow.vegas import Vegas
from coldnotify.flow.windows import Window


def window(limit: float, wait_s: float) -> Window:
    return Window(round(limit), 0.0, 1.0, 100, 100, wait_s)


@pytest.mark.parametrize(
    ("wait_s", "limit"),
    [
        (1.0, 1018),  # no queue: 6 logarithms more
        (1.002, 1018),  # 2 of 1,000
        (1.008, 1003),  # 8 of 1,000
        (1.012, 1000),  # 12: between 9 and 18
        (1.05, 997),  # 48
        (9.0, 997),
    ],
)
def test_it_moves_by_logarithms_of_the_limit(wait_s: float, limit: float) -> None:
    controller = Vegas()
    assert controller.next_limit(window(1000, 1.0)) == 1000  # the smallest until now: nothing to compare with
    assert controller.next_limit(window(1000, wait_s)) == limit


def test_now_and_then_the_present_time_is_taken_for_the_smallest() -> None:
    controller = Vegas()
    controller.next_limit(window(2, 1.0))
    limits = [controller.next_limit(window(2, 4.0)) for _ in range(60)]
    assert limits.count(2) >= 1
    assert controller.next_limit(window(2, 4.0)) > 1


def test_it_does_not_get_below_1_and_a_time_of_0_is_no_queue() -> None:
    controller = Vegas()
    controller.next_limit(window(1, 1.0))
    assert controller.next_limit(window(1, 1.0)) == 7
    assert Vegas().next_limit(window(5, 0.0)) == 5
