"""Returns memory to the operating system after many connections have closed.

glibc keeps what Python frees for later use: after a flood of TLS handshakes, a process would hold hundreds of MiB until
its end.
"""

import ctypes
from collections.abc import Callable

FALL_MIN = 500
"""Number of closed connections that makes returning memory worthwhile: each held 5 to 50 KiB."""
_EVERY_S = 10.0
"""Minimum time between two calls of malloc_trim, because one takes about 20 ms for 100 MiB and blocks the process."""


def malloc_trim() -> None:
    """Makes glibc return whole unused pages, also from the middle of its heap. Does nothing on other C libraries."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class Ebb:
    """Returns memory when the number of connections has fallen. Call `tick` regularly."""

    def __init__(self, give_back: Callable[[], None] = malloc_trim) -> None:
        self._give_back = give_back
        self._peak = 0
        """The largest number of connections since memory was last returned."""
        self._last = 0
        self._not_before_s = float("-inf")

    def tick(self, connections: int, now_s: float, peak: int) -> bool:
        """Reports the current number of connections. Returns true if memory was returned.

        Memory is returned once many connections have closed and the number no longer falls. `peak`: the largest number
        since the last tick, or an upper bound of it, because a flood may come and go between two ticks.
        """
        going = connections < self._last
        self._last = connections
        self._peak = max(self._peak, connections, peak)
        if going or self._peak - connections < FALL_MIN or now_s < self._not_before_s:
            return False
        self._peak = connections
        self._not_before_s = now_s + _EVERY_S
        self._give_back()
        return True
