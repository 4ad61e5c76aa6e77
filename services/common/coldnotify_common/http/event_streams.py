"""Server-sent events: the headers of all streams, and an end of a stream after which a browser reconnects.

A browser's EventSource reconnects by itself after an answer with status 200 that ends. After any other status it never
does, and tells its page nothing. So a temporary failure is answered with a stream that ends at once, and states the
reason and when to reconnect. Only permanent failures have a status of their own: a wrong query, a caller without
permission, an unknown path.
"""

import random
from collections.abc import Collection

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.web import REQUEST_ID, Handler

TYPE = "text/event-stream"
HEADERS = {
    "Content-Type": TYPE,
    "Cache-Control": "no-store",
    # nginx buffers an answer until it has 4 KiB of it or its end, unless the answer has this header.
    "X-Accel-Buffering": "no",
}
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
HEARTBEAT_S = 15.0
"""Time without an event until a heartbeat is sent, which shows a reader that the stream is alive."""
RETRY_MS = 1000
"""Delay until a browser reconnects after a stream that had begun."""
_CONFLICT, _TOO_MANY, _SERVER_ERROR = 409, 429, 500
_WORDS_BYTES_MAX = 4096
_SPACE_FOR_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def passes(status: int) -> bool:
    """Returns true if the failure is temporary: the same request may succeed later without anybody changing
    anything."""
    return status in (_CONFLICT, _TOO_MANY) or status >= _SERVER_ERROR


def event_stream() -> web.StreamResponse:
    """Returns a stream that has not begun yet."""
    return web.StreamResponse(headers=HEADERS)


def retry(retry_ms: int = RETRY_MS) -> bytes:
    """Returns the field that tells a browser when to reconnect after the end of the stream."""
    return f"retry: {retry_ms}\n\n".encode()


def unavailable(answer: web.StreamResponse) -> bytes:
    """Returns the last event of a stream, in place of this answer. Its delay is random, so that browsers reconnect
    spread over time."""
    after = answer.headers.get("Retry-After", "")
    retry_s = (int(after) if after.isdecimal() else 1) * random.uniform(1, 2)
    said = _said(answer).translate(_SPACE_FOR_BREAKS)
    return f"retry: {round(retry_s * 1000)}\nevent: unavailable\ndata: ".encode() + said + b"\n\n"


def come_back(paths: Collection[str]) -> Middleware:
    """Returns a middleware that turns a temporary failure of a GET of these paths into a stream that ends at once.

    Place it before `json_errors`. A page of any origin may read the stream, because it only says that the service is
    not available, and a browser treats an answer it may not read as final.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if request.method != "GET" or request.path not in paths or response.prepared or not passes(response.status):
            return response
        headers = {**HEADERS, REQUEST_ID: response.headers.get(REQUEST_ID, "")}
        if (origin := request.headers.get("Origin")) is not None:
            headers |= {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        return web.Response(body=unavailable(response), headers=headers)

    return check


def _said(response: web.StreamResponse) -> bytes:
    """Returns the answer's own JSON; if it has none, its text as JSON."""
    body = response.body if isinstance(response, web.Response) else None
    said = body if isinstance(body, bytes) and len(body) <= _WORDS_BYTES_MAX else b""
    try:
        if isinstance(msgspec.json.decode(said), dict):
            return said
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return msgspec.json.encode({"error": said.decode(errors="replace") or f"status {response.status}"})
