"""Who may ask what of an HTTP port: 401 without an identity, 403 for a domain that is not theirs."""

from collections.abc import Collection

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.web import Handler, error_response
from coldnotify_common.paced import Paced
from coldnotify_common.security.authentication import Authenticator, NotAuthenticated, bearer
from coldnotify_common.security.identity import Identity

_paced = Paced(structlog.get_logger())

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
            _paced.log("request not authenticated", path=request.path, reason=str(error))
            response = error_response(401, str(error))
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        request[IDENTITY] = identity
        domain = request.match_info.get("domain")
        if domain is not None and not identity.may_publish(domain):
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"domain: {identity.name} may not publish to {domain!r}", field="domain")
        if domain is None and not identity.publishes:
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"{identity.name} may publish to no domain, so there is nothing for it here")
        return await handler(request)

    return check
