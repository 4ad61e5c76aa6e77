"""A device's connection on TCP, as an asyncio protocol: thin, all that is said is the core's."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.port import LINGER_S


class ClientConnection(asyncio.Protocol):
    """One device's connection: the core's peer."""

    __slots__ = ("_events", "_linger", "_transport", "address", "blocked", "held", "nobodys", "send")

    def __init__(self, events: ConnectionEvents) -> None:
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._linger: asyncio.TimerHandle | None = None
        self.address = ""
        self.nobodys = False
        self.held = False
        self.blocked = False
        """More than the high-water mark waits to be written."""
        self.send: Callable[[bytes], None]
        """The transport's own write: a fan-out calls it a thousand times."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A device connected."""
        self._begin(transport)
        assert self._transport is not None
        self.send = self._transport.write
        self._events.on_connect(self, self._transport)

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername")
        self.address = str(peername[0]) if peername else ""

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._events.on_bytes(self, data)

    def pause_writing(self) -> None:
        """The connection is full."""
        self.blocked = True
        self._events.on_blocked(self)

    def resume_writing(self) -> None:
        """It is drained."""
        self.blocked = False
        self._events.on_drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self._linger is not None:
            self._linger.cancel()
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
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Blocked above the one, drained below the other, from here on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.set_write_buffer_limits(high_water_bytes, low_water_bytes)

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
            transport.write_eof()
        except (OSError, RuntimeError):
            transport.abort()

    def abort(self) -> None:
        """Cuts the connection off."""
        if self._transport is not None:
            self._transport.abort()
