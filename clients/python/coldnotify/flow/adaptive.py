"""Adaptive: moves the limit by the slopes of throughput and of time to acknowledgement over the last five windows.

From "RocketSpeed on Kafka: Smart Flow Control".
"""

from collections import deque
from collections.abc import Sequence
from statistics import fmean

from coldnotify.flow.windows import Window

WINDOWS = 5
STEEP, MEDIUM = 0.05, 0.02
"""Slopes by window, as shares of the mean."""


def slope(values: Sequence[float]) -> float:
    """The least-squares slope by one value, divided by their mean; 0 where the mean is 0."""
    mean, middle = fmean(values), (len(values) - 1) / 2
    if not mean:
        return 0.0
    spread = sum((index - middle) ** 2 for index in range(len(values)))
    return sum((index - middle) * (value - mean) for index, value in enumerate(values)) / spread / mean


def steps_of(throughput: float, wait: float, *, steep: float = STEEP, medium: float = MEDIUM) -> int:
    """Returns by how many deltas the limit moves at these slopes."""
    if throughput > steep:
        bounds = ((-steep, 3), (0.0, 2), (medium, 1), (steep, 0))
        return next((steps for bound, steps in bounds if wait < bound), -1)
    if throughput < -steep:
        return -1
    return 1 if wait < -steep else -1 if wait > steep else 0


class Adaptive:
    """Until there are five windows, each raises the limit by delta, because points must differ to be informative."""

    def __init__(self, delta: int, *, steep: float = STEEP, medium: float = MEDIUM) -> None:
        """`delta`: permits a step."""
        self._delta, self._steep, self._medium = delta, steep, medium
        self._throughputs: deque[float] = deque(maxlen=WINDOWS)
        self._waits: deque[float] = deque(maxlen=WINDOWS)

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        self._throughputs.append(window.completions_per_s)
        self._waits.append(window.wait_s)
        steps = 1
        if len(self._waits) == WINDOWS:
            of_t, of_w = slope(self._throughputs), slope(self._waits)
            steps = steps_of(of_t, of_w, steep=self._steep, medium=self._medium)
        return window.limit + steps * self._delta
