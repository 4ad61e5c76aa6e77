"""Gradient2: shrinks the limit by the ratio of the long-term time to acknowledgement to the present one.

As Netflix' concurrency-limits describes its Gradient2Limit, with that library's defaults, once a window.
"""

from coldnotify.flow.windows import Window

SMOOTHING = 0.2
QUEUE = 4
"""Permits that are added each time: the limit grows while the time stays."""
LONG_WINDOWS = 600
_WARM_UP_WINDOWS = 10
"""At first the long-term time is the plain mean of so many."""
_GRADIENT_MIN = 0.5
_BACK_TO_NORMAL, _DECAY = 2, 0.9
"""A long-term time above so many of the present ones is of a load that is over, and is lowered faster."""


class Gradient2:
    """Keeps an exponentially smoothed time, over the last 600 windows."""

    def __init__(self) -> None:
        self._long_s = 0.0
        self._windows = 0
        self._limit = 0.0

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        self._windows += 1
        if self._windows <= _WARM_UP_WINDOWS:
            self._long_s += (window.wait_s - self._long_s) / self._windows
        else:
            self._long_s += (window.wait_s - self._long_s) * 2 / (LONG_WINDOWS + 1)
        if self._long_s > _BACK_TO_NORMAL * window.wait_s:
            self._long_s *= _DECAY
        if round(self._limit) != window.limit:
            self._limit = window.limit  # the first time, or a bound has held it
        gradient = min(1.0, max(_GRADIENT_MIN, self._long_s / window.wait_s)) if window.wait_s else 1.0
        self._limit += SMOOTHING * (self._limit * gradient + QUEUE - self._limit)
        return self._limit
