"""How many connections may have been sent away by now."""


class DrainPace:
    """So many a second, evenly, also where a look at it comes late: the n-th is due (n - 1) / `per_s` seconds on."""

    def __init__(self, per_s: float, begun_s: float) -> None:
        self._per_s = per_s
        self._begun_s = begun_s
        self._taken = 0

    def take(self, now_s: float) -> int:
        """Those that are due and were not taken before. `now_s`: on the clock of `begun_s`."""
        due = 1 + int((now_s - self._begun_s) * self._per_s)
        taken, self._taken = self._taken, max(due, self._taken)
        return self._taken - taken
