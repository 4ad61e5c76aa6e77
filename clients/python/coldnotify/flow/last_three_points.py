"""Last Three Points: moves the limit by how the last three times to acknowledgement follow each other.

From "RocketSpeed on Kafka: Smart Flow Control"; latency alone counts.
"""

from collections import deque

from coldnotify.flow.windows import Window

LINE_SHARE = 0.05
"""Three points are on a line if the middle one is off by no more than this share of the largest."""


def steps_of(a: float, b: float, c: float) -> int:
    """Returns by how many deltas the limit moves after these three, `c` the last."""
    if abs(a - 2 * b + c) <= LINE_SHARE * max(a, b, c):
        return -1 if a < b < c else 1
    if b < a:
        return 2 if c <= b else 0
    if c > b:
        return -2
    return 0 if b > a else 1


class LastThreePoints:
    """The first three windows raise the limit by delta each, because three points must differ to be informative."""

    def __init__(self, delta: int) -> None:
        """`delta`: permits a step."""
        self._delta = delta
        self._waits_s: deque[float] = deque(maxlen=3)
        self._windows = 0

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        self._waits_s.append(window.wait_s)
        self._windows += 1
        steps = 1 if self._windows <= 3 else steps_of(*self._waits_s)
        return window.limit + steps * self._delta
