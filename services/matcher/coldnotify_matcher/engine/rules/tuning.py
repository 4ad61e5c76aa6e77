"""An interval of conflation that tunes itself by gateways' lag: additive increase, multiplicative decrease.

The rate at which an object may leave is increased and decreased, so the inverse of the interval. While all gateways
keep up, each CALM_MS adds one step to the rate, the step being the rate at the longest interval: from the longest one,
the interval goes down to a half, a third, a quarter of it, and so on. A gateway that lags halves the rate: the interval
doubles. Bounds hold both ways.

A lag concerns the present interval only if the late records were made under it, and if it does not shrink: a gateway
that works off earlier records has been helped already. A gateway that is dead or stopped sends nothing, so it changes
nothing.
"""

from dataclasses import dataclass

LAG_MS = 500
"""A gateway whose oldest unread record is older lags. A Beat's own way through Kafka, which counts as lag, takes a
tenth of that, and a few times as long on a busy machine."""
CALM_MS = 6_000
"""Longer than a gateway's 5 s between two Beats: each live one has reported its position meanwhile."""
WORTHWHILE_MS = 20
"""Below such an interval hardly anything is merged: the interval becomes the configured minimum, which is 0 by
default."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of all intervals that tune themselves (ms)."""

    shortest_ms: int = 0
    longest_ms: int = 1000


class Tuning:
    """One interval. It begins with the shortest."""

    def __init__(self, bounds: Bounds, now_ms: int) -> None:
        self._bounds = bounds
        self._interval_ms = float(bounds.shortest_ms)
        self._slowed_ms = -1
        """Time at which the interval grew last; -1: never."""
        self._calm_from_ms = now_ms
        """Time since which no gateway was reported to lag, and the interval has not shrunk."""

    @property
    def interval_ms(self) -> int:
        """The present interval; 0: publishes are not held."""
        return round(self._interval_ms)

    def on_lag(self, lag_ms: int, before_ms: int, now_ms: int) -> None:
        """Note a gateway's lag, which was `before_ms` the time before."""
        if lag_ms <= LAG_MS:
            return
        self._calm_from_ms = now_ms
        if lag_ms < before_ms or now_ms - lag_ms <= self._slowed_ms:
            return
        self._slowed_ms = now_ms
        self._interval_ms = min(float(self._bounds.longest_ms), 2 * max(self._interval_ms, WORTHWHILE_MS))

    def on_tick(self, now_ms: int) -> None:
        """Shrink the interval if gateways have kept up for long enough."""
        if now_ms < self._calm_from_ms:  # the clock was set back
            self._calm_from_ms = now_ms
            self._slowed_ms = min(self._slowed_ms, now_ms)
        if now_ms - self._calm_from_ms < CALM_MS:
            return
        self._calm_from_ms = now_ms
        shortest_ms, longest_ms = self._bounds.shortest_ms, self._bounds.longest_ms
        if self._interval_ms <= shortest_ms:
            return
        self._interval_ms = 1 / (1 / self._interval_ms + 1 / longest_ms)
        if self._interval_ms < max(shortest_ms, WORTHWHILE_MS):
            self._interval_ms = float(shortest_ms)
