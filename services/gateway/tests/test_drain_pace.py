"""The pace at which clients are sent away, at times that are looked at evenly, late, and too often."""

import pytest
from coldnotify_gateway.drain_pace import DrainPace


@pytest.mark.parametrize("per_s", [0.5, 1, 4, 19, 30, 2000])
def test_it_is_kept_whatever_the_step(per_s: float) -> None:
    pace = DrainPace(per_s, 100)
    taken = [pace.take(100 + step / 20) for step in range(20 * 10 + 1)]
    assert taken[0] == 1, "the first does not wait"
    # The times are not exact: one connection may fall into the next step.
    assert 10 * per_s - 1 <= sum(taken) - 1 <= 10 * per_s
    for step in range(len(taken)):
        assert sum(taken[: step + 1]) <= 1 + step / 20 * per_s + 0.001


def test_who_looks_late_catches_up_and_nothing_is_taken_twice() -> None:
    pace = DrainPace(4, 100)
    assert [pace.take(now_s) for now_s in (100, 100.1, 103, 103, 103.25)] == [1, 0, 12, 0, 1]
