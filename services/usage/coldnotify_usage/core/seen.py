"""The counts of one tenant since a node's boot (`SeenCounts`), and their stored form."""

from operator import attrgetter

import msgspec
from coldnotify_schemas.tenant_usage import COUNT_MAX, GAUGES, TenantCounters

from coldnotify_usage.core.highs import NO_COUNTS, Counts, Highs, above, counts_of, highest

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOURS_KEPT = 3
"""Hours kept of each counter. A record is read within its hour or, if the job was away, after all earlier ones."""
DAYS_KEPT = 2
_TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999: no history has a later hour."""
_WINDOWS_MAX = 100
"""Limit on hours, or days, in a stored counter: another release may keep more than this one."""

_gauges = attrgetter(*GAUGES)
NO_GAUGES = (0,) * len(GAUGES)


class _Stored(msgspec.Struct, array_like=True):
    """The stored form in the topic of the job's state: numbers only, in this order."""

    at_ms: int
    gauges: tuple[int, ...]
    hours_before: Counts
    hours: dict[int, Counts]
    days_before: Counts
    days: dict[int, Counts]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Stored)


class SeenCounts:
    """The highest counts of (tenant, node, start of the node), in all and by hour and day; its gauges, its rate."""

    __slots__ = ("at_ms", "days", "gauges", "hours", "rate", "rate_at_ms", "top")

    def __init__(self) -> None:
        """Nothing was read yet."""
        self.at_ms = 0
        """Time of the newest record."""
        self.top: Counts = NO_COUNTS
        self.hours = Highs(HOURS_KEPT)
        self.days = Highs(DAYS_KEPT)
        self.gauges: tuple[int, ...] = NO_GAUGES
        self.rate: tuple[float, ...] | None = None
        """Per second, from one record to the next; None: not measured since the job took it over."""
        self.rate_at_ms = 0
        """Time of that record, by the broker's clock."""

    def add(self, at_ms: int, counters: TenantCounters, interval_ms: int | None, broker_ms: int) -> tuple[Counts, bool]:
        """Adds a record's counters. Returns the rise of the highest counts, and whether anything new must be stored.

        `interval_ms`: the time of the rise; None: unknown, so no rate is measured.
        """
        counts = counts_of(counters)
        rise = above(counts, self.top)
        if any(rise):
            self.top = highest(self.top, counts)
        changed = self.hours.add(at_ms // HOUR_MS, counts)
        changed = self.days.add(at_ms // DAY_MS, counts) or changed
        if at_ms >= self.at_ms:
            gauges: tuple[int, ...] = _gauges(counters)
            changed = changed or gauges != self.gauges
            self.at_ms, self.gauges = at_ms, gauges
            if interval_ms is not None:
                self.rate = tuple(1000 * one / interval_ms for one in rise)
                self.rate_at_ms = broker_ms
        return rise, changed

    def encode(self) -> bytes:
        """Returns the value to store."""
        hours, days = self.hours, self.days
        return _encoder.encode(_Stored(self.at_ms, self.gauges, hours.before, hours.windows, days.before, days.windows))

    @classmethod
    def decode(cls, value: bytes) -> "SeenCounts":
        """Parses the result of encode(), even of a release with fewer counters, or with further ones after ours. Raises
        ValueError.
        """
        stored = _decoder.decode(value)
        for numbers in (stored.gauges, stored.hours_before, stored.days_before):
            _check(numbers)
        for windows in (stored.hours, stored.days):
            if len(windows) > _WINDOWS_MAX:
                raise ValueError(f"hours or days: are {len(windows)} (at most {_WINDOWS_MAX})")
            for counts in windows.values():
                _check(counts)
        hours_ms, days_ms = (hour * HOUR_MS for hour in stored.hours), (day * DAY_MS for day in stored.days)
        _check((stored.at_ms, *hours_ms, *days_ms), _TIME_MS_MAX)
        seen = cls()
        seen.at_ms, seen.gauges = stored.at_ms, _as_long_as(NO_GAUGES, stored.gauges)
        seen.hours = _highs(HOURS_KEPT, stored.hours_before, stored.hours)
        seen.days = _highs(DAYS_KEPT, stored.days_before, stored.days)
        for one in (seen.hours.before, *seen.hours.windows.values()):
            seen.top = highest(seen.top, one)
        return seen


def _check(numbers: tuple[int, ...], most: int = COUNT_MAX) -> None:
    """Whoever may write to the topic may write any numbers."""
    if not all(0 <= number <= most for number in numbers):
        raise ValueError(f"a number is out of range (0 to {most})")


def _highs(kept: int, before: Counts, windows: dict[int, Counts]) -> Highs:
    return Highs(
        kept,
        _as_long_as(NO_COUNTS, before),
        {window: _as_long_as(NO_COUNTS, counts) for window, counts in windows.items()},
    )


def _as_long_as(zeros: tuple[int, ...], numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers[: len(zeros)], *zeros[len(numbers) :])
