"""Bottleneck: the gain times throughput times the smallest time, and drains."""

from coldnotify.flow.bottleneck import DRAIN_EVERY, DRAIN_FOR, MEMORY, Bottleneck
from coldnotify.flow.windows import Window


def window(limit: float, wait_s: float, ended_s: float) -> Window:
    return Window(round(limit), ended_s, 1.0, 100, 100, wait_s)


def begun(controller: Bottleneck, wait_s: float = 1.0) -> None:
    """The first drain, until the smallest time is known."""
    assert controller.next_limit(window(100, 8.0, 10)) == 25  # 100 / (2 x 2)
    assert controller.next_limit(window(25, wait_s, 11)) == 12.5
    assert controller.next_limit(window(12, wait_s, 12)) == 100


def test_it_begins_with_a_drain_and_then_moves_to_where_the_time_is_the_gain_times_the_smallest() -> None:
    controller = Bottleneck(2.0, 1.0)
    begun(controller)
    assert round(controller.next_limit(window(100, 8.0, 13))) == 67  # half of the way is to 50: a step is bounded
    assert controller.next_limit(window(100, 2.0, 14)) == 100
    assert round(controller.next_limit(window(100, 1.0, 15))) == 141  # half of the way, in logarithms


def test_a_drain_goes_on_while_less_in_flight_shortens_the_time() -> None:
    controller = Bottleneck(2.0, 1.0)
    waits_s = (64.0, 16.0, 8.0, 4.0, 3.9)
    limits = [controller.next_limit(window(100, wait_s, 10 + index)) for index, wait_s in enumerate(waits_s)]
    assert limits == [25, 12.5, 6.25, 3.125, 100]


def test_a_drain_ends_at_one_in_flight() -> None:
    controller = Bottleneck(2.0, 1.0)
    limits = [controller.next_limit(window(4, 64.0 / 2**index, 10 + index)) for index in range(2)]
    assert limits == [1, 4]


def test_drains_are_by_the_clock_that_is_the_same_for_all() -> None:
    one, other = Bottleneck(2.0, 1.0), Bottleneck(2.0, 1.0, unix_s=1010.0)
    for at_s in (10, 11):
        one.next_limit(window(100, 2.0, at_s))
        other.next_limit(window(100, 2.0, at_s - 1010))
    for at_s in range(12, 200):
        drained = one.next_limit(window(100, 2.0, at_s)) < 100
        assert drained == (at_s % DRAIN_EVERY < DRAIN_FOR)
        assert drained == (other.next_limit(window(100, 2.0, at_s - 1010)) < 100)


def test_a_smallest_time_is_forgotten() -> None:
    controller = Bottleneck(2.0, 1.0)
    begun(controller)
    assert controller.next_limit(window(100, 4.0, 12 + MEMORY)) < 100
    assert controller.next_limit(window(100, 4.0, 13 + MEMORY)) > 100  # now 4 is the smallest


def test_without_a_time_the_limit_stays() -> None:
    controller = Bottleneck(2.0, 1.0)
    assert [controller.next_limit(window(100, 0.0, 10 + number)) for number in range(3)] == [25, 100, 100]
