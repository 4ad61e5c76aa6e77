"""The gateways that a client knows, and which one is next: its home, others by weight, then one from the directory.

An address that did not serve the client rests for a while. One that said `not_here_s` is left out for so long, and so
is a home that ended its sessions again and again. If none is left, the directory is asked, at most once a second; if
there is none, or it names none, the address that failed first is next: to stay away from all would help nobody.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from random import Random
from typing import Generic, TypeVar

At = TypeVar("At", bound=Hashable)
"""An address: of a gateway, or the URL of a node of the HTTP service."""

QUESTIONS_APART_S = 1.0
"""The directory is asked at most so often."""
DIRECTORY_TRIES_MAX = 3
"""So many addresses are left out before a client with a directory says that it goes nowhere else."""
HOME_ENDINGS_MAX = 3
"""A home that has ended so many sessions within HOME_ALONE_S is left alone for as long."""
HOME_ALONE_S = 600.0
WEIGHT_MAX = 1000


class AddressBook(Generic[At]):
    """All addresses of one client, with what each has done lately."""

    def __init__(
        self,
        addresses: Sequence[tuple[At, int]],
        rest_s: float,
        random: Random,
        home: At | None = None,
        *,
        directory: bool = False,
    ) -> None:
        """`addresses`: each with its weight. `directory`: there is one to ask."""
        drawn = [(random.random() ** (1 / weight), address) for address, weight in addresses if address != home]
        # Drawn by weight: clients that know the same addresses spread over them.
        self._addresses = [address for _, address in sorted(drawn, key=lambda one: -one[0])]
        self._rest_s = rest_s
        self.home = home
        self._directory = directory
        self._named: At | None = None
        """The directory's last answer, until it fails."""
        self._out_until: dict[At, float] = {}
        self._failed_at: dict[At, float] = {}
        self._ask_at = float("-inf")
        self._home_endings: deque[float] = deque(maxlen=HOME_ENDINGS_MAX)

    def next(self, now: float) -> At | None:
        """Returns the address to connect to now: the same one as long as it does not fail. None: the directory is to be
        asked first.
        """
        awake = self._first_awake(now, None)
        if awake is not None:
            return awake
        known = self._known
        if self._directory and (self._ask_at <= now or not known):
            return None
        return min(known, key=lambda one: self._failed_at.get(one, float("-inf")))

    def next_beside(self, now: float, present: At) -> At | None:
        """Returns another address to try while the present one serves. None: the directory may name one."""
        return self._first_awake(now, present)

    def _first_awake(self, now: float, but: At | None) -> At | None:
        return next((one for one in self._known if one != but and self._until(one) <= now), None)

    @property
    def _known(self) -> list[At]:
        first = [] if self.home is None else [self.home]
        named = [] if self._named is None or self._named in (self.home, *self._addresses) else [self._named]
        return [*first, *self._addresses, *named]

    def _until(self, address: At) -> float:
        return self._out_until.get(address, float("-inf"))

    def knows_other(self, address: At | None) -> bool:
        """Returns true if a client that is at this address could go elsewhere."""
        return self._directory or any(one != address for one in self._known)

    def goes_elsewhere(self, address: At | None, now: float) -> bool:
        """Returns true if a client that this address refuses has another one to try at once. The last one left hears
        no, and takes the client."""
        if any(one != address and self._until(one) <= now for one in self._known):
            return True
        return self._directory and sum(until > now for until in self._out_until.values()) < DIRECTORY_TRIES_MAX

    @property
    def home_free_at(self) -> float:
        """When its home may be tried; inf: it has none."""
        return float("inf") if self.home is None else self._until(self.home)

    # What addresses do

    def failed(self, address: At, now: float, rest_s: float = 0.0) -> None:
        """It did not answer, or sent the client away, for `rest_s` if it said a time."""
        self._leave_out(address, now + (rest_s or self._rest_s))
        self._failed_at[address] = now
        # To the end: after its rest it is tried after those that have not failed since.
        if address in self._addresses:
            self._addresses.remove(address)
            self._addresses.append(address)
        if address == self._named:
            self._named = None

    def ended(self, address: At, now: float) -> None:
        """It has ended a session that it had served."""
        if address != self.home:
            return
        self._home_endings.append(now)
        if len(self._home_endings) == HOME_ENDINGS_MAX and now - self._home_endings[0] <= HOME_ALONE_S:
            self._home_endings.clear()
            self._leave_out(address, now + HOME_ALONE_S)

    def _leave_out(self, address: At, until: float) -> None:
        self._out_until[address] = max(until, self._until(address))

    # The directory

    def asks(self, now: float) -> bool:
        """Returns true if the directory may be asked now."""
        return self._directory and self._ask_at <= now

    @property
    def ask_at(self) -> float:
        """When the directory may be asked next; inf: there is none."""
        return self._ask_at if self._directory else float("inf")

    def asked(self, now: float) -> None:
        """The question is on its way."""
        self._ask_at = now + QUESTIONS_APART_S

    def named(self, address: At, now: float, home_out_s: float = 0.0) -> None:
        """The directory names this gateway. `home_out_s`: it says that the client's home takes nobody for so long."""
        self._out_until.pop(address, None)
        self._named = address
        if home_out_s and self.home is not None and address != self.home:
            self._leave_out(self.home, now + home_out_s)

    def unnamed(self, now: float, retry_after_s: float) -> None:
        """The directory names none, or does not answer: it is asked again after `retry_after_s` at the earliest."""
        self._ask_at = max(self._ask_at, now + retry_after_s)
