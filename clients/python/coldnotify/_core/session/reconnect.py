"""When to connect again, and to which address. See `docs/protocol.md`, "The end"."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

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
    """ws, wss; unix: a link's socket, whose path is `host`; "": TCP, with or without TLS."""
    path: str = ""

    @property
    def authority(self) -> str:
        """host:port."""
        return host_port(self.host, self.port)

    @property
    def secure(self) -> bool:
        """True if its scheme requires TLS."""
        return self.scheme == "wss"

    @property
    def is_web(self) -> bool:
        """True for WebSocket."""
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:{self.host}"
        return f"{self.scheme}://{self.authority}{self.path}" if self.scheme else self.authority


class Gateways(NamedTuple):
    """The gateways that the application names."""

    addresses: Sequence[tuple[Address, int]]
    """Each with its weight."""
    home: Address | None = None
    directory: bool = False
    """There is a directory to ask."""


def gateways_of(given: Sequence[Address] | Gateways) -> Gateways:
    """Returns the gateways of a list of addresses without weights."""
    return given if isinstance(given, Gateways) else Gateways([(address, 1) for address in given])


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
