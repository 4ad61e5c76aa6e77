"""The addresses of the HTTP service that are known, and a connection that tells whether a request has left."""

import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from coldnotify._core.session.address_book import WEIGHT_MAX

HttpAddresses = str | Sequence[str | tuple[str, int]]
"""host:port or a URL; or several, each alone or with its weight."""
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
