"""The limit: which windows move it, and what failures are."""

from coldnotify.flow.beginnings import KAFKA
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window


class Told:
    """Raises the limit by 10 each time, and keeps what it was told."""

    def __init__(self, step: int = 10) -> None:
        self.windows: list[Window] = []
        self.step = step

    def next_limit(self, window: Window) -> float:
        self.windows.append(window)
        return window.limit + self.step


BEGIN = KAFKA._replace(first=10, completions=10)


def flow(limit: FlowLimit, from_s: float, rounds: int, count: int, took_s: float = 1.0) -> float:
    """So many rounds of `count` in flight."""
    for _ in range(rounds):
        assert limit.take(count)
        from_s += took_s
        limit.acknowledged(from_s, from_s - took_s, count)
    return from_s


def test_a_window_that_needed_the_limit_moves_it() -> None:
    told = Told()
    limit = FlowLimit(told, 100, BEGIN)
    flow(limit, 0.0, 2, 10)
    assert limit.window is not None
    assert (limit.limit, told.windows) == (20, [limit.window])
    assert (limit.window.in_flight, limit.window.completions_per_s) == (10, 10)


def test_the_limit_stays_if_demand_needs_less() -> None:
    told = Told()
    limit = FlowLimit(told, 100, BEGIN)
    flow(limit, 0.0, 9, 7)
    assert limit.window is not None
    assert (limit.limit, told.windows, limit.window.completions_per_s) == (10, [], 7)


def test_the_limit_has_a_highest_and_a_lowest() -> None:
    limit = FlowLimit(Told(), 15, BEGIN)
    flow(limit, 0.0, 2, 10)
    assert limit.limit == 15
    limit = FlowLimit(Told(-50), 15, BEGIN._replace(lowest=4))
    flow(limit, 0.0, 2, 10)
    assert limit.limit == 4


def test_a_batch_is_within_the_highest_limit_or_alone() -> None:
    limit = FlowLimit(Told(), 15, BEGIN)
    assert limit.take(20)
    limit.failed(20)
    assert limit.take(8)
    assert not limit.take(8)
    assert limit.take(7)


def test_while_a_lower_limit_is_not_in_force_no_window_moves_it() -> None:
    told = Told(-9)
    limit = FlowLimit(told, 100, BEGIN._replace(completions=2))
    assert limit.take(10)
    for now_s in (11.0, 12.0, 13.0):
        limit.acknowledged(now_s, 0.0)
        limit.take()
    assert (limit.limit, limit.in_flight, len(told.windows)) == (1, 8, 1)
    for now_s in (14.0, 15.0, 16.0, 17.0):
        limit.acknowledged(now_s, now_s)
    assert (limit.limit, limit.in_flight, len(told.windows)) == (1, 4, 1)


def test_failures_give_permits_back_and_are_no_points() -> None:
    told = Told()
    limit = FlowLimit(told, 100, BEGIN)
    for _ in range(50):
        assert limit.take(10)
        limit.failed(10)
    assert (limit.in_flight, limit.window, told.windows) == (0, None, [])
