"""The clock of a client: seconds that include the machine's sleep, and never go back.

CLOCK_MONOTONIC stands still while a machine sleeps in RAM. By it a connection that died meanwhile would look as if data
had just arrived on it.
"""

import time
from collections.abc import Callable


def sleep_counting_clock() -> Callable[[], float]:
    """Returns CLOCK_BOOTTIME, where it exists (Linux)."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return TwoClocks() if boottime is None else lambda: time.clock_gettime(boottime)


class TwoClocks:
    """The clock for other systems: from one call to the next, the larger step of the monotonic and the wall clock.

    A wall clock that is set forward looks like a sleep, and costs a Ping. The caller holds a lock.
    """

    def __init__(self) -> None:
        self._wall_s, self._monotonic_s = time.time(), time.monotonic()
        self._now_s = self._monotonic_s

    def __call__(self) -> float:
        """Seconds."""
        wall_s, monotonic_s = time.time(), time.monotonic()
        self._now_s += max(wall_s - self._wall_s, monotonic_s - self._monotonic_s)
        self._wall_s, self._monotonic_s = wall_s, monotonic_s
        return self._now_s
