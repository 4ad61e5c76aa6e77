"""A device's connection that comes from a balancer: it begins with a PROXY protocol header, which says whose it is.

The header comes before all else, TLS included. Until it is in, the connection is the balancer's, with the time that any
connection has for its Hello.
"""

import asyncio
import os
from collections.abc import Container
from contextlib import suppress

import structlog
from coldnotify_common.paced import Paced
from coldnotify_common.security.proxy_protocol import ProxyError, ProxyHeader

from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection

_paced = Paced(structlog.get_logger())


class Balanced(asyncio.Protocol):
    """Stands before `connection` until its header is in; from others than `proxies` none is read."""

    def __init__(self, connection: ClientConnection, events: ConnectionEvents, proxies: Container[str]) -> None:
        self._connection = connection
        self._events = events
        self._proxies = proxies
        self._header = ProxyHeader()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected, a balancer perhaps."""
        self._transport = transport
        peername = transport.get_extra_info("peername")
        self._connection.nobodys = bool(peername) and str(peername[0]) in self._proxies
        self._connection.connection_made(transport)
        if not self._connection.nobodys:
            transport.set_protocol(self._connection)
            return
        # It is there already, mostly. So a burst of connections is soon known to be somebody's.
        accepted = transport.get_extra_info("socket")
        with suppress(OSError):  # nothing is there, or the connection is gone, which is said in the usual way
            while accepted is not None and (wanted_bytes := self._header.wanted_bytes):
                data = os.read(accepted.fileno(), wanted_bytes)
                if not data:
                    return
                self.data_received(data)
                if transport.is_closing():
                    return

    def data_received(self, data: bytes) -> None:
        """Bytes came, of the header and perhaps of what is behind it."""
        connection = self._connection
        try:
            rest = self._header.feed(data)
        except ProxyError as error:
            self._events.on_malformed_proxy_header()
            _paced.log("PROXY header malformed", level="warning", proxy=connection.address, reason=str(error))
            connection.abort()
            return
        if not self._header.whole:
            return
        assert self._transport is not None
        self._transport.set_protocol(connection)
        connection.nobodys = False
        connection.address = self._header.source or connection.address
        self._events.on_address(connection)
        if rest:
            connection.data_received(rest)

    def pause_writing(self) -> None:
        """A Close may be what it is full of."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """It is drained."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, before its header was in."""
        self._connection.connection_lost(exc)
