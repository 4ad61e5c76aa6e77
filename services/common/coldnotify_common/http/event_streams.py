"""Streams of server-sent events: what all of ours begin with, and how one ends after which a browser comes back.

A browser's EventSource comes back by itself after an answer with status 200 that ends. After any other status it never
does, and its page is told nothing. So what passes by itself is no status here, but a stream that ends at once: it says
why, and when to come back. Only what will never work is a status: a wrong query, nobody who may ask, nothing there.
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
    # nginx holds an answer back until it has 4 KiB of it or its end, and does not where an answer says this.
    "X-Accel-Buffering": "no",
}
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
HEARTBEAT_S = 15.0
"""After so long without an event comes a heartbeat: so whoever looks knows that somebody is there."""
RETRY_MS = 1000
"""After a stream that had begun, a browser comes back so late."""
_CONFLICT, _TOO_MANY, _SERVER_ERROR = 409, 429, 500
_WORDS_BYTES_MAX = 4096
_SPACE_FOR_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def passes(status: int) -> bool:
    """Whether the same request may be answered otherwise later, without anybody having changed anything."""
    return status in (_CONFLICT, _TOO_MANY) or status >= _SERVER_ERROR


def event_stream() -> web.StreamResponse:
    """A stream that has not begun yet."""
    return web.StreamResponse(headers=HEADERS)


def retry(retry_ms: int = RETRY_MS) -> bytes:
    """When a browser is to come back once the stream has ended."""
    return f"retry: {retry_ms}\n\n".encode()


def unavailable(answer: web.StreamResponse) -> bytes:
    """The last event of a stream, instead of this answer. Those who come back are spread over some time."""
    after = answer.headers.get("Retry-After", "")
    retry_s = (int(after) if after.isdecimal() else 1) * random.uniform(1, 2)
    said = _said(answer).translate(_SPACE_FOR_BREAKS)
    return f"retry: {round(retry_s * 1000)}\nevent: unavailable\ndata: ".encode() + said + b"\n\n"


def come_back(paths: Collection[str]) -> Middleware:
    """A middleware: an answer to a GET of these paths that is not 200, but passes, is a stream that ends at once.

    Goes in front of `json_errors`. A page of any origin may read it: nothing is in there but that the service is not
    available, and what a browser may not read it takes for final, too.
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
    """The answer's own JSON; where it has none, its words as JSON."""
    body = response.body if isinstance(response, web.Response) else None
    said = body if isinstance(body, bytes) and len(body) <= _WORDS_BYTES_MAX else b""
    try:
        if isinstance(msgspec.json.decode(said), dict):
            return said
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return msgspec.json.encode({"error": said.decode(errors="replace") or f"status {response.status}"})
