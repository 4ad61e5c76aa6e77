"""When to connect again, and to which address. See `docs/protocol.md`, "The end"."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.host_port import host_port
from coldnotify_schemas.protocol import UNKNOWN_SESSION_DELAY_S

from coldnotify._core.settings import DISPLACED_JITTER, ClientSettings


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a gateway."""

    host: str
    port: int
    scheme: str = ""
    """ws, wss; "": TCP, with or without TLS."""
    path: str = ""

    @property
    def authority(self) -> str:
        """host:port."""
        return host_port(self.host, self.port)

    @property
    def secure(self) -> bool:
        """True if its scheme requires TLS."""
        return self.scheme == "wss"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}" if self.scheme else self.authority


class GatewayAddresses:
    """The gateways that are known. One that failed rests for a while; if all rest, the one that rested longest is
    next."""

    def __init__(self, addresses: Sequence[Address], rest_s: float, random: Random) -> None:
        # Shuffled: clients that know the same addresses spread over them.
        self._addresses = random.sample(list(addresses), len(addresses))
        self._rest_s = rest_s
        self._rested_at = dict.fromkeys(self._addresses, float("-inf"))

    def next(self, now: float) -> Address:
        """Returns the address to connect to now: the same one as long as it does not fail."""
        awake = [address for address in self._addresses if self._rested_at[address] <= now]
        return awake[0] if awake else min(self._addresses, key=self._rested_at.__getitem__)

    def failed(self, address: Address, now: float) -> None:
        """It did not answer, or sent us away."""
        self._rested_at[address] = now + self._rest_s
        # To the end: after its rest it is tried after those that have not failed since.
        self._addresses.remove(address)
        self._addresses.append(address)


class Backoff:
    """The pause before the next connection: truncated exponential back-off with full jitter."""

    def __init__(self, settings: ClientSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._failures = 0
        self._displaced = 0

    def begin_anew(self) -> None:
        """Resets the pause: a session succeeded, or the cause of the last failures may be gone, with their network."""
        self._failures = 0

    def undisturbed(self) -> None:
        """A session lasted so long that nobody else can be using our name."""
        self._displaced = 0

    def delay_s(self, code: int | None) -> float:
        """Seconds until the next try, after a connection that ended with this close code (None: without one)."""
        if code == CloseCode.DISPLACED:
            delay = self._settings.displaced_min_s * 2.0**self._displaced
            if delay < self._settings.displaced_max_s:
                self._displaced += 1
            return min(delay, self._settings.displaced_max_s) * self._random.uniform(1, 1 + DISPLACED_JITTER)
        delay = self._settings.backoff_min_s * 2.0**self._failures
        if code == CloseCode.UNKNOWN_SESSION and not self._failures:
            delay = UNKNOWN_SESSION_DELAY_S
        if delay < self._settings.backoff_max_s:
            self._failures += 1
        return self._random.uniform(0, min(delay, self._settings.backoff_max_s))
