"""Memory that many connections took is given back to the system when they are gone.

What Python frees, glibc keeps for the next time: behind a flood of TLS handshakes a process would hold hundreds of MiB
until its end.
"""

import ctypes
from collections.abc import Callable

FALL_MIN = 500
"""So many connections less than there were make it worth while: 5 to 50 KiB each."""
_EVERY_S = 10.0
"""It takes some 20 ms for 100 MiB, in which nothing else is done."""


def malloc_trim() -> None:
    """Has glibc give back whole pages that nobody uses, in the midst of its heap, too. Elsewhere nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class Ebb:
    """Sees connections go. `tick` it now and then."""

    def __init__(self, give_back: Callable[[], None] = malloc_trim) -> None:
        self._give_back = give_back
        self._peak = 0
        """The most since memory was given back last."""
        self._last = 0
        self._not_before_s = float("-inf")

    def tick(self, connections: int, now_s: float, peak: int) -> bool:
        """There are so many now. Returns whether memory was given back: when many have gone, and no more are going.

        `peak`: the most since the last tick, or a bound of it. A flood may come and go between two.
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
