"""Limits the connections of each address to a share, so that nobody can take all of them. Pure."""

from collections import Counter
from collections.abc import Iterable

from coldnotify_common.addresses import LOOPBACK, Among, Network, subscriber

SHARE_PERCENT = 50
"""Share of one address in all connections: the owner of one address cannot lock the others out, and devices
that share one (behind a satellite modem, a NAT, the HTTP service) have room for thousands."""


def share_of(number: int) -> int:
    """Returns the number of connections that one address may have of `number`, at least one."""
    return max(1, number * SHARE_PERCENT // 100)


class Shares:
    """Counts connections by address, or by /64 of IPv6.

    `share_max`: limit of each address but loopback, which load tests and programs on this machine use. `each_max`:
    limit of every address. 0: no limit. `exempt` networks, and connections without an address, have neither limit.
    """

    def __init__(self, share_max: int, *, each_max: int = 0, exempt: Iterable[Network] = ()) -> None:
        self.share_max = share_max
        self._each_max = each_max
        self._exempt = Among(tuple(exempt))
        self._loopback = Among(LOOPBACK)
        self._counts: Counter[bytes] = Counter()

    def of(self, address: str) -> int:
        """Returns the number of connections of an address."""
        return self._counts[subscriber(address)]

    def count(self, address: str, more: int) -> None:
        """Adds `more` connections, which may be negative."""
        counted = subscriber(address)
        self._counts[counted] += more
        if not self._counts[counted]:
            del self._counts[counted]

    def take(self, address: str) -> bool:
        """Adds a connection, to be returned by `give_back`. Returns false if the address has reached its limit."""
        if self.is_full(address):
            return False
        self.count(address, 1)
        return True

    def give_back(self, address: str) -> None:
        """Removes a connection."""
        self.count(address, -1)

    def is_full(self, address: str) -> bool:
        """Returns true if the address has reached its limit."""
        counted = subscriber(address)
        if not counted or address in self._exempt:
            return False
        most = self.share_max if address not in self._loopback else 0
        if self._each_max:
            most = min(most, self._each_max) if most else self._each_max
        return bool(most) and self._counts[counted] >= most

    def may_have_all(self, address: str) -> bool:
        """Returns true if the address has no share, because many clients may use it."""
        return not subscriber(address) or address in self._exempt or address in self._loopback

    @property
    def most(self) -> int:
        """The largest number of connections of one address."""
        return max(self._counts.values(), default=0)
