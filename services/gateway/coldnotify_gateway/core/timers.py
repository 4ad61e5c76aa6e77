"""Deadlines of many connections: a wheel of one-second buckets, lazily kept.

A connection whose deadline moves further away (something was heard) stays where it is; when its bucket comes up it is
looked at and put back. So the common case, a frame that puts a deadline off, costs nothing.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

_BUCKET_S = 1.0
"""Deadlines are seconds; being up to one late does no harm."""
LOOK_AHEAD_S = 60.0
"""A connection is put no further away than this, and looked at again then: so there are few buckets, whatever keepalive
clients choose."""
NEVER_S = float("inf")


class Timed(Hashable, Protocol):
    """Something with a deadline."""

    wake_s: float
    """When it is looked at next: the timers' own note."""

    def deadline_s(self) -> float:
        """When something is due, in seconds of the core's clock; infinity: never."""


T = TypeVar("T", bound=Timed)


class Timers(Generic[T]):
    """Who is due when. Who is gone is let go of at once: under TLS, 45 KiB are held of each connection."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[T, None]] = {}
        """Each is in one at most: in that of its `wake_s`."""

    def look_at(self, one: T, now_s: float) -> None:
        """`one` is new, or its deadline may have come nearer."""
        deadline_s = one.deadline_s()
        if deadline_s < one.wake_s and deadline_s != NEVER_S:
            self._put(one, min(max(deadline_s, now_s), now_s + LOOK_AHEAD_S))

    def forget(self, one: T) -> None:
        """It is gone."""
        if one.wake_s == NEVER_S:
            return
        number = int(one.wake_s / _BUCKET_S)
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket.pop(one, None)
            if not bucket:
                del self._buckets[number]
        one.wake_s = NEVER_S

    def due(self, now_s: float) -> Iterator[T]:
        """Those whose deadline has passed, each once; the caller handles it and calls `look_at` again."""
        current = int(now_s / _BUCKET_S)
        for bucket in sorted(bucket for bucket in self._buckets if bucket < current):
            for one in self._buckets.pop(bucket, ()):
                if one.wake_s == NEVER_S or int(one.wake_s / _BUCKET_S) != bucket:
                    continue  # gone, or put elsewhere, while those before it were handled
                one.wake_s = NEVER_S
                if one.deadline_s() <= now_s:
                    yield one
                else:
                    self.look_at(one, now_s)

    def _put(self, one: T, at_s: float) -> None:
        self.forget(one)
        one.wake_s = at_s
        self._buckets.setdefault(int(at_s / _BUCKET_S), {})[one] = None
