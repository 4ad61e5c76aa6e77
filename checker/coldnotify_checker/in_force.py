"""Finds the calls about one thing that may be in force at some moment between two times.

Of calls acknowledged in time, the one with the highest order is in force. A call that was not acknowledged, or whose
end is unknown, may be in force as well, unless it is outdone; and so may those from before the topic was lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class SaidCall(NamedTuple, Generic[T]):
    """One call."""

    begun: int
    """Unix time in microseconds, as `answered`."""
    answered: int | None
    """When it was acknowledged; None if that is not known."""
    order: Any
    """A call with a higher order outdoes this one; None: not known."""
    what: T


class InForce(Generic[T]):
    """The calls of one thing."""

    def __init__(self) -> None:
        self._calls: list[SaidCall[T]] = []
        self._answered: list[SaidCall[T]] = []
        """Those acknowledged before the topic was lost again, by the time of that."""
        self._periods: list[int] = []
        """For each call, how often the topic had been lost."""
        self._answered_at: list[int] = []
        self._unanswered: list[SaidCall[T]] = []
        self._best: dict[int, tuple[list[int], list[SaidCall[T]]]] = {}
        """By period: acknowledged calls that outdid all earlier ones, or repeated the highest."""
        self._longest_us = 0

    def add(self, said: SaidCall[T]) -> None:
        """One more, in any order; `freeze` follows."""
        self._calls.append(said)

    def freeze(self, period: Callable[[int], int]) -> None:
        """All are there. `period`: how often the topic had been lost before a time."""
        for said in self._calls:
            at = period(said.begun)
            if said.answered is None or said.order is None or period(said.answered) != at:
                self._unanswered.append(said)
            else:
                self._answered.append(said)
        self._answered.sort(key=_answered_at)
        self._answered_at = [_answered_at(said) for said in self._answered]
        self._periods = [period(said.begun) for said in self._answered]
        for said, at, answered_at in zip(self._answered, self._periods, self._answered_at, strict=True):
            self._longest_us = max(self._longest_us, answered_at - said.begun)
            times, calls = self._best.setdefault(at, ([], []))
            newest = calls[-1] if calls else None
            if newest is None or (
                (newest.order, newest.what) != (said.order, said.what) and newest.order <= said.order
            ):
                times.append(answered_at)
                calls.append(said)

    def sure(self, before: int, period: int) -> SaidCall[T] | None:
        """The one that was in force among those acknowledged before `before`."""
        times, calls = self._best.get(period, ([], []))
        index = bisect_left(times, before)
        return calls[index - 1] if index else None

    def between(self, since: int, until: int, period: int) -> Iterator[SaidCall[T] | None]:
        """All that may have been in force at some moment from `since` to `until`; None: perhaps nothing was."""
        sure = self.sure(since, period)
        yield sure

        def may_be(said: SaidCall[T]) -> bool:
            outdone = sure is not None and said.order is not None and said.order < sure.order
            return said is not sure and said.begun <= until and not outdone

        yield from filter(may_be, self._unanswered)
        first = bisect_left(self._answered_at, since)
        last = bisect_right(self._answered_at, until + self._longest_us)
        yield from filter(may_be, self._answered[first:last])
        # Of two that are equal nobody knows which one came last.
        times, calls = self._best.get(period, ([], []))
        index = bisect_left(times, since) - 2
        while sure is not None and index >= 0 and calls[index].order == sure.order:
            yield calls[index]
            index -= 1
        if period:
            # What was there before the topic was lost may be there still: it may have been cut, and not made anew.
            earlier = zip(self._answered[:first], self._periods, strict=False)
            yield from (said for said, at in earlier if at < period and may_be(said))


def _answered_at(said: SaidCall[Any]) -> int:
    assert said.answered is not None
    return said.answered
