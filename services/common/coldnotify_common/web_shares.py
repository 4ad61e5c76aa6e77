"""Who asks an HTTP port, as shares of bounded things count it, and the answer where such a share is used up."""

from aiohttp import web

from coldnotify_common.identity import Identity
from coldnotify_common.shared import Full, Who
from coldnotify_common.web import error_response
from coldnotify_common.web_auth import IDENTITY
from coldnotify_common.web_port import WEB_PORT, WebPort

RETRY_AFTER_S = 1
OWN, ALL = 429, 503


def who_asks(request: web.Request, *, by_domain: bool = True) -> Who:
    """The identity; where nobody is asked for one, the domain that is asked about (`by_domain`), or else the address.

    None: many are behind that address, and cannot be told from each other.
    """
    identity: Identity | None = request.get(IDENTITY)
    if identity is not None and identity.who is not None:
        return identity.who
    domain = request.match_info.get("domain")
    if domain is not None and by_domain:
        return domain
    port: WebPort | None = request.app.get(WEB_PORT)
    return None if port is None else port.one_behind(request)


def share_refused(full: Full, what: str, **more: object) -> web.Response:
    """429 for who has as much of it as one may have, 503 where there is no more of it. `what`: as in "12 requests"."""
    status, words = (OWN, "you have") if full is Full.OF_ONE else (ALL, "all together have")
    response = error_response(status, f"{words} {what} under way already", **more)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
