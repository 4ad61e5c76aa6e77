"""The directory: `GET /v1/gateway` of the HTTP service names a gateway to a client that knows no better."""

import ssl
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.session.reconnect import Address
from coldnotify._http_requests import HttpRefusal, HttpRequests, HttpUnanswered

HOME_OUT_S = 60.0
"""A home that is not ready is left alone for so long, unless the directory says for how long."""


class NamedGateway(NamedTuple):
    """The directory's answer."""

    address: Address
    home_out_s: float
    """For so long the client's home takes nobody; 0: it does, or there is none."""


class NoGateway(Exception):
    """The directory names none, or does not answer."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


def ask_directory(
    requests: HttpRequests,
    identity: ClientIdentity,
    home: Address | None,
    parse: Callable[[str], Address],
    timeout_s: float,
    *,
    web: bool,
) -> NamedGateway:
    """Asks once. `web`: for a gateway's WebSocket address. `parse` raises ValueError. Raises NoGateway."""
    query = {
        "domain": identity.domain,
        "group": identity.group,
        "client": identity.client,
        "home": None if home is None else str(home),
        "listener": "web" if web else None,
    }
    try:
        answer = requests.ask("GET", "/v1/gateway", query=query, timeout_s=timeout_s)
        address = parse(str(answer.get("address", "")))
    except HttpRefusal as error:
        raise NoGateway(f"directory: {error}", max(0.0, error.retry_after_s or 0.0)) from None
    except (HttpUnanswered, ValueError) as error:
        raise NoGateway(f"directory: {error}", 0.0) from None
    home_out_s = 0.0
    if home is not None and answer.get("home_ready") is False:
        until = answer.get("until")
        home_out_s = max(0.0, until / 1000 - time.time()) if isinstance(until, int | float) else HOME_OUT_S
    return NamedGateway(address, home_out_s)


def requests_of(url: str, token: str | None, context: ssl.SSLContext | None) -> HttpRequests:
    """Returns the directory at this URL. Raises ValueError that begins with `directory:`."""
    if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
        raise ValueError(f"directory: {url!r} is not an http:// or https:// URL")
    return HttpRequests(url, token, context, argument="directory")
