"""A machine's steady clock: it begins anywhere, and runs a little too fast or too slow."""

from coldnotify_simulation.clock import START_S, Act, Clock


class DriftingClock(Clock):
    """A clock in place of the world's, for one process. Its wall clock is right."""

    def __init__(self, world: Clock, rate: float, ahead_s: float) -> None:
        """`rate`: its seconds in one. `ahead_s`: how far it is ahead when the world begins."""
        self._world = world
        self._rate = rate
        self._begins_s = START_S + ahead_s

    @property
    def now_s(self) -> float:  # type: ignore[override]
        """Its time."""
        return self._begins_s + (self._world.now_s - START_S) * self._rate

    @property
    def now_ms(self) -> int:
        """Unix time, in ms."""
        return self._world.now_ms

    def later(self, delay_s: float, act: Act) -> None:
        """Do it so many of its seconds from now."""
        self._world.later(delay_s / self._rate, act)
