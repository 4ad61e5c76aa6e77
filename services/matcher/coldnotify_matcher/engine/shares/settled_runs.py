"""SettledRuns: runs of offsets of a log in which everything is settled, sorted. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence


class SettledRuns:
    """Runs above a share's base. Between two of them something is not settled, or not known."""

    def __init__(self, flat: Sequence[int] = ()) -> None:
        """`flat`: first and last offsets in turns, rising."""
        self._firsts = list(flat[::2])
        self._lasts = list(flat[1::2])

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._firsts, offset)
        return place > 0 and offset <= self._lasts[place - 1]

    @property
    def last(self) -> int:
        """The highest offset in a run; 0: there is no run."""
        return self._lasts[-1] if self._lasts else 0

    def last_of(self, offset: int) -> int:
        """Returns the last offset of the run that an offset is in."""
        return self._lasts[bisect_right(self._firsts, offset) - 1]

    def add(self, first: int, last: int, is_settled_between: Callable[[int, int], bool]) -> None:
        """Add all offsets from `first` to `last`. They join the runs beside them if everything strictly between two
        offsets is settled."""
        start = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if start < end:
            first, last = min(first, self._firsts[start]), max(last, self._lasts[end - 1])
        if start > 0 and is_settled_between(self._lasts[start - 1], first):
            start -= 1
            first = self._firsts[start]
        if end < len(self._firsts) and is_settled_between(last, self._firsts[end]):
            last = self._lasts[end]
            end += 1
        self._firsts[start:end] = [first]
        self._lasts[start:end] = [last]

    def drop_through(self, base: int) -> None:
        """Drop the offsets up to this one."""
        gone = bisect_right(self._lasts, base)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts:
            self._firsts[0] = max(self._firsts[0], base + 1)

    def flat(self) -> list[int]:
        """Returns first and last offsets in turns, rising."""
        return [offset for run in zip(self._firsts, self._lasts, strict=True) for offset in run]
