"""When Python looks for objects that only refer to each other: among the youngest often, among all hardly ever.

While it looks, nothing else is done. A look at 200,000 objects takes 0.14 s, at the 3 million of 60,000 queries 1.3 s.
By itself Python looks at all whenever a quarter has come newly, however much of that is in use; and nearly all is.
"""

import gc
from collections.abc import Callable

YOUNG = 5_000
"""So many new ones are looked at, and what is left of the last two such looks once more: some 4 ms. A batch is of
thousands of tuples, which go without it."""
_NEVER = 1_000_000_000
AT_LEAST_EVERY_S = 600.0
"""All are looked at this often, if that is short. Nothing is known to need it: it is for what a library leaves."""
SHARE = 0.000_2
"""Of the time at most, if it is long."""


class Garbage:
    """When to look at all: once something large is dropped, whose parts refer to each other, and otherwise rarely."""

    def __init__(self, now_s: float, collect: Callable[[], object] = gc.collect) -> None:
        self._collect = collect
        self._due_s = now_s + AT_LEAST_EVERY_S
        self._dropped = False

    def begin(self) -> None:
        """From now on Python looks at the young only."""
        gc.set_threshold(YOUNG, 1, _NEVER)

    def on_dropped(self) -> None:
        """Something large is in use no more, or will not be once the present step is over."""
        self._dropped = True

    def is_due(self, now_s: float) -> bool:
        """Whether `look` is to be called."""
        return self._dropped or now_s >= self._due_s

    def look(self, clock: Callable[[], float]) -> None:
        """Look at all, now."""
        began_s = clock()
        self._collect()
        ended_s = clock()
        self._dropped = False
        self._due_s = ended_s + max(AT_LEAST_EVERY_S, (ended_s - began_s) / SHARE)
