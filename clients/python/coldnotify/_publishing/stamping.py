"""Chooses the timestamps of records so that Kafka accepts them. Pure.

A timestamp counts as used once Kafka has accepted it, or may have. It refuses those of more than an hour ahead of its
own clock, with all others of the same batch, and does not tell its time. So a refused record is stamped again by the
wall clock, which may have been corrected meanwhile; and if that is refused, too, by the last offset between the wall
clock and the monotonic one with which Kafka accepted a record.
"""

STAMPS_MAX = 8
"""Limit for one record: by the clock as it was, as it is, and as it was when Kafka accepted a record; and each time it
may be in a batch with others that are less far.
"""
_REFUSED_S = 60.0
"""So long the wall clock is not tried again: a record more that Kafka refuses, and then it may be right."""


class StampClock:
    """Times in s: of the wall clock (Unix time), and of the monotonic clock."""

    def __init__(self) -> None:
        self._taken_s: float | None = None
        """Wall minus monotonic, when a record was stamped that Kafka took."""
        self._refused_until_s = float("-inf")
        """By the monotonic clock."""

    def now_ms(self, wall_s: float, monotonic_s: float) -> int:
        """The time in ms that Kafka is likely to take."""
        if monotonic_s < self._refused_until_s and self._taken_s is not None:
            return int((self._taken_s + monotonic_s) * 1000)
        return int(wall_s * 1000)

    def taken(self, offset_s: float) -> None:
        """Kafka took a record that was stamped by this offset."""
        self._taken_s = offset_s

    def refused(self, monotonic_s: float) -> None:
        """Kafka refused a record that was stamped for a second time, by the wall clock."""
        self._refused_until_s = monotonic_s + _REFUSED_S


class Stamps:
    """The timestamps of one object's records, or of its description's: two versions that are numbered by their time
    need different times, in the order of their publishes.
    """

    __slots__ = ("_last", "_taken_ms", "_under_way")

    def __init__(self) -> None:
        self._taken_ms = -1
        """The highest that Kafka has, or may have."""
        self._under_way: dict[int, int] = {}
        """By number, in the order of their publishes."""
        self._last = 0

    def begin(self, now_ms: int) -> tuple[int, int]:
        """(number, timestamp) of the next record."""
        self._last += 1
        self._under_way[self._last] = max(now_ms, 1 + max(self._taken_ms, *self._under_way.values(), -1))
        return self._last, self._under_way[self._last]

    def again(self, number: int, now_ms: int) -> int:
        """Another one for a record that was refused. Those that are under way with times to come will be, too."""
        del self._under_way[number]
        plausible = {other: ms for other, ms in self._under_way.items() if ms <= now_ms}
        above_ms = max(self._taken_ms, *(ms for other, ms in plausible.items() if other < number), -1)
        below_ms = min((ms for other, ms in plausible.items() if other > number), default=now_ms + 1)
        timestamp_ms = max(above_ms + 1, min(now_ms, below_ms - 1))
        while timestamp_ms in self._under_way.values():
            timestamp_ms += 1
        self._under_way = dict(sorted([*self._under_way.items(), (number, timestamp_ms)]))
        return timestamp_ms

    def end(self, number: int, *, taken: bool) -> None:
        """Kafka has the record, or may have; or it certainly has not."""
        timestamp_ms = self._under_way.pop(number)
        if taken:
            self._taken_ms = max(self._taken_ms, timestamp_ms)
