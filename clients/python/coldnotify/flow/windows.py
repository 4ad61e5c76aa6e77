"""Windows: what so many completions took, by Little's law. The points by which controllers move a limit."""

from typing import NamedTuple

BUSY_SHARE = 0.8
"""Below this share of the limit, demand did not need it: the window says nothing about the limit."""


class Window(NamedTuple):
    """Measurements from one completion to another."""

    limit: int
    """M, in force all the time."""
    ended_s: float
    """By the caller's clock."""
    seconds: float
    arrivals: int
    """Permits taken."""
    completions: int
    """Acknowledgements of what was taken since the limit is in force; failures do not count."""
    wait_s: float
    """W: the mean time from taking a permit to the acknowledgement."""

    @property
    def arrivals_per_s(self) -> float:
        """Lambda."""
        return self.arrivals / self.seconds

    @property
    def completions_per_s(self) -> float:
        """T."""
        return self.completions / self.seconds

    @property
    def in_flight(self) -> float:
        """L = lambda x W: what demand really had in flight."""
        return self.arrivals_per_s * self.wait_s

    @property
    def is_point(self) -> bool:
        """True if demand needed the limit, so that the measurements depend on it."""
        return self.in_flight >= BUSY_SHARE * self.limit


class Measuring:
    """A window that is being measured.

    It begins at the first completion of what was taken under the present limit: earlier ones waited for another number
    of others.
    """

    def __init__(self, completions_max: int, seconds_max: float) -> None:
        """It ends after so many completions, or so many seconds, whichever is first."""
        self._completions_max = completions_max
        self._seconds_max = seconds_max
        self._limit_since_s = float("-inf")
        self._begun_s: float | None = None
        self._arrivals = self._completions = 0
        self._waits_s = 0.0

    def arrived(self, count: int) -> None:
        """So many permits were taken."""
        self._arrivals += count

    def completed(self, now_s: float, taken_s: float, count: int, limit: int) -> Window | None:
        """So many acknowledgements; the window, if that ends it. Another one begins then."""
        if taken_s < self._limit_since_s:
            return None
        if self._begun_s is None:
            self._begin(now_s)
            return None
        self._completions += count
        self._waits_s += count * (now_s - taken_s)
        seconds = now_s - self._begun_s
        if seconds <= 0 or (self._completions < self._completions_max and seconds < self._seconds_max):
            return None
        wait_s = self._waits_s / self._completions
        window = Window(limit, now_s, seconds, self._arrivals, self._completions, wait_s)
        self._begin(now_s)
        return window

    def resized(self, now_s: float) -> None:
        """Another limit is in force from now on."""
        self._limit_since_s = now_s
        self._begun_s = None

    def _begin(self, now_s: float) -> None:
        self._begun_s = now_s
        self._arrivals = self._completions = 0
        self._waits_s = 0.0
