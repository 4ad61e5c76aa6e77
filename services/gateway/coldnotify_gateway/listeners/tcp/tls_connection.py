"""A device's TCP connection under TLS: the same peer as without, with OpenSSL between it and the socket.

It is no asyncio TLS transport, for three reasons. A connection counts, in all limits, from the moment it is accepted,
so that handshakes that never end are bounded as everything else before a Hello. A Close can be flushed and the
connection half-closed behind it, so that the client learns why. And nothing is buffered twice.
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
"""A client's part of a handshake: its certificates, mostly, a few KiB."""
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
        """The handshake is done."""
        self._finishing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A device connected; the handshake is its to begin."""
        self._begin(transport)
        assert self._transport is not None
        self.write = self._encrypt
        self._events.on_connect(self, self._transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came, of the handshake or encrypted."""
        if self._finishing:
            return
        self._incoming.write(data)
        try:
            if not self._encrypted and not self._handshake(len(data)):
                return
            while not self._finishing:
                plain = self._session.read(_READ_BYTES)
                if not plain:
                    self._close()  # the client has said that nothing more comes
                    return
                self._events.on_bytes(self, plain)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            # The reason goes to the client as an alert. Whose fault it is, is seldom ours.
            _paced.log("TLS connection refused", reason=error.reason or str(error), address=self.address)
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, and what it held with it: not only when the garbage is collected."""
        super().connection_lost(exc)
        self.waits, self.write = False, _gone

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The client's verified certificate, as getpeercert() says it."""
        return self._session.getpeercert() or None if self._encrypted else None

    def finish(self) -> None:
        """As without TLS; before the end of the handshake nothing can be said, and the connection is cut off."""
        if self._finishing:
            return
        self._finishing = True
        if not self._encrypted:
            self.abort()
            return
        with suppress(ssl.SSLError):  # the client's own goodbye is not waited for
            self._session.unwrap()
        self._flush()
        super().finish()

    def _handshake(self, size_bytes: int) -> bool:
        """Goes on with it; whether it is done. Raises SSLError."""
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
            return  # a Close to somebody who cannot read it yet
        view = memoryview(data)
        while view:
            view = view[self._session.write(view) :]
        self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        # As gently as after a Close: a client that has sent its Hello already is to see the alert, not a reset.
        self._finishing = True
        self._flush()
        super().finish()


def _gone(_data: bytes) -> None:
    raise ConnectionResetError("the connection is gone")
