"""The clock that counts sleep."""

import time

from coldnotify._clock import TwoClocks, sleep_counting_clock


def test_it_goes_on():
    now = sleep_counting_clock()
    before = now()
    assert now() >= before


def test_elsewhere_it_is_the_greater_of_what_two_clocks_say_has_passed(monkeypatch):
    clocks = {"wall": 1_000_000.0, "monotonic": 50.0}
    monkeypatch.setattr(time, "time", lambda: clocks["wall"])
    monkeypatch.setattr(time, "monotonic", lambda: clocks["monotonic"])
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    now = sleep_counting_clock()
    assert isinstance(now, TwoClocks)
    began: float = now()

    def passed(wall_s: float, monotonic_s: float) -> float:
        clocks["wall"] += wall_s
        clocks["monotonic"] += monotonic_s
        return float(now() - began)

    assert passed(3.0, 3.0) == 3.0
    assert passed(200.0, 0.5) == 203.0  # it slept
    assert passed(-3600.0, 1.0) == 204.0  # the wall clock was set back: no time is lost, and none goes back
    assert passed(2.0, 2.0) == 206.0
