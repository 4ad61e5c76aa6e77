"""A device's connection from a balancer. It begins with a PROXY protocol header, which contains the client's address.

The header precedes all other bytes, TLS included. Until it has arrived, the connection counts as the balancer's, with
the time that any connection has for its Hello.
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
    """Handles `connection` until its header has arrived. Reads a header only from `proxies`."""

    def __init__(self, connection: ClientConnection, events: ConnectionEvents, proxies: Container[str]) -> None:
        self._connection = connection
        self._events = events
        self._proxies = proxies
        self._header = ProxyHeader()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handles a new connection, perhaps from a balancer."""
        self._transport = transport
        peername = transport.get_extra_info("peername")
        self._connection.nobodys = bool(peername) and str(peername[0]) in self._proxies
        self._connection.connection_made(transport)
        if not self._connection.nobodys:
            transport.set_protocol(self._connection)
            return
        # The header has mostly arrived already. Reading it at once soon assigns a burst of connections to clients.
        accepted = transport.get_extra_info("socket")
        with suppress(OSError):  # no bytes have arrived, or the connection is gone, which is reported in the usual way
            while accepted is not None and (wanted_bytes := self._header.wanted_bytes):
                data = os.read(accepted.fileno(), wanted_bytes)
                if not data:
                    return
                self.data_received(data)
                if transport.is_closing():
                    return

    def data_received(self, data: bytes) -> None:
        """Handles bytes of the header, and perhaps later ones."""
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
        """Forwards that the connection is full, perhaps because of a Close."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Forwards that the connection is drained."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forwards the end of a connection whose header had not arrived."""
        self._connection.connection_lost(exc)
