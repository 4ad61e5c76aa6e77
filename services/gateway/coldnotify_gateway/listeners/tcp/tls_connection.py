"""A device's TCP connection under TLS: the same peer as without TLS, with OpenSSL between it and the socket.

It does not use asyncio's TLS transport, for three reasons. A connection counts, in all limits, from the moment it is
accepted, so the limits before a Hello also apply to handshakes that never end. A Close can be flushed and the
connection half-closed after it, so that the client receives the reason. And no bytes are buffered twice.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog
from coldnotify_common.paced import Paced

from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection

_paced = Paced(structlog.get_logger())

_HANDSHAKE_BYTES_MAX = 64 * 1024
"""Most bytes of a client's part of a handshake. They are mostly its certificates, a few KiB."""
_READ_BYTES = 64 * 1024


class TlsConnection(ClientConnection):
    """One device's connection under TLS."""

    __slots__ = ("_encrypted", "_finishing", "_handshake_bytes", "_incoming", "_outgoing", "_session")

    def __init__(self, events: ConnectionEvents, context: ssl.SSLContext) -> None:
        super().__init__(events)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._handshake_bytes = 0
        self._encrypted = False
        """True after the handshake."""
        self._finishing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handles a device's new connection. The device begins the handshake."""
        self._begin(transport)
        assert self._transport is not None
        self.write = self._encrypt
        self._events.on_connect(self, self._transport)

    def data_received(self, data: bytes) -> None:
        """Handles bytes of the handshake, or encrypted ones."""
        if self._finishing:
            return
        self._incoming.write(data)
        try:
            if not self._encrypted and not self._handshake(len(data)):
                return
            while not self._finishing:
                plain = self._session.read(_READ_BYTES)
                if not plain:
                    self._close()  # the client has ended its side
                    return
                self._events.on_bytes(self, plain)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            # The client gets the reason as an alert. The fault is seldom the gateway's.
            _paced.log("TLS connection refused", reason=error.reason or str(error), address=self.address)
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handles the end of the connection. Releases its memory at once, not only at the next garbage collection."""
        super().connection_lost(exc)
        self.waits, self.write = False, _gone

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Returns the client's verified certificate in the form of getpeercert()."""
        return self._session.getpeercert() or None if self._encrypted else None

    def finish(self) -> None:
        """Closes the connection as without TLS. Before the end of the handshake it cuts it off, because no frame can be
        sent."""
        if self._finishing:
            return
        self._finishing = True
        if not self._encrypted:
            self.abort()
            return
        with suppress(ssl.SSLError):  # does not wait for the client's close_notify
            self._session.unwrap()
        self._flush()
        super().finish()

    def _handshake(self, size_bytes: int) -> bool:
        """Continues the handshake. Returns true if it is finished. Raises SSLError."""
        self._handshake_bytes += size_bytes
        if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
            _paced.log("TLS connection refused", reason="a handshake of too many bytes", address=self.address)
            self.abort()
            return False
        self._session.do_handshake()
        self._encrypted = True
        self._flush()
        return True

    def _encrypt(self, data: bytes) -> None:
        if not self._encrypted:
            return  # a Close that the client cannot decrypt yet
        view = memoryview(data)
        while view:
            view = view[self._session.write(view) :]
        self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        # As gently as after a Close, so that a client that has sent its Hello already sees the alert, not a reset.
        self._finishing = True
        self._flush()
        super().finish()


def _gone(_data: bytes) -> None:
    raise ConnectionResetError("the connection is gone")
