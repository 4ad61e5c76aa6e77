"""Who may ask what of an HTTP port: 401 without an identity, 403 for a domain that is not theirs, or a foreign page."""

from collections.abc import Collection
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.authentication import Authenticator, NotAuthenticated, bearer
from coldnotify_common.identity import Identity
from coldnotify_common.web import Handler, error_response

log = structlog.get_logger()

PROBES = ("/healthz", "/readyz", "/metrics")
"""For those who watch over the service: nothing about domains is in there."""


IDENTITY = web.RequestKey("identity", Identity)
"""Under this key of the request handlers find who asks."""


def authorized(authenticator: Authenticator, open_paths: Collection[str] = PROBES) -> Middleware:
    """A middleware: every path but `open_paths` wants an identity; one with a {domain}, one that may publish to it.

    Paths without a domain show things of many: they want somebody who may publish anywhere. Goes behind `json_errors`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in open_paths:
            return await handler(request)
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            identity = authenticator.identify(
                certificate=certificate, token=bearer(request.headers.get("Authorization"))
            )
        except NotAuthenticated as error:
            log.info("request not authenticated", path=request.path, reason=str(error))
            response = error_response(401, str(error))
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        request[IDENTITY] = identity
        domain = request.match_info.get("domain")
        if domain is not None and not identity.may_publish(domain):
            log.info("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"domain: {identity.name} may not publish to {domain!r}", field="domain")
        if domain is None and not identity.publishes:
            log.info("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"{identity.name} may publish to no domain, so there is nothing for it here")
        return await handler(request)

    return check


def own_pages(passed_on: Collection[str] = ()) -> Middleware:
    """A middleware: a browser's page from elsewhere may ask for nothing, but for the paths that are `passed_on`.

    Otherwise any page that somebody visits could publish with their certificate, or where nobody is asked for one.
    What is no browser says no Origin. Goes behind `json_errors`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is None or request.path in passed_on or is_of(origin, request.host):
            return await handler(request)
        log.info("page not allowed", path=request.path, origin=origin[:200])
        return error_response(403, f"pages of {origin!r} may not ask {request.host!r}", field="Origin")

    return check


def is_of(origin: str, host: str) -> bool:
    """Whether a page of this origin (a header's) comes from this very host and port."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False
