"""When a client that has a session tries another gateway beside it: make before break.

It goes home: after 30 s and a random time, then after twice as long each, up to 10 min. It leaves a gateway that tells
it nothing fresh: once it has been stale for twice `fresh_s`, after a random time of up to a minute, then after twice as
long each, up to a quarter of an hour. So 20,000 clients that all are stale at once try 350 times a second at first, and
ever more seldom.
"""

from random import Random

from coldnotify._core.settings import MoveTimes


class Moves:
    """The times of the next tries."""

    def __init__(self, random: Random, times: MoveTimes) -> None:
        self._random = random
        self._times = times
        self._home_at: float | None = None
        self._home_tries = 0
        self._stale_at: float | None = None
        self._stale_tries = 0

    def session_ended(self) -> None:
        """A session has ended, or moved: the next one has its own times."""
        self._home_at = self._stale_at = None
        self._stale_tries = 0

    # On the way home

    def look_home(self, now: float, *, away: bool) -> None:
        """Notes whether there is a home, and a session elsewhere."""
        if not away:
            self._home_at, self._home_tries = None, 0
        elif self._home_at is None:
            self._home_at = now + self._home_delay_s()

    @property
    def home_at(self) -> float:
        """When to try the home; inf: not at all."""
        return float("inf") if self._home_at is None else self._home_at

    def home_failed(self, now: float) -> None:
        """The home did not take it."""
        self._home_tries += 1
        self._home_at = now + self._home_delay_s()

    def _home_delay_s(self) -> float:
        base_s = self._times.home_first_s * 2.0**self._home_tries
        if base_s >= self._times.home_longest_s:
            self._home_tries -= 1
        return min(self._times.home_longest_s, base_s * self._random.uniform(1, 2))

    # Away from a gateway that tells nothing fresh

    def look_stale(self, stale_at: float | None, fresh_s: float) -> None:
        """Notes since when the session has been stale; None: it is not."""
        if stale_at is None:
            self._stale_at, self._stale_tries = None, 0
        elif self._stale_at is None:
            self._stale_at = (
                stale_at + self._times.stale_patience * fresh_s + self._random.uniform(0, self._times.stale_first_s)
            )

    @property
    def stale_at(self) -> float:
        """When to try another address; inf: not at all."""
        return float("inf") if self._stale_at is None else self._stale_at

    def stale_not_before(self, at: float) -> None:
        """No other address is known before that time."""
        if self._stale_at is not None:
            self._stale_at = max(self._stale_at, at)

    def stale_failed(self, now: float, retry_after_s: float) -> None:
        """It did not help. `retry_after_s`: not before, as the gateway said."""
        self._stale_tries += 1
        longest_s = min(self._times.stale_longest_s, self._times.stale_first_s * 2.0**self._stale_tries)
        if longest_s == self._times.stale_longest_s:
            self._stale_tries -= 1
        self._stale_at = now + max(retry_after_s, self._random.uniform(longest_s / 2, longest_s))
