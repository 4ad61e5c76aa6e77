"""A token bucket: so much a second, and some at once after a quiet time. Pure: time comes in as an argument."""

from math import inf

_ROUNDING = 1e-6
"""Of a token: who waited for exactly as long as it was told is not refused for the last digit of a sum."""


class TokenBucket:
    """Holds at most `capacity` tokens and begins full; `rate` tokens a second come in. All times in s, of one clock.

    What costs more than the bucket can hold is let in when it is full, and leaves it in debt. So a batch of any size
    passes at some time, and over a long time the rate holds exactly.
    """

    __slots__ = ("_at_s", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now_s: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._at_s = now_s

    def change(self, rate: float, capacity: float, now_s: float) -> None:
        """From now on; what has come in until now came in at the rate until now."""
        self._fill(now_s)
        self.rate = rate
        self.capacity = capacity
        self._tokens = min(self._tokens, capacity)

    def wait_s(self, cost: float, now_s: float) -> float:
        """How long until so much may be taken; 0: now; inf: never."""
        self._fill(now_s)
        lacking = min(cost, self.capacity) - self._tokens
        if lacking <= _ROUNDING:
            return 0.0
        # A share of the smallest rate is none.
        return lacking / self.rate if self.rate > 0 else inf

    def take(self, cost: float) -> None:
        """Takes so much: after `wait_s` has said 0."""
        self._tokens -= cost

    def _fill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._tokens = min(self.capacity, self._tokens + (now_s - self._at_s) * self.rate)
            self._at_s = now_s
