"""Pacing keeps a producer at the rate at which it is not refused.

At first nothing is paced. On a refusal the interval between two publishes doubles, and the next one waits at least as
long as the refusal says. After each second without a refusal it shrinks by a tenth. If an agreement allows bursts of
two seconds, this settles at all of the agreement: the rest left unused after a refusal is made up for before the next.
"""

from collections import deque

SHRINKING = 0.9
"""The interval's share that is left after a second without a refusal."""
GROWTH = 2.0
_RECENT = 20
"""Publishes by which the actual interval is known: an application may publish less often than it may."""
_UNPACED_S = 10e-6
"""A shorter interval counts as none: no producer here publishes so often."""
_FIRST_S = 50e-6
"""The least interval after the first refusal, if the actual interval is unknown."""
INTERVAL_MAX_S = 60.0
"""Longer than any caller waits: a longer one would only take longer to shrink."""


class Pacing:
    """Decides when the next publish may be sent. With several threads, the caller brings the lock."""

    def __init__(self) -> None:
        self.interval_s = 0.0
        """Between two publishes; 0: not paced."""
        self.refused = 0
        """Publishes that were refused."""
        self._next_s = float("-inf")
        self._shrunk_s = 0.0
        self._widened_s = float("-inf")
        self._sent_s: deque[float] = deque(maxlen=_RECENT)

    def wait_s(self, now_s: float) -> float:
        """Returns how long to wait before sending; 0: send now, and call sent()."""
        self._shrink(now_s)
        return max(0.0, self._next_s - now_s)

    def sent(self, now_s: float, count: int = 1) -> None:
        """So many publishes are sent. Whoever is after them waits for `count` intervals."""
        self._sent_s.append(now_s)
        self._next_s = max(self._next_s, now_s) + self.interval_s * count

    def refuse(self, now_s: float, sent_s: float, retry_after_s: float, count: int = 1) -> None:
        """Notes that what was sent at `sent_s` was refused, and may be sent again after so long."""
        self.refused += count
        self._next_s = max(self._next_s, now_s + max(0.0, retry_after_s))
        # What was on its way when the interval was doubled was sent by the old one: it says nothing about the new.
        if sent_s > self._widened_s:
            self._widened_s = now_s
            self.interval_s = min(GROWTH * max(self.interval_s, self._actual_s(), _FIRST_S), INTERVAL_MAX_S)
            self._next_s = max(self._next_s, now_s + self.interval_s)
        self._shrunk_s = now_s

    def _shrink(self, now_s: float) -> None:
        if self.interval_s and (seconds := int(now_s - self._shrunk_s)) > 0:
            self._shrunk_s += seconds
            self.interval_s *= SHRINKING**seconds
            if self.interval_s < _UNPACED_S:
                self.interval_s = 0.0

    def _actual_s(self) -> float:
        if len(self._sent_s) < 2:
            return 0.0
        return (self._sent_s[-1] - self._sent_s[0]) / (len(self._sent_s) - 1)
