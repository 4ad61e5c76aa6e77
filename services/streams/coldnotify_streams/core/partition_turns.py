"""Turns limit how long one partition works before the next one does. Pure: the clock is passed in.

Whoever writes a record or a request determines its cost, so work is limited by time and not by a number of items. A
worker calls `spent` between two indivisible items, and leaves the remaining ones for its next turn.
"""

from collections.abc import Callable

TURN_S = 0.010
"""How long a publish in one partition waits for each other partition that is busy."""

Spent = Callable[[], bool]
"""Returns true when the turn is over."""
NextTurn = Callable[[], Spent]
"""Begins a turn."""


def never() -> bool:
    """The turn of a partition that no other one waits for: it ends only when everything is done."""
    return False


def endless() -> Spent:
    """Begins one."""
    return never


def timed(clock_s: Callable[[], float], seconds: float = TURN_S) -> NextTurn:
    """Returns turns of so many seconds by this clock, which must not jump."""

    def begin() -> Spent:
        until_s = clock_s() + seconds
        return lambda: clock_s() >= until_s

    return begin
