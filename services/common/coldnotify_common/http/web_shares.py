"""Identifies the caller of an HTTP port for its share of bounded resources, and builds the answer when the share is
used up."""

from aiohttp import web

from coldnotify_common.http.web import HttpNotNow
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_port import WEB_PORT, WebPort
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.shared import Full, Who


def who_asks(request: web.Request, *, by_domain: bool = True) -> Who:
    """Returns the identity; if none is required, the domain of the request (`by_domain`), or else the address.

    None: many callers share that address and cannot be told apart.
    """
    identity: Identity | None = request.get(IDENTITY)
    if identity is not None and identity.who is not None:
        return identity.who
    domain = request.match_info.get("domain")
    if domain is not None and by_domain:
        return domain
    port: WebPort | None = request.app.get(WEB_PORT)
    return None if port is None else port.one_behind(request)


def not_now(full: Full, what: str) -> HttpNotNow:
    """Returns the error for an exhausted resource, the caller's share or all of it. `what`: as in "12 requests"."""
    return HttpNotNow(f"{'you' if full is Full.OF_ONE else 'all together'} have {what} under way already")
