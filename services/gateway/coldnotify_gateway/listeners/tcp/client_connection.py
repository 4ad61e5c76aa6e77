"""A device's TCP connection, as an asyncio protocol. It is thin, because the core handles all frames."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from coldnotify_gateway.core import Dialect, Frame, Urgent, WaitingFrames, joined, part_bytes
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.port import LINGER_S


class ClientConnection(asyncio.Protocol):
    """One device's connection: the core's peer.

    Its transport holds at most one part of the waiting bytes. The rest waits here, where urgent frames can overtake it.
    While no frames wait, a fan-out writes directly to the transport.
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
        """True after connection_lost()."""
        self.waits = False
        """True while the transport is full."""
        self._waiting: WaitingFrames | None = None
        """Frames for the transport. Made at the first use, because on most connections no frames ever wait."""
        self.write: Callable[[bytes], None]
        """Function that hands bytes to the transport."""
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._linger: asyncio.TimerHandle | None = None
        self.address = ""
        self.nobodys = False
        self.held = False
        self.blocked = False
        """True while more bytes than the high-water mark wait to be written."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handles a device's new connection."""
        self._begin(transport)
        assert self._transport is not None
        self.write = self._transport.write
        self._events.on_connect(self, self._transport)

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername")
        self.address = str(peername[0]) if peername else ""

    def data_received(self, data: bytes) -> None:
        """Handles received bytes."""
        self._events.on_bytes(self, data)

    def pause_writing(self) -> None:
        """Makes further frames wait, because the transport is full."""
        self.waits = True
        self._look_whether_full()

    def resume_writing(self) -> None:
        """Hands waiting frames over, because the transport has written all it had."""
        self.waits = False
        with suppress(OSError, RuntimeError):  # the connection is gone, and connection_lost follows
            self._hand_over()
        if self.blocked and self.buffered_bytes <= self._low_water_bytes:
            self.blocked = False
            self._events.on_drained(self)

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until the transport takes more."""
        self._queue().add(frame)
        self._look_whether_full()

    def send(self, frames: Sequence[Frame]) -> None:
        """Writes frames, or keeps them until the transport takes them. Urgent frames may overtake those that wait."""
        if not self.waits:
            data = joined(frames)
            if len(data) <= self._part_bytes:
                self.write(data)
                return
        self._queue().add(*frames)
        if not self.waits:
            self._hand_over()
        # Only now: bytes that the transport takes at once must not make the connection full, because no event would
        # report that it is drained.
        self._look_whether_full()

    def send_urgent(self, urgent: Urgent) -> None:
        """Writes it ahead of the waiting frames, or in its turn if no frames wait."""
        if self.waits:
            self._queue().add_urgent(urgent)
            self._look_whether_full()
        else:
            self.write(urgent.alone.data)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Moves the waiting frames of these channels ahead of all others, and `repeats` after them."""
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
        """Handles the end of the connection."""
        self._gone = True
        if self._linger is not None:
            self._linger.cancel()
        if self._waiting is not None:
            self._waiting.clear()
        self._events.on_disconnected(self)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Returns None, because the connection has no TLS."""
        return None

    @property
    def token(self) -> str:
        """Returns "", because the token is in the Hello on TCP."""
        return ""

    @property
    def dialect(self) -> Dialect | None:
        """Returns None, because the Hello decides on TCP."""
        return None

    @property
    def passed_on(self) -> bool:
        """Returns false, because TCP carries no sign of a proxy."""
        return False

    @property
    def buffered_bytes(self) -> int:
        """Returns the size of the waiting frames, in bytes."""
        if self._transport is None or self._gone:
            return 0  # uvloop's transport still counts bytes that will never be written
        waiting = self._waiting
        return self._transport.get_write_buffer_size() + (0 if waiting is None else waiting.size_bytes)

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Sets the marks above which the connection is blocked, and below which it is drained."""
        self._high_water_bytes, self._low_water_bytes = high_water_bytes, low_water_bytes
        self._part_bytes = part_bytes(high_water_bytes)
        if self._transport is not None and not self._transport.is_closing():
            # While it is not paused it holds no more than the low-water mark. So it reports when a full connection is
            # drained.
            self._transport.set_write_buffer_limits(min(self._part_bytes, low_water_bytes), 0)

    def pause_reading(self) -> None:
        """Stops reading, so that the client's bytes stay in the kernel."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continues reading."""
        if self._transport is not None:
            self._transport.resume_reading()

    def finish(self) -> None:
        """Closes the connection once all sent bytes are flushed, and cuts it off if that takes too long.

        The client's further bytes are read and discarded meanwhile, because closing a socket with unread bytes resets
        the connection, and the Close with the reason may then be lost.
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
