"""Connection settings: the gateways' addresses, and timeouts and pauses."""

import socket
import ssl
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from urllib.parse import urlsplit

from coldnotify_schemas.host_port import parse_host_port
from coldnotify_schemas.protocol import (
    ACK_DELAY_S,
    ANSWER_S,
    BACKOFF_MAX_S,
    BACKOFF_MIN_S,
    DEVICE_PORT,
    DISPLACED_MAX_S,
    DISPLACED_MIN_S,
    FRESH_PROOF_S,
    KEEPALIVE_S,
    KEEPALIVE_S_MAX,
    SILENCE_EXTRA_S,
    SILENCE_FACTOR,
    WEB_PROFILE_KEEPALIVE_S,
    WEBSOCKET_KEEPALIVE_S,
)

from coldnotify._carriers import missing_library
from coldnotify._core.session.address_book import WEIGHT_MAX
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._named_gateway import requests_of
from coldnotify._tls import ResumingContext

_PORTS = {"ws": 80, "wss": 443}
"""Default ports of URLs."""
_PATH = "/v1/connect"
"""Default path of URLs."""
_DEPRECATED = {"http": "ws", "https": "wss"}
"""The meaning of addresses of release 0.1.0: the same port, where the same gateway accepts WebSocket."""
_DEPRECATED_PATH = "/v1/sync"
_PROFILES = ("web", "radio")
_USER_TIMEOUT_BELOW_S = 15


