"""Reads request bodies of strangers: each one is bounded in bytes and time, and all together in bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware

from coldnotify_common.http.web import Handler, HttpNotNow
from coldnotify_common.http.web_port import WEB_PORT
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.security.shared import Full, Shared, Who

SMALL_BYTES = 32 * 1024
"""The maximum size of a Hello. This much of each body is not counted: the number of connections bounds it, and callers
that send long bodies slowly must not keep others from sending short ones."""
TOGETHER_BYTES_MAX = 64 * 1024 * 1024
"""Maximum of all counted bytes together: sixteen of the longest bodies, hundreds of usual sets."""
_OF_ONE_PERCENT = 50
"""Maximum share of these bytes per caller."""
_MARGIN_S = 1.0
"""Time for the timeout's answer to be sent before the connection is closed."""
_WITH_A_BODY = ("POST", "PUT", "PATCH")


class BodyReader:
    """Reads bodies within the bounds."""

    def __init__(
        self, *, bytes_max: int, small_s: float, s: float, together_bytes_max: int = TOGETHER_BYTES_MAX
    ) -> None:
        """`small_s`: time for a body whose Content-Length says that it is small; `s`: for others."""
        self._bytes_max = bytes_max
        self._small_s = small_s
        self._s = s
        # A caller that sends one body must be able to send the longest.
        of_one = max(together_bytes_max * _OF_ONE_PERCENT // 100, min(bytes_max, together_bytes_max))
        self._together = Shared(together_bytes_max, of_one)
        self._long = asyncio.Lock()

    @property
    def under_way_bytes(self) -> int:
        """The counted bytes held at the moment, without the first bytes of each body."""
        return self._together.taken

    @asynccontextmanager
    async def read(
        self, request: web.Request, bytes_max: int | None = None, *, outcome: str = ""
    ) -> AsyncIterator[bytes]:
        """Yields the whole body, which counts until the end of the block. Raises the answers 408, 413, 503.

        `bytes_max`: a smaller limit for this request. `outcome`: added to the answer if too many bytes are under way.
        """
        most = self._bytes_max if bytes_max is None else min(bytes_max, self._bytes_max)
        length = request.content_length
        if length is not None and length > most:
            raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=length)
        within_s = self._small_s if length is not None and length <= SMALL_BYTES else self._s
        port = request.app.get(WEB_PORT)
        if port is not None and request.can_read_body:
            port.waits_for_body(request, within_s + _MARGIN_S)
        who = who_asks(request)
        pieces: list[bytes] = []
        size = counted = 0
        try:
            try:
                async with asyncio.timeout(within_s):
                    async for data in request.content.iter_any():
                        size += len(data)
                        if size > most:
                            raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=size)
                        more = max(0, size - SMALL_BYTES) - counted
                        full = self._together.take(who, more)
                        if full is not None:
                            raise self._refused(full, who, outcome)
                        counted += more
                        pieces.append(data)
                        if counted:
                            # Reads one piece of all long bodies at a time; other tasks run between two pieces.
                            async with self._long:
                                await asyncio.sleep(0)
            except TimeoutError:
                words = f"the body did not arrive within {within_s:g} s; nothing was done"
                raise web.HTTPRequestTimeout(text=words) from None
            if port is not None:
                port.has_body(request)
            body = b"".join(pieces)
            pieces.clear()
            yield body
        finally:
            self._together.give_back(who, counted)

    def _refused(self, full: Full, who: Who, outcome: str) -> HttpNotNow:
        words = f"{self._together.taken} bytes of bodies are under way, no more are taken"
        if full is Full.OF_ONE:
            words = f"{self._together.of(who)} bytes of your bodies are under way, no more are taken"
        return HttpNotNow(words, {"outcome": outcome} if outcome else None)


def bodies_read_by(reader: BodyReader) -> Middleware:
    """Returns a middleware that reads the body before a handler calls `read()`. Place it after the authorization."""

    @web.middleware
    async def read(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _WITH_A_BODY or request.match_info.http_exception is not None:
            return await handler(request)
        async with reader.read(request) as body:
            request._read_bytes = body  # aiohttp keeps a body it has read in this attribute
            return await handler(request)

    return read
