"""The core's peer for what is not written by a transport of its own: bytes wait until somebody takes them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from aiohttp import web
from coldnotify_common.http.web_port import address_of
from coldnotify_common.security.authentication import bearer

from coldnotify_gateway.core import Frame, Urgent, WaitingFrames
from coldnotify_gateway.device_connection import ConnectionEvents, Proof

_PART_BYTES = 16 * 1024
"""What is taken at a time: something urgent does not overtake what was."""


def proof_of(request: web.Request, transport: asyncio.BaseTransport) -> Proof:
    """What a request says of who asks: its certificate, the token in its header."""
    return Proof(
        address_of(request),
        transport.get_extra_info("peercert") or None,
        bearer(request.headers.get("Authorization")) or "",
        "Via" in request.headers,
    )


class QueuedConnection:
    """Blocked above `high_water_bytes`, drained below `low_water_bytes`: what waits, and what was taken last.

    What was taken counts until more is asked for: then it has been written.
    """

    __slots__ = (
        "_cut_off",
        "_events",
        "_high_water_bytes",
        "_low_water_bytes",
        "_on_finish",
        "_taken_bytes",
        "_waiting",
        "_wake",
        "_wanted",
        "aborted",
        "address",
        "blocked",
        "certificate",
        "finished",
        "held",
        "nobodys",
        "passed_on",
        "token",
        "waits",
    )

    def __init__(
        self,
        events: ConnectionEvents,
        high_water_bytes: int,
        low_water_bytes: int,
        *,
        cut_off: Callable[[], None],
        on_finish: Callable[[], None] = lambda: None,
    ) -> None:
        """`cut_off()` ends what carries this connection, at once; `on_finish()` hears that the core has closed it."""
        self._events = events
        self._high_water_bytes = high_water_bytes
        self._low_water_bytes = low_water_bytes
        self._cut_off = cut_off
        self._on_finish = on_finish
        self._waiting = WaitingFrames()
        self._taken_bytes = 0
        self._wake = asyncio.Event()
        self._wanted = asyncio.Event()
        self._wanted.set()
        self.waits = True
        self.address = ""
        self.nobodys = False
        self.held = True
        self.blocked = False
        self.certificate: Mapping[str, Any] | None = None
        """The client's verified certificate, as ssl's getpeercert() says it."""
        self.token = ""
        """That of the request's Authorization header."""
        self.passed_on = False
        """The request's Via header says so."""
        self.finished = False
        """The core has said all it has to say."""
        self.aborted = False

    def carried_by(self, request: web.Request, transport: asyncio.Transport) -> None:
        """Takes from the request what says who this is."""
        self.address, self.certificate, self.token, self.passed_on = proof_of(request, transport)

    def write(self, data: bytes) -> None:
        """Never called: everything waits."""
        raise NotImplementedError

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until it is taken."""
        self.send((frame,))

    def send(self, frames: Sequence[Frame]) -> None:
        """Keeps frames until they are taken."""
        if self.finished:
            return
        self._waiting.add(*frames)
        self._note_added()

    def send_urgent(self, urgent: Urgent) -> None:
        """Keeps it in front of what waits, or in its turn where nothing does."""
        if self.finished:
            return
        self._waiting.add_urgent(urgent)
        self._note_added()

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Keeps what waits of these channels in front of what waits of others, and behind it these frames."""
        if self.finished:
            return
        self._waiting.overtake(channels, repeats)
        self._note_added()

    def _note_added(self) -> None:
        self._wake.set()
        if not self.blocked and self.buffered_bytes > self._high_water_bytes:
            self.blocked = True
            self._events.on_blocked(self)

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written."""
        return self._waiting.size_bytes + self._taken_bytes

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Blocked above the one, drained below the other, from here on."""
        self._high_water_bytes, self._low_water_bytes = high_water_bytes, low_water_bytes

    def pause_reading(self) -> None:
        """Who carries it waits in `wanted` before it reads on."""
        self._wanted.clear()

    def resume_reading(self) -> None:
        """It reads on."""
        self._wanted.set()

    async def wanted(self) -> None:
        """Returns when more of what the client says is wanted."""
        await self._wanted.wait()

    def finish(self) -> None:
        """Nothing more comes: `take` says so once all is taken."""
        self.finished = True
        self._wake.set()
        self._on_finish()

    def abort(self) -> None:
        """Cuts the connection off."""
        self.finished = self.aborted = True
        self._waiting.clear()
        self._wake.set()
        self._cut_off()

    async def take(self) -> bytes:
        """What comes next, as soon as there is something; b"" at the end. What was taken before has been written."""
        self._taken_bytes = 0
        while True:
            if self.blocked and self.buffered_bytes <= self._low_water_bytes:
                self.blocked = False
                self._events.on_drained(self)
            if self._waiting.size_bytes or self.finished:
                data = self._waiting.take(_PART_BYTES)
                self._taken_bytes = len(data)
                return data
            self._wake.clear()
            await self._wake.wait()
