"""Pauses between rounds of work, so that more items share a round's fixed cost.

Pure: no clock.
"""

_LEAST_S = 0.000_1
"""A shorter pause is skipped, because falling asleep and waking up takes as long."""


class Rest:
    """The pauses of a worker that works in rounds. An item that arrives after the pause does not wait."""

    def __init__(self, share: float, max_s: float) -> None:
        """After each round, the pause is `share` times the round's duration, at most `max_s`."""
        self._share = share
        self._max_s = max_s
        self._until_s = float("-inf")

    def begin(self, began_s: float, ended_s: float) -> None:
        """Begins the pause after a round that lasted from `began_s` to `ended_s`."""
        self._until_s = ended_s + min(max(0.0, ended_s - began_s) * self._share, self._max_s)

    def left_s(self, now_s: float) -> float:
        """Returns how long the next round has to wait, in s; 0 if it may begin."""
        left_s = self._until_s - now_s
        return left_s if left_s >= _LEAST_S else 0.0