@dataclass(frozen=True)
class Connection:
    """How to reach the service. All times in seconds. Raises ValueError, whose message begins with
    the setting's name.
    """

    address: str | Sequence[str | tuple[str, int]] | None = None
    """A host, "host:port", or several of them, also as pairs with their weights: then any one will do, drawn by weight,
    and one that fails rests for a while. None: localhost, if neither `home` nor `directory` is given.

    "unix:PATH": a `Link` of another program.

    Or URLs, which need `coldnotify[web]`: wss:// or ws:// (WebSocket). Deprecated: https:// and http:// (.../v1/sync)
    mean wss:// and ws:// (.../v1/connect) of the same host and port.
    """
    port: int = DEVICE_PORT
    """Default port of addresses that are not URLs."""
    ca_cert: str | PathLike[str] | None = None
    """PEM file of the authorities to trust: turns TLS on. With `cert` alone the system's authorities are trusted."""
    cert: str | PathLike[str] | None = None
    """PEM file of this client's own certificate: turns TLS on."""
    key: str | PathLike[str] | None = None
    """PEM file of the private key of `cert`, unless it is in the same file."""
    token: str | Callable[[], str] | None = field(default=None, repr=False)
    """A signed token that identifies the client, if no certificate does; or a function that returns one. It is called
    at each connection, blocks it while it runs, and may raise (then the connection is retried later).
    """
    connect_timeout_s: float = 10.0
    """For finding the address, TCP and TLS together."""
    keepalive_s: int | None = None
    """A Ping is sent after this long without anything else: 1 to 86,400; None: as `profile` says; without one 60, and
    45 with a URL among the addresses. Longer saves battery, shorter notices a dead link sooner. Balancers end
    connections on which nothing came for 60 s, as a rule."""
    silence_grace_s: float | None = None
    """A gateway that is silent for 1.5 keepalives and this after a Ping is given up; for this alone, after the machine
    slept or the program stood still. None: a keepalive, and at most 10."""
    fresh_s: float | None = None
    """The client counts as caught up if an answer of the service proves that it was, at most so long ago; None: 2.5
    keepalives and 20 s. Must be more than a keepalive and 12 s, which the proof is old with nothing wrong."""
    request_timeout_s: float = ANSWER_S
    """A registration that is not answered is asked for again after this long."""
    ack_delay_s: float = ACK_DELAY_S
    """Acknowledgements are delayed so long, and merged."""
    backoff_min_s: float = BACKOFF_MIN_S
    """The first pause before connecting again is random, up to this long; the next ones double..."""
    backoff_max_s: float = BACKOFF_MAX_S
    """...up to this."""
    address_rest_s: float = 60.0
    """An address that failed is not tried for this long while there is another."""
    displaced_min_s: float = DISPLACED_MIN_S
    """The pause after another client of the same name took over (a cloned card, perhaps); it doubles..."""
    displaced_max_s: float = DISPLACED_MAX_S
    """...up to this."""
    home: str | None = None
    """The gateway to be at whenever it serves: it is tried first, and again beside a session elsewhere."""
    directory: str | None = None
    """URL of the HTTP service, which names a gateway once none of the addresses serves; it is asked at most once a
    second."""
    profile: str | None = None
    """"web": a line that costs nothing, with a keepalive of 4 s: a dead connection is noticed within 14 s. "radio", or
    None: one that costs battery or money."""

    def __post_init__(self) -> None:
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 1 <= self.port <= 65535:
            raise ValueError(f"port: {self.port!r} is not a number from 1 to 65535")
        if self.profile not in (None, *_PROFILES):
            raise ValueError(f"profile: {self.profile!r} is unknown, expected one of {', '.join(_PROFILES)}")
        if self.directory is not None:
            requests_of(self.directory, None, None)
        self.addresses()
        self._warn_of_deprecated()
        keepalive_s = self.chosen_keepalive_s()
        if isinstance(keepalive_s, bool) or not isinstance(keepalive_s, int):
            raise ValueError(f"keepalive_s: {keepalive_s!r} is not a whole number")
        if not 1 <= keepalive_s <= KEEPALIVE_S_MAX:
            raise ValueError(f"keepalive_s: {keepalive_s} is not from 1 to {KEEPALIVE_S_MAX}")
        for name in (
            "connect_timeout_s",
            "request_timeout_s",
            "ack_delay_s",
            "backoff_min_s",
            "backoff_max_s",
            "address_rest_s",
            "displaced_min_s",
            "displaced_max_s",
        ):
            check_seconds(name, getattr(self, name))
        if self.silence_grace_s is not None:
            check_seconds("silence_grace_s", self.silence_grace_s)
        if self.fresh_s is not None:
            check_seconds("fresh_s", self.fresh_s)
            if self.fresh_s <= keepalive_s + FRESH_PROOF_S:
                raise ValueError(f"fresh_s: {self.fresh_s} is not more than keepalive_s and {FRESH_PROOF_S}")
        if self.connect_timeout_s == 0 or self.request_timeout_s == 0:
            raise ValueError("connect_timeout_s, request_timeout_s: must be more than 0")
        if self.key is not None and self.cert is None:
            raise ValueError("key: needs cert, too")

    def _warn_of_deprecated(self) -> None:
        for entry, _ in self._entries():
            if urlsplit(entry).scheme in _DEPRECATED:
                warnings.warn(
                    f"address: {entry} is deprecated: use {_parse_url(entry)}", DeprecationWarning, stacklevel=4
                )

    def _entries(self) -> list[tuple[str, int]]:
        """The application's addresses, without its home, each with its weight."""
        given = self.address
        if given is None:
            return [] if self.home is not None or self.directory is not None else [("localhost", 1)]
        if isinstance(given, str):
            return [(given, 1)]
        return [_weighted(entry) for entry in given]

    def addresses(self) -> list[Address]:
        """The addresses of the gateways that are named, the home first."""
        home, listed = self.gateways().home, [address for address, _ in self.gateways().addresses]
        return listed if home is None else [home, *(one for one in listed if one != home)]

    def gateways(self) -> Gateways:
        """The gateways, as the client's core takes them."""
        entries = self._entries()
        if not entries and self.home is None and self.directory is None:
            raise ValueError("address: is empty")
        weights: dict[Address, int] = {}
        for entry, weight in entries:
            weights.setdefault(self._secured(_parse(entry, self.port)), weight)
        home = None if self.home is None else self._secured(_parse(self.home, self.port, "home"), "home")
        return Gateways(list(weights.items()), home, self.directory is not None)

    def _secured(self, address: Address, setting: str = "address") -> Address:
        if address.is_web and not address.secure and (self.ca_cert is not None or self.cert is not None):
            raise ValueError(f"{setting}: {address} is not secured by TLS, but ca_cert or cert is given")
        return address

    def named(self, said: str) -> Address:
        """Returns the address that the directory says. Raises ValueError."""
        address = _parse(said, self.port, "directory")
        if self.wants_web and not address.scheme:
            scheme = "wss" if str(self.directory).startswith("https:") else "ws"
            address = _parse(f"{scheme}://{address.authority}", self.port, "directory")
        return self._secured(address, "directory")

    @property
    def wants_web(self) -> bool:
        """True if the directory is asked for WebSocket addresses: the others are such, too."""
        return any(one.is_web for one in self.addresses())

    def chosen_keepalive_s(self) -> int:
        """Returns `keepalive_s`, or the default for its profile and addresses if it is None (seconds)."""
        if self.keepalive_s is not None:
            return self.keepalive_s
        if self.profile == "web":
            return WEB_PROFILE_KEEPALIVE_S
        return WEBSOCKET_KEEPALIVE_S if any(one.is_web for one in self.addresses()) else KEEPALIVE_S

    def chosen_silence_grace_s(self) -> float:
        """Returns `silence_grace_s`, or the default for its keepalive if it is None (seconds)."""
        return min(SILENCE_EXTRA_S, self.chosen_keepalive_s()) if self.silence_grace_s is None else self.silence_grace_s

    def user_timeout_ms(self) -> int | None:
        """Returns TCP's own limit for what is not acknowledged; None: it is left to the kernel, as waits of minutes are
        usual on radios.
        """
        keepalive_s = self.chosen_keepalive_s()
        if keepalive_s >= _USER_TIMEOUT_BELOW_S:
            return None
        return int(1000 * (SILENCE_FACTOR * keepalive_s + self.chosen_silence_grace_s()))

    def uses_tls(self, address: Address) -> bool:
        """Returns true if TLS is used for this address."""
        return address.secure or (not address.scheme and (self.ca_cert is not None or self.cert is not None))

    def current_token(self) -> str:
        """Returns the token to use now; "" if there is none. Raises what its function raises, ValueError if it is not a
        text.
        """
        token = self.token() if callable(self.token) else self.token
        if token is not None and not isinstance(token, str):
            raise ValueError("token: is not a text")
        return token or ""

    def ssl_context(self) -> ResumingContext | None:
        """The TLS settings; None: TLS is not used. Raises ValueError when a file cannot be used."""
        secure = any(address.secure for address in self.addresses()) or str(self.directory).startswith("https:")
        if self.ca_cert is None and self.cert is None and not secure:
            return None
        context = ResumingContext()
        if self.ca_cert is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(Path(self.ca_cert))
            except (OSError, ssl.SSLError) as error:
                raise ValueError(f"ca_cert: {self.ca_cert} cannot be used: {error}") from None
        if self.cert is not None:
            try:
                context.load_cert_chain(Path(self.cert), None if self.key is None else Path(self.key))
            except (OSError, ssl.SSLError) as error:
                raise ValueError(f"cert, key: {self.cert} cannot be used: {error}") from None
        return context


