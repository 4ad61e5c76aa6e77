"""Computes the number of connections that a drain may have closed by now."""


class DrainPace:
    """A steady pace, even if a call is late: connection n is due (n - 1) / `per_s` seconds after the start."""

    def __init__(self, per_s: float, begun_s: float) -> None:
        self._per_s = per_s
        self._begun_s = begun_s
        self._taken = 0

    def take(self, now_s: float) -> int:
        """Returns the number of connections that are due and were not taken before. `now_s`: time of `begun_s`'
        clock."""
        due = 1 + int((now_s - self._begun_s) * self._per_s)
        taken, self._taken = self._taken, max(due, self._taken)
        return self._taken - taken
