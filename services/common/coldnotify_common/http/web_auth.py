"""Authorizes requests to an HTTP port: 401 without an identity, 403 for a domain that the identity may not use."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.web import Handler, error_response, field_of
from coldnotify_common.paced import Paced
from coldnotify_common.security.authentication import Authenticator, NotAuthenticated, bearer
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.publish_rights import NotGranted

_paced = Paced(structlog.get_logger())

PROBES = ("/healthz", "/readyz", "/metrics")
"""Paths for monitoring: they show nothing about domains."""


IDENTITY = web.RequestKey("identity", Identity)
"""The request's key for the identity of the caller, for handlers."""

_CHECKS_NAMES = "_checks_names"
_Checks = TypeVar("_Checks", bound=Callable[..., Any])


def checks_names(handler: _Checks) -> _Checks:
    """Marks a handler that checks by Identity.publish_right() which names the caller may publish to. So it is open to
    those who may publish to some names of a group only."""
    setattr(handler, _CHECKS_NAMES, True)
    return handler


def authorized(authenticator: Authenticator, open_paths: Collection[str] = PROBES) -> Middleware:
    """Returns a middleware that requires an identity for every path but `open_paths`.

    For a path with {domain}, the identity needs the right to publish to that domain, or, where the handler
    `checks_names`, to some names of its {group}: its NotGranted is answered with 403. Other paths show data of many
    domains: they require the right to publish to any domain. Place it after `json_errors`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in open_paths:
            return await handler(request)
        identity = identified(authenticator, request)
        if isinstance(identity, web.Response):
            return identity
        request[IDENTITY] = identity
        domain = request.match_info.get("domain")
        if domain is not None and not (identity.may_publish(domain) or _is_let_through(request, identity, domain)):
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"domain: {identity.name} may not publish to {domain!r}", field="domain")
        if domain is None and not identity.publishes:
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"{identity.name} may publish to no domain, so there is nothing for it here")
        try:
            return await handler(request)
        except NotGranted as error:
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, str(error), field=field_of(error))

    return check


def _is_let_through(request: web.Request, identity: Identity, domain: str) -> bool:
    if not getattr(request.match_info.handler, _CHECKS_NAMES, False):
        return False
    return not identity.publish_right(domain, request.match_info["group"]).nothing


def identified(authenticator: Authenticator, request: web.Request) -> Identity | web.Response:
    """Returns the identity of the caller, by certificate or token; else the answer, a 401."""
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    try:
        return authenticator.identify(certificate=certificate, token=bearer(request.headers.get("Authorization")))
    except NotAuthenticated as error:
        _paced.log("request not authenticated", path=request.path, reason=str(error))
        response = error_response(401, str(error))
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
