"""A brake on what removes clients and objects because their time has come: many at once wait until that is sure.

A clock that is wrong makes everything old. So, while the clocks have not agreed for an hour, those whose time has come
are only counted as a round looks at all, and go in the next one, if they are few: at most a hundredth of all, or a
hundred, within an hour. More wait until the clocks have agreed for an hour, or an operator says that it is right.
"""

from collections import deque

from coldnotify_common.clocks import Trust

HOUR_MS = 3_600_000
FEW = 100
"""So many are lost at most of a small installation, and may go: it is asked for nothing."""
FEW_SHARE = 0.01


class RemovalBrake:
    """Of one partition's clients, or of its objects."""

    def __init__(self) -> None:
        self.held = 0
        """Those whose time had come as of the last round, and that wait."""
        self.going: list[str] = []
        """By key, those that the last round has found and that may go, unless something was said of them since."""
        self._found: dict[str, None] = {}
        self._removed_ms: deque[int] = deque()
        """When each was that went although the brake was not open, within an hour: few."""
        self._confirmed_until_ms = 0

    def is_open(self, trust: Trust, period_ms: int, now_ms: int) -> bool:
        """Whether any number may go of those whose time comes after such a period."""
        return now_ms < self._confirmed_until_ms or trust.confirms(period_ms)

    def confirm(self, now_ms: int) -> None:
        """An operator says that the clock is right: for an hour any number may go."""
        self._confirmed_until_ms = now_ms + HOUR_MS

    def found(self, key: str) -> None:
        """The time of this one has come, and the brake is not open."""
        self._found[key] = None

    def removed(self, now_ms: int) -> None:
        """One of `going` was."""
        self._removed_ms.append(now_ms)

    def end_round(self, all_there_are: int, now_ms: int) -> None:
        """All have been looked at. So many are there."""
        while self._removed_ms and not 0 <= now_ms - self._removed_ms[0] < HOUR_MS:
            self._removed_ms.popleft()
        found, self._found = list(self._found), {}
        if len(self._removed_ms) + len(found) <= max(FEW, int(all_there_are * FEW_SHARE)):
            self.going, self.held = found, 0
        else:
            self.going, self.held = [], len(found)

    def clear(self) -> None:
        """The round begins anew."""
        self.going, self._found, self.held = [], {}, 0
