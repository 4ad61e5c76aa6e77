"""A token bucket: limits a rate per second, and allows a burst after a quiet time. Pure: time comes in as an
argument."""

from math import inf

_ROUNDING = 1e-6
"""Tolerance, in tokens: a caller that waited for exactly the time it was given is not refused because of rounding."""


class TokenBucket:
    """Holds at most `capacity` tokens, begins full, and gains `rate` tokens per second. All times in s, of one clock.

    A cost above the capacity is admitted when the bucket is full, and leaves it in debt. So a batch of any size passes
    at some time, and over a long time the rate is exact.
    """

    __slots__ = ("_at_s", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now_s: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._at_s = now_s

    def change(self, rate: float, capacity: float, now_s: float) -> None:
        """Sets rate and capacity from now on; the tokens until now are added at the former rate."""
        self._fill(now_s)
        self.rate = rate
        self.capacity = capacity
        self._tokens = min(self._tokens, capacity)

    def wait_s(self, cost: float, now_s: float) -> float:
        """Returns the time until this cost may be taken, in s; 0: now; inf: never."""
        self._fill(now_s)
        lacking = min(cost, self.capacity) - self._tokens
        if lacking <= _ROUNDING:
            return 0.0
        # A share of the smallest rate may round to 0.
        return lacking / self.rate if self.rate > 0 else inf

    def take(self, cost: float) -> None:
        """Takes the cost; call only after `wait_s` has returned 0."""
        self._tokens -= cost

    def _fill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._tokens = min(self.capacity, self._tokens + (now_s - self._at_s) * self.rate)
            self._at_s = now_s
