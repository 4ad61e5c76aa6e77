"""Detects that a program stood still: its machine slept, it was stopped, or it got no turn for long.

Its connection is in doubt then. A shell looks at least every LOOK_S, on a clock that counts sleep, and before it
reports that it is caught up; it passes a standstill to the driver (`Driver.doubt`).
"""

LOOK_S = 5.0
"""A shell looks this often: so late does it notice a sleep by itself. A look costs 0.2 ms of CPU, so 0.16 s an hour."""
STOOD_STILL_S = 10.0
"""More than this between two looks is a standstill. A busy machine is late by less, as a rule; if it is not, that costs
one Ping. What slept for less has lost no connection by that."""


class Standstill:
    """The standstill of one program. Not thread-safe."""

    def __init__(self, now: float) -> None:
        self._looked_at = now

    def look(self, now: float) -> float:
        """Seconds for which it has stood still until now; 0: it has not."""
        passed_s, self._looked_at = now - self._looked_at, now
        return passed_s if passed_s > STOOD_STILL_S else 0.0

    def deadline(self) -> float:
        """Returns when to look next."""
        return self._looked_at + LOOK_S
