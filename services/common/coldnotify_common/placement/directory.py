"""Chooses the gateway that a client is given: of two drawn by weight the less loaded one."""

from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from coldnotify_common.placement.fair_shares import GatewayShare

HANDED_OUT_S = 30.0
"""A client that was given an address connects within this time, or not at all."""
_ARRIVAL_S = 2.0
"""Whoever was given an address is counted by its gateway only after this time."""
_STEP_S = 0.25
"""Hand-outs within this time are counted as one entry."""


class Offer(NamedTuple):
    """A gateway that is ready and may be given to clients."""

    address: str
    share: GatewayShare
    at_s: float
    """When it counted its connections, by the clock of the questions."""


class Given(NamedTuple):
    """The answer to a client."""

    address: str
    home_ready: bool
    """The client's home takes it."""


class Directory:
    """Gives addresses, and remembers how many lately: a gateway's record says only later who has come."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._given: dict[str, deque[tuple[float, int]]] = {}
        """Hand-outs of each address: when, and how many."""

    def give(self, now_s: float, offers: Sequence[Offer], home: str = "") -> Given | None:
        """Returns the address for a client; None: no gateway takes clients. `home`: the address of its home."""
        at_home = next((one for one in offers if one.address == home), None)
        if at_home is not None and self._takes_more(now_s, at_home):
            self._note(now_s, home)
            return Given(home, home_ready=True)
        below = [one for one in offers if one.share.weight > 0 and self._takes_more(now_s, one)]
        drawable = [one for one in below if self._share(now_s, one).has_room] or below
        if not drawable:
            return None
        drawn = self._random.choices(drawable, [one.share.weight for one in drawable], k=2)
        chosen = min(drawn, key=lambda one: self._connections(now_s, one) / one.share.weight)
        self._note(now_s, chosen.address)
        return Given(chosen.address, home_ready=False)

    def forget(self, addresses: Iterable[str]) -> None:
        """Forgets the hand-outs of all other addresses."""
        for gone in self._given.keys() - set(addresses):
            del self._given[gone]

    def _takes_more(self, now_s: float, one: Offer) -> bool:
        return not one.share.limit or self._connections(now_s, one) < one.share.limit

    def _share(self, now_s: float, one: Offer) -> GatewayShare:
        return one.share._replace(connections=self._connections(now_s, one))

    def _connections(self, now_s: float, one: Offer) -> int:
        """Returns its connections, with those that were sent to it since it counted them."""
        given = self._given.get(one.address, ())
        since_s = max(now_s - HANDED_OUT_S, one.at_s - _ARRIVAL_S)
        return one.share.connections + sum(count for at_s, count in given if at_s > since_s)

    def _note(self, now_s: float, address: str) -> None:
        given = self._given.setdefault(address, deque())
        while given and given[0][0] <= now_s - HANDED_OUT_S:
            given.popleft()
        if given and now_s - given[-1][0] < _STEP_S:
            at_s, count = given.pop()
            given.append((at_s, count + 1))
        else:
            given.append((now_s, 1))
