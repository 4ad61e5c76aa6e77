"""Checks which web pages may use an HTTP port (403 for a page from elsewhere), and under which host names (421).

Otherwise any page that somebody visits could send requests with their certificate, or without one where none is
required.
"""

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.web import Handler, error_response
from coldnotify_common.paced import Paced

_paced = Paced(structlog.get_logger())

ANY_HOST = "*"
_OWN_SITES = ("", "same-origin", "none")
"""Accepted values of Sec-Fetch-Site. Empty: no browser, one from before 2023, or one over plain HTTP. same-origin: a
page of this port. none: typed, or a bookmark. `same-site` is rejected, because it includes another port of this host
and another machine of the domain."""
_SHOWN_CHARS = 200


def own_pages(passed_on: Collection[str] = (), navigable: Collection[str] = ()) -> Middleware:
    """Returns a middleware that rejects requests of pages from elsewhere, except for paths in `passed_on`.

    Such a page may navigate to the paths in `navigable`, as a link does. Place it after `json_errors`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        found = None if request.path in passed_on else foreign(request, navigable)
        if found is None:
            return await handler(request)
        name, value = found
        _paced.log("page not allowed", path=request.path, header=name, value=value)
        of = repr(value) if name == "Origin" else f"another origin ({value})"
        return error_response(403, f"pages of {of} may not ask {request.host!r}", field=name)

    return check


def foreign(request: web.Request, navigable: Collection[str] = ()) -> tuple[str, str] | None:
    """Returns the header, and its value, that shows a page from elsewhere; None: a page of this port, or no page.

    Clients other than browsers send neither Origin nor Sec-Fetch-Site. Browsers send Origin with requests that change
    something and with those whose answers a script may read; with images, frames and links only the other header.
    """
    origin = request.headers.get("Origin")
    if origin is not None and not is_of(origin, request.host):
        return "Origin", origin[:_SHOWN_CHARS]
    site = request.headers.get("Sec-Fetch-Site", "").lower()
    if site in _OWN_SITES or (origin is None and request.path in navigable and _navigates(request)):
        return None
    return "Sec-Fetch-Site", site[:_SHOWN_CHARS]


def is_of(origin: str, host: str) -> bool:
    """Returns true if a page of this origin (a header's value) comes from this host and port."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def asked_by_name(names: Iterable[str], setting: str, passed_on: Collection[str] = ()) -> Middleware:
    """Returns a middleware that accepts requests to an address, to localhost, and to these names; `*`: to any name.

    Paths in `passed_on` accept all names: their handlers check the name.
    The owner of a page may point its name at this machine. The browser then treats answers from here as that page's
    own.
    `setting`: the name of the setting, for the error message. Place it after `json_errors`.
    """
    known = frozenset(names)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host")
        if host is None or request.path in passed_on or is_known(host, known):
            return await handler(request)
        shown = host[:_SHOWN_CHARS]
        _paced.log("host not allowed", path=request.path, host=shown)
        return error_response(421, f"this port does not answer to {shown!r}: see {setting}", field="Host")

    return check


def is_known(host: str, names: Collection[str]) -> bool:
    """Returns true if this Host, with or without a port, is an address, localhost, or one of these names (`*`: any)."""
    if ANY_HOST in names:
        return True
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    name = name.lower().rstrip(".")
    return name == "localhost" or name in map(str.lower, names) or _is_address(name)


def names_of(setting: str, *hosts: str) -> frozenset[str]:
    """Returns the names of a setting, separated by spaces, and the hosts that the process itself listens on."""
    return frozenset([*setting.split(), *(host for host in hosts if host)])


def _navigates(request: web.Request) -> bool:
    """Returns true for a link or a typed address: the whole tab loads that page."""
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
