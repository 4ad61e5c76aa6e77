"""Controls Python's cyclic garbage collection: young objects often, all objects rarely.

A collection stops everything else. With 200,000 objects it takes 0.14 s, with the 3 million of 60,000 queries 1.3 s. By
default Python collects all generations whenever their number has grown by a quarter, however many are in use; and
nearly all are.
"""

import gc
from collections.abc import Callable

YOUNG = 5_000
"""The number of new objects that starts a collection of them and of what the last two have left: some 4 ms. The
thousands of tuples in a batch of records do not count.
"""
_NEVER = 1_000_000_000
AT_LEAST_EVERY_S = 600.0
"""How often all objects are collected, if that is quick. Nothing is known to need it; it is for
garbage of libraries.
"""
SHARE = 0.000_2
"""The largest share of the time, if a collection takes long."""


class Garbage:
    """Decides when to collect all objects: after something large with reference cycles was dropped, and otherwise
    rarely.
    """

    def __init__(self, now_s: float, collect: Callable[[], object] = gc.collect) -> None:
        self._collect = collect
        self._due_s = now_s + AT_LEAST_EVERY_S
        self._dropped = False

    def begin(self) -> None:
        """From now on Python collects only young objects by itself."""
        gc.set_threshold(YOUNG, 1, _NEVER)

    def on_dropped(self) -> None:
        """Notes that something large is no longer in use, or will not be after this step."""
        self._dropped = True

    def is_due(self, now_s: float) -> bool:
        """Returns true if `look` must be called."""
        return self._dropped or now_s >= self._due_s

    def look(self, clock: Callable[[], float]) -> None:
        """Look at all, now."""
        began_s = clock()
        self._collect()
        ended_s = clock()
        self._dropped = False
        self._due_s = ended_s + max(AT_LEAST_EVERY_S, (ended_s - began_s) / SHARE)
