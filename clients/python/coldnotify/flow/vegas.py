"""Vegas: keeps the estimated queue, M x (1 - W_min / W), between two bounds that grow with the limit's logarithm.

As Netflix' concurrency-limits describes its VegasLimit, after TCP Vegas, with that library's defaults, once a window.
"""

from math import ceil, log10

from coldnotify.flow.windows import Window

ALPHA, BETA, THRESHOLD = 3, 6, 1
"""Queues, in logarithms of the limit: below the last the limit grows by beta, below alpha by one, above beta it shrinks
by one."""
PROBE_EVERY = 30
"""In windows times the limit: then the present time is taken for the smallest. Vegas itself uses half to all of this at
random; here it is always three quarters.
"""
_PROBE_SHARE = 0.75


class Vegas:
    """Remembers the smallest time."""

    def __init__(self) -> None:
        self._shortest_s = float("inf")
        self._since_probe = 0
        self._limit = 0.0

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        if round(self._limit) != window.limit:
            self._limit = window.limit  # the first time, or a bound has held it
        self._since_probe += 1
        probed = self._since_probe >= _PROBE_SHARE * PROBE_EVERY * self._limit
        if probed or window.wait_s < self._shortest_s:
            self._since_probe = 0 if probed else self._since_probe
            self._shortest_s = window.wait_s
            return self._limit
        queue = ceil(self._limit * (1 - self._shortest_s / window.wait_s)) if window.wait_s else 0
        one = max(1, int(log10(self._limit)))
        if queue <= THRESHOLD * one:
            self._limit += BETA * one
        elif queue < ALPHA * one:
            self._limit += one
        elif queue > BETA * one:
            self._limit = max(1.0, self._limit - one)
        return self._limit
