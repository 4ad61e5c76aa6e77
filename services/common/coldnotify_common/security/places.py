"""Places of strangers that have not sent anything yet: limits their number, and chooses who loses its place.

A client that means to send something may need seconds for it, over a satellite. So the oldest does not lose its place:
the oldest of the address with the most places does. A flood from one address only displaces itself, however fast it is.
Pure, and each step costs the same whatever the number of places.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Places(Generic[K]):
    """Holders of places, by address. With more holders than places, in all or per address, one of them is removed.

    Addresses are results of `addresses.subscriber`; if several hold the most, the one that reached that number first
    loses a place.
    """

    def __init__(self, number_max: int, of_address_max: int | None = None) -> None:
        """`of_address_max`: limit per address; None: no limit of its own."""
        self._max = number_max
        self._of_address_max = number_max if of_address_max is None else of_address_max
        self._address_of: dict[K, bytes] = {}
        self._by_address: dict[bytes, dict[K, None]] = {}
        """Holders by address, in the order in which they came."""
        self._with: dict[int, dict[bytes, None]] = {}
        """Addresses by their number of places, in the order in which they reached it."""
        self._most = 0
        """The largest number of places of one address. It changes by one at a time, so no search is needed."""

    def __len__(self) -> int:
        return len(self._address_of)

    def __contains__(self, one: object) -> bool:
        return one in self._address_of

    def __iter__(self) -> Iterator[K]:
        return iter(self._address_of)

    def of(self, address: bytes) -> int:
        """Returns the number of places of an address."""
        return len(self._by_address.get(address, ()))

    def add(self, one: K, address: bytes, *, shared: bool = False) -> K | None:
        """Gives `one` a place, as the youngest of its address. Returns the holder that was removed for it, or None.

        `shared`: many clients share this address, so it has no limit of its own.
        """
        self.discard(one)
        self._address_of[one] = address
        own = self._by_address.setdefault(address, {})
        own[one] = None
        self._moved(address, len(own) - 1, len(own))
        if len(own) > self._of_address_max and not shared:
            leaving = next(iter(own))
        elif len(self._address_of) > self._max:
            leaving = next(iter(self._by_address[next(iter(self._with[self._most]))]))
        else:
            return None
        self.discard(leaving)
        return leaving

    def discard(self, one: K) -> None:
        """Removes a holder that has sent something, or is gone."""
        address = self._address_of.pop(one, None)
        if address is None:
            return
        own = self._by_address[address]
        del own[one]
        self._moved(address, len(own) + 1, len(own))
        if not own:
            del self._by_address[address]

    def _moved(self, address: bytes, before: int, now: int) -> None:
        if before:
            same = self._with[before]
            del same[address]
            if not same:
                del self._with[before]
        if now:
            self._with.setdefault(now, {})[address] = None
        if now > self._most or self._most not in self._with:
            self._most = now
