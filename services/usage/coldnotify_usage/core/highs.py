"""Highest counts by window: what a cumulative counter counted in an hour or a day.

A window's count is a difference of two maxima: the highest count that was read in it, less the highest that was read
in any window before. So a record that is read twice, or behind a later one, changes nothing; one that is lost is made
good by the next.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add, attrgetter

from coldnotify_schemas.tenant_usage import CUMULATIVE, TenantCounters

Counts = tuple[int, ...]
"""One number for each of CUMULATIVE, in that order."""
NO_COUNTS: Counts = (0,) * len(CUMULATIVE)

_cumulative = attrgetter(*CUMULATIVE)


def counts_of(counters: TenantCounters) -> Counts:
    """The cumulative fields."""
    counts: Counts = _cumulative(counters)
    return counts


def counters_of(counts: Counts) -> TenantCounters:
    """The same the other way round."""
    return TenantCounters(**dict(zip(CUMULATIVE, counts, strict=True)))


def highest(one: Counts, other: Counts) -> Counts:
    """Field by field."""
    return tuple(map(max, one, other))


def above(one: Counts, floor: Counts) -> Counts:
    """Returns, field by field, how far `one` is above `floor`; 0 if it is not."""
    return tuple(a - b if a > b else 0 for a, b in zip(one, floor, strict=True))


def plus(one: Counts, other: Counts) -> Counts:
    """Field by field."""
    return tuple(map(add, one, other))


def total(several: Iterable[Counts]) -> Counts:
    """The sum, field by field."""
    return reduce(plus, several, NO_COUNTS)


class Highs:
    """One cumulative count: its highest value in each of the last windows, and the highest before them."""

    __slots__ = ("before", "kept", "windows")

    def __init__(self, kept: int, before: Counts = NO_COUNTS, windows: dict[int, Counts] | None = None) -> None:
        """`kept`: so many windows in which something was read are kept apart. `windows`: by number."""
        self.kept = kept
        self.before = before
        self.windows: dict[int, Counts] = windows if windows is not None else {}

    def add(self, window: int, counts: Counts) -> bool:
        """Counts that were read in a window; whether this changes anything."""
        known = self.windows.get(window)
        if known is not None:
            if known == counts:
                return False
            raised = highest(known, counts)
            if raised == known:
                return False
            self.windows[window] = raised
            return True
        if len(self.windows) >= self.kept:
            oldest = min(self.windows)
            if window < oldest:
                # So late that its window is closed: only what it hides of the kept ones can be told.
                raised = highest(self.before, counts)
                changed, self.before = raised != self.before, raised
                return changed
            self.before = highest(self.before, self.windows.pop(oldest))
        self.windows[window] = counts
        return True

    def counted(self, window: int) -> Counts:
        """Returns the count within a kept window; nothing for any other."""
        high = self.windows.get(window)
        if high is None:
            return NO_COUNTS
        floor = self.before
        for number, earlier in self.windows.items():
            if number < window:
                floor = highest(floor, earlier)
        return above(high, floor)