def check_seconds(name: str, value: float) -> None:
    """Raises ValueError, naming the setting, unless `value` is a time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{name}: {value!r} is not a number of seconds")


def _weighted(entry: object) -> tuple[str, int]:
    """An address without a weight has 1."""
    if isinstance(entry, str):
        return entry, 1
    if not isinstance(entry, tuple) or len(entry) != 2:
        raise ValueError(f"address: {entry!r} is neither a text nor a pair of a text and a weight")
    address, weight = entry
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= WEIGHT_MAX:
        raise ValueError(f"address: the weight {weight!r} of {address!r} is not a whole number from 1 to {WEIGHT_MAX}")
    return address, weight


def _parse(entry: str, port: int, setting: str = "address") -> Address:
    """host, host:port, [v6]:port, or a bare v6 address."""
    if not isinstance(entry, str):
        raise ValueError(f"{setting}: {entry!r} is not a text")
    if entry.startswith("unix:"):
        if not entry[5:] or not hasattr(socket, "AF_UNIX"):
            raise ValueError(f"{setting}: {entry!r} has no path, or this system has no Unix sockets")
        return Address(entry[5:], 0, "unix")
    if "://" in entry:
        return _parse_url(entry, setting)
    try:
        return Address(*parse_host_port(entry, port))
    except ValueError as error:
        raise ValueError(f"{setting}: {entry!r} {error}") from None


def _parse_url(entry: str, setting: str = "address") -> Address:
    try:
        url = urlsplit(entry)
        port = url.port
    except ValueError as error:
        raise ValueError(f"{setting}: {entry!r} is not a URL: {error}") from None
    scheme = _DEPRECATED.get(url.scheme, url.scheme)
    if scheme not in _PORTS:
        raise ValueError(f"{setting}: {entry!r} has an unknown scheme, expected one of {', '.join(_PORTS)}")
    bad = not url.hostname or port == 0 or url.username is not None or url.query or url.fragment
    if bad or any(c.isspace() or not c.isascii() for c in entry):
        raise ValueError(f"{setting}: {entry!r} is not {url.scheme}://host[:port][/path]")
    library = missing_library(scheme)
    if library is not None:
        raise ValueError(
            f"{setting}: {url.scheme}:// needs {library}, which is not installed: coldnotify[web] brings it"
        )
    path = url.path if url.path not in ("", "/") else _PATH
    if scheme != url.scheme and path != _PATH:
        before, found, rest = path.rpartition(_DEPRECATED_PATH)
        if not found or rest:
            raise ValueError(f"{setting}: {entry!r} does not end in {_DEPRECATED_PATH}: use {scheme}:// and the path")
        path = before + _PATH
    return Address(str(url.hostname), port or _PORTS[scheme], scheme, path)
