"""Brakes the removal of old clients and objects: if many are due at once they wait until the clock is known to be
right.

A wrong clock makes everything old. So, while the clocks have not agreed for an hour, due ones are only counted in a
round over all, and removed in the next one, if they are few: at most a hundredth of all, or a hundred, within an hour.
If there are more they wait until the clocks have agreed for an hour, or an operator confirms the clock.
"""

from collections import deque

from coldnotify_common.clocks import Trust

HOUR_MS = 3_600_000
FEW = 100
"""A small installation loses at most this many, and they may go: no confirmation is needed."""
FEW_SHARE = 0.01


class RemovalBrake:
    """The brake for one partition's clients, or for its objects."""

    def __init__(self) -> None:
        self.held = 0
        """Number of clients or objects that were due in the last round, and that wait."""
        self.going: list[str] = []
        """Keys that the last round has found and that may go, unless they changed since."""
        self._found: dict[str, None] = {}
        self._removed_ms: deque[int] = deque()
        """Times of removals while the brake was not open, within an hour: few."""
        self._confirmed_until_ms = 0

    def is_open(self, trust: Trust, period_ms: int, now_ms: int) -> bool:
        """Returns true if any number of those that are due after such a period may be removed."""
        return now_ms < self._confirmed_until_ms or trust.confirms(period_ms)

    def confirm(self, now_ms: int) -> None:
        """Confirm, for an operator, that the clock is right: for an hour any number may be removed."""
        self._confirmed_until_ms = now_ms + HOUR_MS

    def found(self, key: str) -> None:
        """Note that this one is due, and the brake is not open."""
        self._found[key] = None

    def removed(self, now_ms: int) -> None:
        """Note that one of `going` was removed."""
        self._removed_ms.append(now_ms)

    def end_round(self, all_there_are: int, now_ms: int) -> None:
        """End a round over all of them, whose number is `all_there_are`."""
        while self._removed_ms and not 0 <= now_ms - self._removed_ms[0] < HOUR_MS:
            self._removed_ms.popleft()
        found, self._found = list(self._found), {}
        if len(self._removed_ms) + len(found) <= max(FEW, int(all_there_are * FEW_SHARE)):
            self.going, self.held = found, 0
        else:
            self.going, self.held = [], len(found)

    def clear(self) -> None:
        """Begin the round again."""
        self.going, self._found, self.held = [], {}, 0
