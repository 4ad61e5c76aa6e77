"""The ends of a log at times of the last minute and a half, which prove how fresh an offset of it is.

Everything that was acknowledged to its publisher before such a time is below the end of that time. So whoever has
everything below an offset has all that was acknowledged before the newest time whose end the offset reaches.
"""

from bisect import bisect_left, bisect_right

KEPT_S = 90.0


class EndHistory:
    """The ends of one log, with their times (monotonic, s), both rising."""

    __slots__ = ("_at_s", "_ends", "looks")

    def __init__(self) -> None:
        self._at_s: list[float] = []
        self._ends: list[int] = []
        self.looks = 0
        """Number of ends that were noted."""

    @property
    def newest(self) -> int:
        """The highest end that was noted; 0: none was."""
        return self._ends[-1] if self._ends else 0

    def seen(self, at_s: float, end: int) -> None:
        """Notes that everything acknowledged before `at_s` is below `end`; forgets what is too old."""
        # An end that is too high claims too little; a lower one that comes later must not undo it.
        end = max(end, self._ends[-1]) if self._ends else end
        if self._at_s and at_s <= self._at_s[-1]:
            return
        old = bisect_left(self._at_s, at_s - KEPT_S)
        del self._at_s[:old], self._ends[:old]
        self._at_s.append(at_s)
        self._ends.append(end)
        self.looks += 1

    def age_ms(self, offset: int, now_s: float) -> int | None:
        """Returns the age of the newest time before which everything acknowledged is below `offset`; None: not known.

        It is rounded up.
        """
        reached = bisect_right(self._ends, offset)
        if not reached:
            return None
        age_s = max(0.0, now_s - self._at_s[reached - 1])
        return -int(-age_s * 1000 // 1)
