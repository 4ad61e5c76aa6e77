"""Which pages of browsers may ask an HTTP port, and by which names it may be asked: 403 for a page from elsewhere, 421.

Otherwise any page that somebody visits could ask with their certificate, or where nobody is asked for one.
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
"""Of Sec-Fetch-Site: no browser, one of before 2023, or one over plain HTTP; this very origin; typed, or a bookmark.
`same-site` is not among them: another port of this host is that, and another machine of the domain."""
_SHOWN_CHARS = 200


def own_pages(passed_on: Collection[str] = (), navigable: Collection[str] = ()) -> Middleware:
    """A middleware: a browser's page from elsewhere may ask for nothing, but for the paths that are `passed_on`.

    It may lead to those that are `navigable`, as a link does. Goes behind `json_errors`.
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
    """The header, and what it says, that tells a page from elsewhere; None: a page of this port's, or no page.

    What is no browser says neither Origin nor Sec-Fetch-Site. Browsers say an Origin of what changes something and of
    what a script may read; of images, frames and links only the other one.
    """
    origin = request.headers.get("Origin")
    if origin is not None and not is_of(origin, request.host):
        return "Origin", origin[:_SHOWN_CHARS]
    site = request.headers.get("Sec-Fetch-Site", "").lower()
    if site in _OWN_SITES or (origin is None and request.path in navigable and _navigates(request)):
        return None
    return "Sec-Fetch-Site", site[:_SHOWN_CHARS]


def is_of(origin: str, host: str) -> bool:
    """Whether a page of this origin (a header's) comes from this very host and port."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def asked_by_name(names: Iterable[str], setting: str, passed_on: Collection[str] = ()) -> Middleware:
    """A middleware: the port may be asked by an address, as localhost, and by these names; `*`: by any.

    Paths that are `passed_on` may be asked by all names: who answers them looks at that.

    A page's owner may make its name lead to this machine. To the browser, what answers here is that page's own then.
    `setting`: how the names are told, for the words of the refusal. Goes behind `json_errors`.
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
    """Whether this Host, with or without a port, is an address, localhost, or one of these names (`*`: any)."""
    if ANY_HOST in names:
        return True
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    name = name.lower().rstrip(".")
    return name == "localhost" or name in map(str.lower, names) or _is_address(name)


def names_of(setting: str, *hosts: str) -> frozenset[str]:
    """The names of a setting, separated by spaces, and the hosts that the process itself listens as."""
    return frozenset([*setting.split(), *(host for host in hosts if host)])


def _navigates(request: web.Request) -> bool:
    """A link, or what is typed: the whole tab becomes that page."""
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
