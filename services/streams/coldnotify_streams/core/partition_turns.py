"""Turns: for how long one partition works before it is the next one's turn. Pure: the clock comes in.

What a record or a request costs is up to whoever wrote it, so work ends by time, and not by a number of items. Whoever
works asks `spent` between two items that cannot be divided, and leaves the others for its next turn.
"""

from collections.abc import Callable

TURN_S = 0.010
"""So long a publish in one partition waits for each other partition that has more to do than it can."""

Spent = Callable[[], bool]
"""Whether the turn is over."""
NextTurn = Callable[[], Spent]
"""Begins a turn."""


def never() -> bool:
    """Of a turn that is not over before all is done: that of whoever has no others waiting."""
    return False


def endless() -> Spent:
    """Begins one."""
    return never


def timed(clock_s: Callable[[], float], seconds: float = TURN_S) -> NextTurn:
    """Turns of so many seconds by this clock, which must not jump."""

    def begin() -> Spent:
        until_s = clock_s() + seconds
        return lambda: clock_s() >= until_s

    return begin
