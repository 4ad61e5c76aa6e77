"""A WebSocket of the service for tests, without I/O: binary messages carry a session's frames, in any pieces."""

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

_TAKEN_BYTES_MAX = 128 * 1024
_SENT_BYTES_MAX = 64 * 1024
_DATA = (Opcode.BINARY, Opcode.CONT)


class ServiceWebSocket:
    """One connection, from the request that opens it."""

    def __init__(self, request: bytes) -> None:
        """`request`: its head. What it lacks is in the answer, which take() returns."""
        self._protocol = ServerProtocol(max_size=_TAKEN_BYTES_MAX)
        self._protocol.receive_data(request)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._protocol.send_response(self._protocol.accept(event))

    @property
    def over(self) -> bool:
        """True if the client has ended it, or was refused."""
        return self._protocol.state is not State.OPEN

    def receive(self, data: bytes) -> bytes:
        """Returns the session's bytes in what the client sent."""
        self._protocol.receive_data(data)
        frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
        if any(frame.opcode is Opcode.TEXT for frame in frames):
            self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "text: frames are binary")
        return b"".join(bytes(frame.data) for frame in frames if frame.opcode in _DATA)

    def send(self, data: bytes) -> None:
        """Puts bytes of the session into messages."""
        for begin in range(0, 0 if self.over else len(data), _SENT_BYTES_MAX):
            self._protocol.send_binary(data[begin : begin + _SENT_BYTES_MAX])

    def close(self) -> None:
        """The session has ended."""
        if not self.over:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)

    def take(self) -> bytes:
        """Returns what is to be written."""
        return b"".join(self._protocol.data_to_send())
