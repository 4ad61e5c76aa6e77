"""Bodies of requests that strangers send: bounded one by one in bytes and time, and all together in bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from coldnotify_common.web_port import WEB_PORT

SMALL_BYTES = 32 * 1024
"""As long as a Hello may be. So much of each body is not counted: the number of connections bounds it, and whoever
holds up long bodies must not keep others from their short ones."""
TOGETHER_BYTES_MAX = 64 * 1024 * 1024
"""Of all that is beyond that: sixteen of the longest bodies, hundreds of usual sets."""
_MARGIN_S = 1.0
"""The answer that says what was too slow comes before the connection is cut off."""


class BodyReader:
    """Reads them."""

    def __init__(
        self, *, bytes_max: int, small_s: float, s: float, together_bytes_max: int = TOGETHER_BYTES_MAX
    ) -> None:
        """`small_s`: for a body that says beforehand that it is small; `s`: for others."""
        self._bytes_max = bytes_max
        self._small_s = small_s
        self._s = s
        self._together_max = together_bytes_max
        self.under_way_bytes = 0
        """What is held at the moment, without the first bytes of each."""

    @asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body, which counts to the end of the block. Raises what is answered with 408, 413, 503."""
        length = request.content_length
        if length is not None and length > self._bytes_max:
            raise web.HTTPRequestEntityTooLarge(max_size=self._bytes_max, actual_size=length)
        within_s = self._small_s if length is not None and length <= SMALL_BYTES else self._s
        port = request.app.get(WEB_PORT)
        if port is not None and request.can_read_body:
            port.waits_for_body(request, within_s + _MARGIN_S)
        pieces: list[bytes] = []
        size = counted = 0
        try:
            try:
                async with asyncio.timeout(within_s):
                    async for data in request.content.iter_any():
                        size += len(data)
                        if size > self._bytes_max:
                            raise web.HTTPRequestEntityTooLarge(max_size=self._bytes_max, actual_size=size)
                        more = max(0, size - SMALL_BYTES) - counted
                        if self.under_way_bytes + more > self._together_max:
                            raise web.HTTPServiceUnavailable(
                                text=f"{self.under_way_bytes} bytes of bodies are under way, no more are taken",
                                headers={"Retry-After": "1"},
                            )
                        counted += more
                        self.under_way_bytes += more
                        pieces.append(data)
            except TimeoutError:
                raise web.HTTPRequestTimeout(text=f"the body did not arrive within {within_s:g} s") from None
            if port is not None:
                port.has_body(request)
            body = b"".join(pieces)
            pieces.clear()
            yield body
        finally:
            self.under_way_bytes -= counted
