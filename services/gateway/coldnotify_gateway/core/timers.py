"""Deadlines of many connections: a wheel of one-second buckets, lazily kept.

A connection whose deadline moves further away (its client has sent something) stays in its bucket. When the bucket is
due, the connection is examined and put into a later one. So the common case, a frame that postpones a deadline, costs
nothing.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

_BUCKET_S = 1.0
"""Width of a bucket. Deadlines take seconds, so a delay of up to one second does no harm."""
LOOK_AHEAD_S = 60.0
"""Longest time to a connection's next examination. It keeps the number of buckets small, whatever keepalive clients
choose."""
NEVER_S = float("inf")


class Timed(Hashable, Protocol):
    """Something with a deadline."""

    wake_s: float
    """Time of its next examination. Only the timers write it."""

    def deadline_s(self) -> float:
        """Returns the time of the next timed work, in seconds of the core's clock; infinity: never."""


T = TypeVar("T", bound=Timed)


class Timers(Generic[T]):
    """Finds connections with a passed deadline. Releases ended ones at once, because each holds 45 KiB under TLS."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[T, None]] = {}
        """Connections by the number of their bucket. Each is in the bucket of its `wake_s`, or in none."""

    def look_at(self, one: T, now_s: float) -> None:
        """Adds `one`, or moves it to an earlier bucket if its deadline is nearer now."""
        deadline_s = one.deadline_s()
        if deadline_s < one.wake_s and deadline_s != NEVER_S:
            self._put(one, min(max(deadline_s, now_s), now_s + LOOK_AHEAD_S))

    def forget(self, one: T) -> None:
        """Removes an ended connection."""
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
        """Yields each connection whose deadline has passed. The caller handles it and calls `look_at` again."""
        current = int(now_s / _BUCKET_S)
        for bucket in sorted(bucket for bucket in self._buckets if bucket < current):
            for one in self._buckets.pop(bucket, ()):
                if one.wake_s == NEVER_S or int(one.wake_s / _BUCKET_S) != bucket:
                    continue  # ended or moved while earlier ones were handled
                one.wake_s = NEVER_S
                if one.deadline_s() <= now_s:
                    yield one
                else:
                    self.look_at(one, now_s)

    def _put(self, one: T, at_s: float) -> None:
        self.forget(one)
        one.wake_s = at_s
        self._buckets.setdefault(int(at_s / _BUCKET_S), {})[one] = None
