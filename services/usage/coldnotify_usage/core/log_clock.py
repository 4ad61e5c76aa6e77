"""Tells the time at the end of what was read of a log (`LogClock`): records that wait to be read are older."""

LATE_MS_MAX = 60_000
"""A record may be older than the broker's time for it by so much: a node gives up writing after 30 s."""


def time_of(at_ms: int, broker_ms: int) -> int:
    """Returns when a record was made: its node's time if it agrees with the broker's; else the nearest time that does.

    So a node with a wrong clock is counted nevertheless, and does not change another node's hour.
    """
    return min(max(at_ms, broker_ms - LATE_MS_MAX), broker_ms)


class LogClock:
    """The clock of one partition."""

    def __init__(self) -> None:
        self._behind_ms: int | None = None
        self._newest_ms = 0

    def on_record(self, broker_ms: int, now_ms: int) -> None:
        """A record was read; `now_ms` is this process' clock."""
        self._newest_ms = max(self._newest_ms, broker_ms)
        self._behind_ms = max(now_ms - self._newest_ms, 0)

    @property
    def behind_ms(self) -> int:
        """Returns how far reading was behind writing at the last record; 0 if nothing was read yet."""
        return self._behind_ms or 0

    def read(self, now_ms: int) -> int | None:
        """The time up to which everything was read; None: nothing was read yet."""
        return None if self._behind_ms is None else max(now_ms - self._behind_ms, self._newest_ms)
