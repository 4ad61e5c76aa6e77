"""The share of all clients that each gateway should have, and who is sent elsewhere.

The shares follow the weights. No share is above FULL of its gateway's limit, and none is below the number of clients
that are at home there: nobody moves those. What a full gateway leaves over, the others share.
"""

from collections.abc import Sequence
from typing import NamedTuple

FULL = 0.8
"""A gateway with more of its limit than this takes no client that has another address, unless it is the client's home:
the rest is for those that come home, or know no other."""
FULL_NOT_HERE_S = 600
ABOVE = 1.2
"""A gateway with more than so many times its share sends clients away ..."""
ABOVE_FOR_S = 60.0
"""... once that has lasted for so long ..."""
DOWN_TO = 1.03
"""... until it has only so many times its share."""
A_MINUTE = 0.05
"""The part of its connections that it sends away in a minute."""
BALANCE_NOT_HERE_S = 1800
REST_S = 1800.0
"""Balance ends only sessions that are as old. So it sends nobody away twice within this time."""


class GatewayShare(NamedTuple):
    """A gateway, as the others know it."""

    connections: int
    limit: int
    """0: not known."""
    weight: float = 1.0
    home: int = 0
    """Those of its connections whose client is at home."""

    @property
    def has_room(self) -> bool:
        """Returns true if it takes clients that could go elsewhere."""
        return self.weight > 0 and (not self.limit or self.connections < FULL * self.limit)

    def at(self, level: float) -> float:
        """Returns its number of clients where each unit of weight has `level` of them."""
        wanted = self.weight * level if self.weight else 0.0  # 0 * inf is no number
        return max(float(self.home), min(wanted, FULL * self.limit) if self.limit else wanted)


class Outlook(NamedTuple):
    """A gateway's knowledge of all gateways at one time."""

    level: float
    """The number of clients for each unit of weight that makes the shares; inf: all gateways are full."""
    room_elsewhere: bool
    below_elsewhere: bool
    """Another one with room has fewer clients than its share."""


NOTHING_KNOWN = Outlook(float("inf"), room_elsewhere=True, below_elsewhere=False)


def outlook(own: GatewayShare, others: Sequence[GatewayShare]) -> Outlook:
    """Returns the outlook of `own`. `others`: the other gateways that are ready."""
    level = _level([own, *others])
    room = [one for one in others if one.has_room]
    return Outlook(level, bool(room), any(one.connections < one.at(level) for one in room))


def _level(everyone: Sequence[GatewayShare]) -> float:
    """Returns the level at which the shares are all connections together. Their sum rises in straight pieces."""
    total = sum(one.connections for one in everyone)
    bends: list[tuple[float, float]] = []
    for one in everyone:
        begin = one.home / one.weight if one.weight > 0 else float("inf")
        end = FULL * one.limit / one.weight if one.limit and one.weight > 0 else float("inf")
        if begin < end:
            bends += [(begin, one.weight), (end, -one.weight)]
    at, value, rising = 0.0, float(sum(one.home for one in everyone)), 0
    slope = 0.0
    for bend, change in sorted(bends):
        if rising and value + slope * (bend - at) >= total:
            return at + max(0.0, total - value) / slope
        value += slope * (bend - at) if rising else 0.0
        at, slope, rising = bend, slope + change, rising + (1 if change > 0 else -1)
    return float("inf") if value < total else 0.0


def not_here_s(own: GatewayShare, known: Outlook, *, balances: bool) -> int:
    """Returns for how long a client that could go elsewhere, and is not at home, is to stay away; 0: it is welcome.

    `balances`: this gateway keeps to its share.
    """
    if not own.has_room and known.room_elsewhere:
        return FULL_NOT_HERE_S
    # Somebody has to be below its share, or the client would be sent round.
    if balances and known.below_elsewhere and own.connections >= DOWN_TO * own.at(known.level):
        return BALANCE_NOT_HERE_S
    return 0


class Balance:
    """Says how many sessions a gateway above its share sends away."""

    def __init__(self) -> None:
        self._above_since_s: float | None = None
        self._sending = False
        self._owed = 0.0
        self._ticked_s = 0.0

    def tick(self, now_s: float, own: GatewayShare, known: Outlook) -> int:
        """Returns the number of sessions to send away now. Called every few seconds."""
        share = own.at(known.level)
        elapsed_s, self._ticked_s = now_s - self._ticked_s, now_s
        if own.connections <= DOWN_TO * share or not known.below_elsewhere:
            self._above_since_s, self._sending, self._owed = None, False, 0.0
            return 0
        if not self._sending:
            if own.connections <= ABOVE * share:
                self._above_since_s = None
                return 0
            if self._above_since_s is None:
                self._above_since_s = now_s
            if now_s - self._above_since_s < ABOVE_FOR_S:
                return 0
            self._sending, elapsed_s = True, 0.0
        self._owed += own.connections * A_MINUTE * min(elapsed_s, ABOVE_FOR_S) / 60
        count = min(int(self._owed), int(own.connections - DOWN_TO * share) + 1)
        self._owed -= count
        return count
