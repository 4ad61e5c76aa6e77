"""The addresses of the HTTP service that are known, and a connection that tells whether a request has left."""

import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from random import Random
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request, build_opener

HttpAddresses = str | Sequence[str | tuple[str, int]]
"""host:port or a URL; or several, each alone or with its weight."""
WEIGHT_MAX = 1000
REST_S = 10.0
"""For so long a node that did not answer is not asked, unless no other one is left."""
CONNECT_S_MAX = 5.0
"""After this time another node is tried."""
_UNSENT = "no connection: nothing was sent"


def bases_of(url: HttpAddresses, argument: str) -> list[tuple[str, int]]:
    """Returns the URL and the weight of each address. Raises ValueError, which begins with the argument's name."""
    several = [url] if isinstance(url, str) else list(url)
    if not several:
        raise ValueError(f"{argument}: is empty")
    found: dict[str, int] = {}
    for place, one in enumerate(several):
        where = argument if isinstance(url, str) else f"{argument}[{place}]"
        text, weight = (one, 1) if isinstance(one, str) else one
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= WEIGHT_MAX:
            raise ValueError(f"{where}: the weight {weight!r} is not from 1 to {WEIGHT_MAX}")
        base = base_of(text, where)
        if base in found:
            raise ValueError(f"{where}: {text!r} is there twice")
        found[base] = weight
    return list(found.items())


def base_of(url: str, argument: str) -> str:
    """Returns the URL of host:port or of a URL. Raises ValueError, which begins with the argument's name."""
    base = url.strip().rstrip("/")
    base = base if base.startswith(("http://", "https://")) else f"http://{base}"
    if base == "http://":
        raise ValueError(f"{argument}: {url!r} is neither host:port nor a URL")
    return base


class HttpNodes:
    """The nodes of one service: the home first, then the others as drawn by weight. One that failed rests."""

    def __init__(self, bases: Sequence[tuple[str, int]], home: str | None, random: Random) -> None:
        # Drawn by weight: publishers that know the same nodes spread over them.
        drawn = sorted((-(random.random() ** (1 / weight)), base) for base, weight in bases if base != home)
        self._others = [base for _, base in drawn]
        self._home = [] if home is None else [home]
        self._rests_until: dict[str, float] = {}
        self._failed_at: dict[str, float] = {}

    @property
    def all(self) -> list[str]:
        """The URLs of all nodes, the next one first."""
        return self._home + self._others

    def next(self, now: float) -> str:
        """Returns the node to ask now: the same one as long as it does not fail."""
        awake = [base for base in self.all if self._rests_until.get(base, now) <= now]
        return awake[0] if awake else min(self.all, key=self._failed_at.__getitem__)

    def failed(self, base: str, now: float, rest_s: float | None = None) -> None:
        """Notes that a node did not answer, or wants to be asked again only after `rest_s`."""
        self._rests_until[base] = now + (REST_S if rest_s is None else rest_s)
        self._failed_at[base] = now
        if base in self._others:  # to the end: after its rest it is asked after those that have not failed since
            self._others.remove(base)
            self._others.append(base)


class _Connection(HTTPConnection):
    def connect(self) -> None:
        timeout_s = self.timeout
        self.timeout = CONNECT_S_MAX if timeout_s is None else min(timeout_s, CONNECT_S_MAX)
        try:
            super().connect()
        except OSError as error:
            error.add_note(_UNSENT)
            raise
        finally:
            self.timeout = timeout_s
        self.sock.settimeout(timeout_s)


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TlsConnection, req, context=self._tls)


def opener(context: ssl.SSLContext | None) -> OpenerDirector:
    """Returns what opens URLs like `urlopen`, but gives up a connection that is not made within CONNECT_S_MAX."""
    return build_opener(_Http(), _Https(context))


def is_unsent(reason: object) -> bool:
    """Returns true if this is why no connection was made: the request has not left this machine."""
    return isinstance(reason, ConnectionRefusedError) or _UNSENT in getattr(reason, "__notes__", ())
