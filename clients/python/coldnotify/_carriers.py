"""Carriers wrap a session's bytes for the connection: not at all, or in WebSocket messages. No I/O here.

A link asks its carrier what to write when the connection is established (`begin`), passes it what arrives (`receive`,
which returns the session's bytes), and has it wrap what the session sends (`send`). WebSocket needs the extra
`coldnotify[web]`: `websockets`, without I/O of its own.
"""

from importlib.util import find_spec
from typing import Protocol

from coldnotify._core.session.reconnect import Address

MESSAGE_BYTES_MAX = 1024 * 1024
"""Limit on one WebSocket message: a gateway sends at most a page and what waits beside it."""
ENDED_BY_GATEWAY, CONNECTION_LOST = "the gateway closed the connection", "connection lost"
"""The words for a connection that has ended by itself, or their beginning."""
_NEEDS = {"ws": "websockets", "wss": "websockets"}


class CarrierError(Exception):
    """The other side does not speak this protocol, or refuses: the connection is of no use."""


class Carrier(Protocol):
    """The interface of a carrier that a link uses."""

    @property
    def ready(self) -> bool:
        """The session may begin."""

    @property
    def over(self) -> str:
        """Why the connection is of no more use; "": it is."""

    def begin(self) -> bytes:
        """Returns what to write when the connection is established."""

    def receive(self, data: bytes) -> bytes:
        """Returns the session's bytes in what the gateway sent. Raises CarrierError."""

    def answer(self) -> bytes:
        """Returns what the carrier itself has to write after `receive`."""

    def send(self, data: bytes) -> bytes:
        """Returns what to write to send these bytes of the session."""

    def end(self) -> bytes:
        """Returns what to write at the end."""


def missing_library(scheme: str) -> str | None:
    """Returns the package that addresses of this scheme need, if it is not installed."""
    needed = _NEEDS.get(scheme)
    return needed if needed is not None and find_spec(needed) is None else None


def carrier_of(address: Address) -> Carrier:
    """A new carrier for one connection to this address."""
    return _WebSocket(address) if address.is_web else _AsItIs()


class _AsItIs:
    """TCP: the connection's bytes are the session's."""

    ready = True
    over = ""

    def begin(self) -> bytes:
        return b""

    def receive(self, data: bytes) -> bytes:
        return data

    def answer(self) -> bytes:
        return b""

    def send(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        return b""


class _WebSocket:
    """Each piece that is sent is a binary message."""

    def __init__(self, address: Address) -> None:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self._protocol = ClientProtocol(parse_uri(str(address)), max_size=MESSAGE_BYTES_MAX)
        self.ready = False
        self.over = ""

    def begin(self) -> bytes:
        self._protocol.send_request(self._protocol.connect())
        return self.answer()

    def receive(self, data: bytes) -> bytes:
        from websockets.frames import Frame, Opcode

        self._protocol.receive_data(data)
        said = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                problem = self._protocol.handshake_exc
                if problem is not None:
                    raise CarrierError(f"WebSocket: {problem}")
                self.ready = True
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                said.append(bytes(event.data))
            elif event.opcode is Opcode.CLOSE:
                self.over = ENDED_BY_GATEWAY
        if self._protocol.handshake_exc is not None:
            raise CarrierError(f"WebSocket: {self._protocol.handshake_exc}")
        if self._protocol.parser_exc is not None:
            raise CarrierError(f"WebSocket: {self._protocol.parser_exc}")
        return b"".join(said)

    def answer(self) -> bytes:
        return b"".join(self._protocol.data_to_send())

    def send(self, data: bytes) -> bytes:
        if self.over:
            return b""
        self._protocol.send_binary(data)
        return self.answer()

    def end(self) -> bytes:
        if not self.ready or self.over:
            return b""
        self._protocol.send_close(1000)
        return self.answer()
