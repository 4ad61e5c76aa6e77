"""Rest between rounds of work: what comes meanwhile is done together, and a round costs much that it has only once.

Pure: no clock.
"""

_LEAST_S = 0.000_1
"""Less is no rest: falling asleep and waking up takes as long."""


class Rest:
    """Of one who works in rounds, each begun by what is there to do. What comes after a rest does not wait."""

    def __init__(self, share: float, max_s: float) -> None:
        """After a round that took some time he rests for `share` times that, at most `max_s`."""
        self._share = share
        self._max_s = max_s
        self._until_s = float("-inf")

    def begin(self, began_s: float, ended_s: float) -> None:
        """A round is over that was worth a rest."""
        self._until_s = ended_s + min(max(0.0, ended_s - began_s) * self._share, self._max_s)

    def left_s(self, now_s: float) -> float:
        """How long the next round is to wait; 0: it may begin."""
        left_s = self._until_s - now_s
        return left_s if left_s >= _LEAST_S else 0.0
