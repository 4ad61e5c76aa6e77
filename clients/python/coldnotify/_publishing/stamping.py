"""By what clock, and with what timestamps records are stamped, so that Kafka takes them. Pure.

A timestamp counts as used once Kafka has taken it, or may have. It refuses those of more than an hour ahead of its own
clock, with all others of the same batch, and does not say what time it is. So a refused record is stamped anew by the
wall clock, which may have been set right meanwhile; and if that is refused, too, by the last offset between the wall
clock and the monotonic one with which Kafka took a record.
"""

STAMPS_MAX = 8
"""Of one record: by the clock as it was, as it is, and as it was when Kafka took a record; and each time it may be in a
batch with others that are not so far yet."""
_REFUSED_S = 60.0
"""So long the wall clock is not tried again: a record more that Kafka refuses, and then it may be right."""


class StampClock:
    """Times in s: of the wall clock (Unix time), and of the monotonic clock."""

    def __init__(self) -> None:
        self._taken_s: float | None = None
        """Wall minus monotonic, when a record was stamped that Kafka took."""
        self._refused_until_s = float("-inf")
        """Of the monotonic clock."""

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
    """The timestamps of one object's records, or of its description's."""

    __slots__ = ("_taken_ms", "_under_way")

    def __init__(self) -> None:
        self._taken_ms = -1
        """The highest that Kafka has, or may have."""
        self._under_way: list[int] = []

    def begin(self, now_ms: int) -> int:
        """The next record's: two versions of one object that are named by their time need different times."""
        return self._add(now_ms, max(self._taken_ms, *self._under_way, -1))

    def again(self, refused_ms: int, now_ms: int) -> int:
        """Of a record that was refused with that timestamp. Those that are under way with a higher one will be
        refused, too, or come after it."""
        self._under_way.remove(refused_ms)
        before = [ms for ms in self._under_way if ms < refused_ms]
        return self._add(now_ms, max(self._taken_ms, *before, -1))

    def end(self, timestamp_ms: int, *, taken: bool) -> None:
        """Kafka has the record, or may have; or it certainly has not."""
        self._under_way.remove(timestamp_ms)
        if taken:
            self._taken_ms = max(self._taken_ms, timestamp_ms)

    def _add(self, now_ms: int, above_ms: int) -> int:
        timestamp_ms = max(now_ms, above_ms + 1)
        while timestamp_ms in self._under_way:
            timestamp_ms += 1
        self._under_way.append(timestamp_ms)
        return timestamp_ms
