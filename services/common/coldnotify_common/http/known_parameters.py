"""Refuses requests whose URL has a query parameter that is not described for their route.

A caller that misspells one, or knows a newer release, must not believe that it had an effect.
"""

import asyncio
import difflib
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http import openapi
from coldnotify_common.http.web import BadRequest, Handler

_NAME_MAX = 80
Parameters = Mapping[tuple[str, str], Collection[str]]
"""The names of query parameters, by method and path of OpenAPI."""


@cache
def parameters_of(kind: str) -> Parameters:
    """Returns the described query parameters of all operations of a port of this kind, one of `openapi.PORTS`."""
    document = openapi.document(kind, kind)
    named = document["components"]["parameters"]
    return {
        (method, path): [one["name"] for one in _whole(operation["parameters"], named) if one["in"] == "query"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def _whole(parameters: list[dict[str, Any]], named: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [named[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in parameters]


def known_parameters(kind: str, *, passed_on: Collection[str] = ()) -> Middleware:
    """Returns the middleware for a port of this kind. Its lenient paths, routes that are not described, and the paths
    `passed_on`, which another process answers, take any parameter.
    """
    lenient = {*openapi.LENIENT, *passed_on}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.query_string and request.path not in lenient:
            # The first request reads files.
            _check(request, await asyncio.to_thread(parameters_of, kind))
        return await handler(request)

    return check


def _check(request: web.Request, parameters: Parameters) -> None:
    resource = request.match_info.route.resource
    if resource is None:
        return  # there is no such route
    method = "get" if request.method == "HEAD" else request.method.lower()
    known = parameters.get((method, openapi.template_of(resource.canonical)))
    if known is None:
        return
    for name in request.query:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            words = f"; did you mean {near[0]}?" if near else f"; there is {', '.join(known)}" if known else ""
            raise BadRequest(name[:_NAME_MAX], f"{request.method} {resource.canonical} has no such parameter{words}")
