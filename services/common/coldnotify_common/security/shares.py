"""How many connections each address has, and may have: a share, so that nobody alone takes all there are. Pure."""

from collections import Counter
from collections.abc import Iterable

from coldnotify_common.addresses import LOOPBACK, Among, Network, subscriber

SHARE_PERCENT = 50
"""Of what there is for all, by default: whoever has one address cannot keep the others out, and devices that share one
(behind a satellite modem, a NAT, the HTTP service) have room for thousands."""


def share_of(number: int, percent: int) -> int:
    """What one address may have of `number`, at least one; 0, which is no limit, where it may have all."""
    return max(1, number * percent // 100) if percent < 100 else 0


class Shares:
    """Counts connections by address, of IPv6 by /64.

    `share_max`: of each address but for loopback, from where load tests come, and what runs on this machine.
    `each_max`: of every address. 0: no limit. `exempt` networks, and what has no address, have neither.
    """

    def __init__(self, share_max: int, *, each_max: int = 0, exempt: Iterable[Network] = ()) -> None:
        self.share_max = share_max
        self._each_max = each_max
        self._exempt = Among(tuple(exempt))
        self._loopback = Among(LOOPBACK)
        self._counts: Counter[bytes] = Counter()

    def of(self, address: str) -> int:
        """How many it has."""
        return self._counts[subscriber(address)]

    def count(self, address: str, more: int) -> None:
        """It has so many more, or less."""
        counted = subscriber(address)
        self._counts[counted] += more
        if not self._counts[counted]:
            del self._counts[counted]

    def take(self, address: str) -> bool:
        """It has one more, to `give_back`; False: it may not."""
        if self.is_full(address):
            return False
        self.count(address, 1)
        return True

    def give_back(self, address: str) -> None:
        """One of them is gone."""
        self.count(address, -1)

    def is_full(self, address: str) -> bool:
        """Whether it may not have another one."""
        counted = subscriber(address)
        if not counted or address in self._exempt:
            return False
        most = self.share_max if address not in self._loopback else 0
        if self._each_max:
            most = min(most, self._each_max) if most else self._each_max
        return bool(most) and self._counts[counted] >= most

    def may_have_all(self, address: str) -> bool:
        """Whether it has no share, because many may be behind it."""
        return not subscriber(address) or address in self._exempt or address in self._loopback

    @property
    def most(self) -> int:
        """What the address with the most has."""
        return max(self._counts.values(), default=0)
