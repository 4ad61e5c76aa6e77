"""The clock of a client: seconds that count what the machine sleeps, too, and never go back.

CLOCK_MONOTONIC stands still while a machine sleeps in RAM. By it a connection that died meanwhile looks as if it had
been heard of a moment ago.
"""

import time
from collections.abc import Callable


def sleep_counting_clock() -> Callable[[], float]:
    """CLOCK_BOOTTIME, where there is one (Linux)."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return TwoClocks() if boottime is None else lambda: time.clock_gettime(boottime)


class TwoClocks:
    """Elsewhere: from one call to the next, the greater of what the monotonic and the wall clock say has passed.

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
