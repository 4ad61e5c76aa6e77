"""A gateway's lag: the age of its oldest unread inbox record, as its Beats report it.

A Beat names the last inbox record that the gateway has handled. The next one is the oldest that it has not handled, and
the marks here say when that was made. So the lag is a time, whatever the size and the number of records. It includes
the Beat's own way to the matcher, and its wait there.
"""

from bisect import bisect_right
from operator import itemgetter

MARK_EVERY_MS = 100
"""Precision of the lag: records made this close to each other share the first one's time."""
MARKS_MAX = 256
"""25 s of records: Beats come every 5 s, and without any for 15 s the gateway is taken for dead."""

_number_of = itemgetter(0)


class InboxLag:
    """The inbox records of one gateway, by number, and when they were made (Unix ms)."""

    __slots__ = ("_marks", "lag_ms")

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = []
        """(number, when it was made), both rising, a mark at most each MARK_EVERY_MS."""
        self.lag_ms = 0
        """The lag as of the last Beat."""

    def made(self, number: int, now_ms: int) -> None:
        """Note that a record with this number was made."""
        marks = self._marks
        # A clock that was set back begins a mark, too.
        if marks and 0 <= now_ms - marks[-1][1] < MARK_EVERY_MS:
            return
        marks.append((number, now_ms))
        if len(marks) > MARKS_MAX:
            del marks[1 : MARKS_MAX // 2 : 2]  # the older a lag, the less its precision matters

    def read(self, number: int, last: int, now_ms: int) -> int:
        """Note that the gateway has handled all up to `number`; `last` is the last one made. Returns the lag (ms), and
        keeps it."""
        at = max(0, bisect_right(self._marks, number + 1, key=_number_of) - 1)
        del self._marks[:at]
        self.lag_ms = max(0, now_ms - self._marks[0][1]) if number < last and self._marks else 0
        return self.lag_ms
