"""Places that strangers hold who have said nothing yet: how many there are, and who has to leave when they are full.

Who means to speak may need seconds for it, over a satellite. So it is not the oldest that leaves: it is the oldest of
the address that holds the most places. A flood from one address drives out itself, however fast it is, and nobody else.
Pure, and each step costs the same however many there are.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Places(Generic[K]):
    """Who holds one, by address. With one more than there are, or than one address may hold, one has to leave.

    Addresses are what `addresses.subscriber` gives; where several hold the most, it is who came to so many first.
    """

    def __init__(self, number_max: int, of_address_max: int | None = None) -> None:
        """`of_address_max`: of each address; None: as many as there are."""
        self._max = number_max
        self._of_address_max = number_max if of_address_max is None else of_address_max
        self._address_of: dict[K, bytes] = {}
        self._by_address: dict[bytes, dict[K, None]] = {}
        """Each address' own in the order in which they came."""
        self._with: dict[int, dict[bytes, None]] = {}
        """The addresses that hold so many, in the order in which they came to it."""
        self._most = 0
        """What the one that holds the most holds. It moves by one at a time, so it is never searched for."""

    def __len__(self) -> int:
        return len(self._address_of)

    def __contains__(self, one: object) -> bool:
        return one in self._address_of

    def __iter__(self) -> Iterator[K]:
        return iter(self._address_of)

    def of(self, address: bytes) -> int:
        """How many this address holds."""
        return len(self._by_address.get(address, ()))

    def add(self, one: K, address: bytes, *, shared: bool = False) -> K | None:
        """`one` takes a place, as the youngest of its address. Returns who has to leave for it, and has left.

        `shared`: many are behind this address, so it may hold as many as there are.
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
        """It has spoken, or is gone."""
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
