"""Refuses query parameters that a port's OpenAPI document does not know: one that is passed over is a wish unheard."""

from functools import cache
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.openapi import document
from coldnotify_common.http.web import BadRequest, Handler

BEGINNING = "/v1/"
"""Only these paths are judged: pages, probes and /metrics have others, and their callers add what they like."""
_SHOWN = 64


def known_parameters(kind: str) -> Middleware:
    """Returns a middleware for a port of this kind, one of openapi.PORTS, to follow `json_errors`.

    It answers 400 with the parameter's name as `field`, before the handler has done anything.
    """

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if request.rel_url.raw_query_string and resource is not None and resource.canonical.startswith(BEGINNING):
            _check(kind, request, resource.canonical)
        return await handler(request)

    return known


def _check(kind: str, request: web.Request, path: str) -> None:
    method = "get" if request.method == "HEAD" else request.method.lower()
    known = of_operations(kind).get((method, path))
    if known is None:
        return
    for name in request.query:
        if name not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise BadRequest(name[:_SHOWN], f"{request.method} {path} has no such parameter, {has}")


@cache
def of_operations(kind: str) -> dict[tuple[str, str], frozenset[str]]:
    """Returns the query parameters of each operation, by (method in small letters, path)."""
    said = document("a port", kind)
    named: dict[str, Any] = said["components"].get("parameters", {})
    return {
        (method, path): frozenset(
            one["name"]
            for one in (named[p["$ref"].rpartition("/")[2]] if "$ref" in p else p for p in operation["parameters"])
            if one["in"] == "query"
        )
        for path, operations in said["paths"].items()
        for method, operation in operations.items()
    }
