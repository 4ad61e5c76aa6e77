"""A device's connection on TCP, as an asyncio protocol: thin, all that is said is the core's."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from coldnotify_gateway.core import Frame, Urgent, WaitingFrames, joined, part_bytes
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.port import LINGER_S


class ClientConnection(asyncio.Protocol):
    """One device's connection: the core's peer.

    Its transport holds one part of what waits at most, and the rest waits here, where something urgent can come before
    it. While nothing waits, a fan-out writes to the transport itself.
    """

    __slots__ = (
        "_events",
        "_gone",
        "_high_water_bytes",
        "_linger",
        "_low_water_bytes",
        "_part_bytes",
        "_transport",
        "_waiting",
        "address",
        "blocked",
        "held",
        "nobodys",
        "waits",
        "write",
    )

    def __init__(self, events: ConnectionEvents) -> None:
        self._high_water_bytes = self._low_water_bytes = self._part_bytes = 0
        self._gone = False
        """connection_lost() was called."""
        self.waits = False
        """The transport has as much as it is to hold."""
        self._waiting: WaitingFrames | None = None
        """What it is still to be handed. Made at the first use: of most connections nothing ever waits."""
        self.write: Callable[[bytes], None]
        """Hands bytes to the transport."""
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._linger: asyncio.TimerHandle | None = None
        self.address = ""
        self.nobodys = False
        self.held = False
        self.blocked = False
        """More than the high-water mark waits to be written."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A device connected."""
        self._begin(transport)
        assert self._transport is not None
        self.write = self._transport.write
        self._events.on_connect(self, self._transport)

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername")
        self.address = str(peername[0]) if peername else ""

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._events.on_bytes(self, data)

    def pause_writing(self) -> None:
        """The transport has enough: what comes waits."""
        self.waits = True
        self._look_whether_full()

    def resume_writing(self) -> None:
        """It has written what it had."""
        self.waits = False
        with suppress(OSError, RuntimeError):  # it is gone, and connection_lost on its way
            self._hand_over()
        if self.blocked and self.buffered_bytes <= self._low_water_bytes:
            self.blocked = False
            self._events.on_drained(self)

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until the transport takes more."""
        self._queue().add(frame)
        self._look_whether_full()

    def send(self, frames: Sequence[Frame]) -> None:
        """Writes frames, or keeps them until they can be; between them something urgent may come while they wait."""
        if not self.waits:
            data = joined(frames)
            if len(data) <= self._part_bytes:
                self.write(data)
                return
        self._queue().add(*frames)
        if not self.waits:
            self._hand_over()
        # Not before: what the transport takes at once makes nothing full, and nothing would say that it is drained.
        self._look_whether_full()

    def send_urgent(self, urgent: Urgent) -> None:
        """Writes it in front of what waits, or in its turn where nothing does."""
        if self.waits:
            self._queue().add_urgent(urgent)
            self._look_whether_full()
        else:
            self.write(urgent.alone.data)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Writes what waits of these channels in front of what waits of others, and behind it these frames."""
        if self.waits:
            self._queue().overtake(channels, repeats)
            self._look_whether_full()
        elif repeats:
            self.write(joined(repeats))

    def _queue(self) -> WaitingFrames:
        if self._waiting is None:
            self._waiting = WaitingFrames()
        return self._waiting

    def _hand_over(self) -> None:
        waiting = self._waiting
        while waiting is not None and waiting.size_bytes and not self.waits:
            self.write(waiting.take(self._part_bytes))

    def _look_whether_full(self) -> None:
        if not self.blocked and self.buffered_bytes > self._high_water_bytes:
            self.blocked = True
            self._events.on_blocked(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._gone = True
        if self._linger is not None:
            self._linger.cancel()
        if self._waiting is not None:
            self._waiting.clear()
        self._events.on_disconnected(self)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Without TLS there is none."""
        return None

    @property
    def token(self) -> str:
        """On TCP it comes in the Hello."""
        return ""

    @property
    def passed_on(self) -> bool:
        """On TCP nobody says so."""
        return False

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written."""
        if self._transport is None or self._gone:
            return 0  # uvloop's transport goes on counting what nobody will take
        waiting = self._waiting
        return self._transport.get_write_buffer_size() + (0 if waiting is None else waiting.size_bytes)

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Blocked above the one, drained below the other, from here on."""
        self._high_water_bytes, self._low_water_bytes = high_water_bytes, low_water_bytes
        self._part_bytes = part_bytes(high_water_bytes)
        if self._transport is not None and not self._transport.is_closing():
            # While it is not paused it holds no more than the low-water mark: so a connection that is full hears of it
            # when it is drained.
            self._transport.set_write_buffer_limits(min(self._part_bytes, low_water_bytes), 0)

    def pause_reading(self) -> None:
        """Leaves what the client says with the kernel."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads on."""
        if self._transport is not None:
            self._transport.resume_reading()

    def finish(self) -> None:
        """Closes the connection once what was sent is flushed; cuts it off if that takes too long.

        What the client still sends is read and thrown away meanwhile: closing a socket with unread bytes resets the
        connection, and the Close that tells the client why may be lost with it.
        """
        transport = self._transport
        if transport is None or self._linger is not None:
            return
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
        try:
            if self._waiting is not None:
                self.write(self._waiting.take(self._waiting.size_bytes))
            transport.write_eof()
        except (OSError, RuntimeError):
            transport.abort()

    def abort(self) -> None:
        """Cuts the connection off."""
        if self._transport is not None:
            self._transport.abort()
