"""The core's peer without a transport of its own: bytes wait until a handler takes them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from aiohttp import web
from coldnotify_common.http.web_port import address_of
from coldnotify_common.security.authentication import bearer

from coldnotify_gateway.core import CRC, Dialect, Frame, Urgent, WaitingFrames, joined
from coldnotify_gateway.core.told import size_of
from coldnotify_gateway.device_connection import ConnectionEvents, Proof

_PART_BYTES = 16 * 1024
"""Most bytes that are taken at a time, because urgent frames cannot overtake taken ones."""


def proof_of(request: web.Request, transport: asyncio.BaseTransport) -> Proof:
    """Returns a request's proof of identity: its certificate, and the token in its header."""
    return Proof(
        address_of(request),
        transport.get_extra_info("peercert") or None,
        bearer(request.headers.get("Authorization")) or "",
        "Via" in request.headers,
    )


class QueuedConnection:
    """A connection that is blocked above `high_water_bytes` of waiting and taken bytes, and drained below
    `low_water_bytes`.

    Taken bytes count until the next ones are taken, because they have been written by then.
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
        "dialect",
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
        dialect: Dialect | None = None,
    ) -> None:
        """Creates a connection. `cut_off()` aborts its carrier at once; `on_finish()` is called when the core closes
        it. `dialect`: that of the device; None: its Hello decides."""
        self._events = events
        self.dialect = dialect
        self._high_water_bytes = high_water_bytes
        self._low_water_bytes = low_water_bytes
        self._cut_off = cut_off
        self._on_finish = on_finish
        self._waiting = WaitingFrames((dialect or CRC).encode)
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
        """The client's verified certificate in the form of ssl's getpeercert()."""
        self.token = ""
        """Token of the request's Authorization header."""
        self.passed_on = False
        """True if the request has a Via header, so that a proxy has forwarded it."""
        self.finished = False
        """True once the core has sent its last frame."""
        self.aborted = False

    def carried_by(self, request: web.Request, transport: asyncio.Transport) -> None:
        """Takes the address and the proof of identity from the request."""
        self.address, self.certificate, self.token, self.passed_on = proof_of(request, transport)

    def write(self, data: bytes) -> None:
        """Raises NotImplementedError. It is never called, because all frames wait."""
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
        """Keeps it ahead of the waiting frames, or in its turn if no frames wait."""
        if self.finished:
            return
        self._waiting.add_urgent(urgent)
        self._note_added()

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Moves the waiting frames of these channels ahead of all others, and `repeats` after them."""
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
        """Returns the number of bytes that wait to be written."""
        return self._waiting.size_bytes + self._taken_bytes

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Sets the marks above which the connection is blocked, and below which it is drained."""
        self._high_water_bytes, self._low_water_bytes = high_water_bytes, low_water_bytes

    def pause_reading(self) -> None:
        """Makes `wanted` wait, so that the carrier stops reading."""
        self._wanted.clear()

    def resume_reading(self) -> None:
        """Lets `wanted` return, so that the carrier continues reading."""
        self._wanted.set()

    async def wanted(self) -> None:
        """Returns when the client may be read again."""
        await self._wanted.wait()

    def finish(self) -> None:
        """Ends the output: `take` returns b"" once all frames are taken."""
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
        """Returns the bytes of the next frames as `take_frames` does; b"" at the end."""
        return joined(await self.take_frames())

    async def take_frames(self) -> list[Frame]:
        """Returns the next frames as soon as there are any; [] at the end. Those taken before count as written."""
        self._taken_bytes = 0
        while True:
            if self.blocked and self.buffered_bytes <= self._low_water_bytes:
                self.blocked = False
                self._events.on_drained(self)
            if self._waiting.size_bytes or self.finished:
                frames = self._waiting.take_frames(_PART_BYTES)
                self._taken_bytes = size_of(frames)
                return frames
            self._wake.clear()
            await self._wake.wait()
