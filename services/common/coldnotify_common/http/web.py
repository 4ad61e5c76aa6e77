"""Code shared by all HTTP endpoints: errors as JSON that name the wrong parameter or field, and request ids."""

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from aiohttp import web, web_response
from coldnotify_schemas.names import InvalidName

from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.paced import Paced

log = structlog.get_logger()
_paced = Paced(log)

SERVER = "coldnotify"
"""The header `Server` of all our answers. aiohttp's own names its version and Python's, which only helps attackers; and
our handlers and signals do not see the answers that aiohttp itself gives to malformed HTTP."""
web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


REQUEST_ID = "X-Request-Id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Request ids accepted from a caller; restricted because they are written to our log."""

_READYZ = "/readyz"
"""The path whose 503 is an answer, not a failure: a caller that waits for readiness gets many of them, and the service
logs the reason."""
_BROKEN_OFF = 499
"""Status for the log only: nothing is sent any more."""


class BadRequest(ValueError):
    """A field or parameter of a request is wrong: answered with 400 by `json_errors`."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}")
        self.field = field


class HttpNotNow(web.HTTPServiceUnavailable):
    """The service is overloaded at the moment: 503 with Retry-After and further fields (`more`)."""

    def __init__(self, words: str, more: Mapping[str, object] | None = None) -> None:
        super().__init__(text=words, headers={"Retry-After": "1"})
        self.more = more or {}


def error_response(status: int, error: str, **more: object) -> web.Response:
    """Returns `{"error": ...}` with further fields."""
    return json_answer({"error": error, **more}, status=status)


def field_of(error: ValueError) -> str:
    """Returns the field that the message of an InvalidName, InvalidRecord or BadRequest begins with."""
    return str(error).partition(":")[0]


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns every error of a handler into JSON: {"error": ..., "field": ...} with 400, 404, 405, 413, 500...

    The request's id, the caller's own or a new one, is in all log lines meanwhile, and in the answer.
    """
    given = request.headers.get(REQUEST_ID, "")
    request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
    started_s = time.monotonic()
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        try:
            response = await _answer(request, handler)
        except web.HTTPException as redirection:
            redirection.headers[REQUEST_ID] = request_id
            raise
        if not response.prepared:  # a stream has already sent its headers
            response.headers[REQUEST_ID] = request_id
        seconds = round(time.monotonic() - started_s, 4)
        fields: dict[str, Any] = {"method": request.method, "path": request.path, "status": response.status}
        fields["seconds"] = seconds
        if response.status < 500 or request.path == _READYZ:
            log.debug("request answered", **fields)
        else:  # paced, because anybody may send any number of them
            _paced.log("request answered", level="warning", **fields)
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (BadRequest, InvalidName) as error:
        return error_response(400, str(error), field=field_of(error))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        headers = {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
        more = error.more if isinstance(error, HttpNotNow) else {}
        return json_answer({"error": error.text or error.reason, **more}, status=error.status, headers=headers)
    except Exception as error:
        begun = request.writer.output_size > 0
        if begun and request.transport is not None:
            # A begun answer can be neither ended nor replaced: the client has to see a body without its end.
            request.transport.abort()
        if begun and isinstance(error, ConnectionError | TimeoutError):
            return error_response(_BROKEN_OFF, "the client is gone, or does not read")
        _paced.log("request failed", level="error", raised=error, method=request.method, path=request.path)
        return error_response(500, "internal error, see the service's log")
