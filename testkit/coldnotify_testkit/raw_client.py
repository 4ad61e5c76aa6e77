"""A device on a raw socket: it sends and receives frames, and behaves only as well as a test makes it."""

import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Ping

from coldnotify_testkit.waiting import WAIT_S


class RawClient:
    """A socket that sends and receives frames."""

    def __init__(
        self,
        port: int,
        receive_buffer_bytes: int = 0,
        *,
        address: str = "127.0.0.1",
        wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain,
    ) -> None:
        """`address`: the local address. `wrap`: does what precedes the first frame, such as a TLS handshake."""
        self._socket = socket.socket()
        if receive_buffer_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(WAIT_S)
        self._socket.bind((address, 0))
        self._socket.connect(("127.0.0.1", port))
        self._socket = wrap(self._socket)
        self._buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._frames: list[GatewayFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        """Sends the bytes as they are."""
        self._socket.sendall(b"".join(frames))

    def say(self, **frame: Any) -> None:
        """Sends one frame, given as a field of ClientFrame."""
        self.send(encode(ClientFrame(**frame)))

    def kinds_before_pong(self) -> list[str]:
        """Returns the kinds of the frames on their way: those that arrive before the answer to a Ping."""
        self.say(ping=Ping())
        kinds = []
        while (frame := self.frame()) is not None and (kind := frame.WhichOneof("frame")) != "pong":
            kinds.append(str(kind))
        return kinds

    def frame(self) -> GatewayFrame | None:
        """The next frame; None at the connection's end."""
        while not self._frames:
            if not self.receive():
                return None
        return self._frames.pop(0)

    def receive(self, size_bytes: int = 65536) -> bool:
        """Takes so many bytes at most from the network; False at the connection's end."""
        try:
            data = self._socket.recv(size_bytes)
        except ConnectionResetError:
            return False
        self._frames += [parse_gateway_frame(body) for body in self._buffer.feed(data)]
        return bool(data)

    def until(self, kind: str) -> GatewayFrame:
        """The next frame of this kind; those before it are skipped. Raises AssertionError if the connection ends."""
        skipped = []
        while (frame := self.frame()) is not None:
            if frame.WhichOneof("frame") == kind:
                return frame
            skipped.append(frame.WhichOneof("frame"))
        raise AssertionError(f"the connection ended without {kind}; there came {skipped}")

    def rest(self) -> list[GatewayFrame]:
        """All frames up to the connection's end."""
        frames = []
        while (frame := self.frame()) is not None:
            frames.append(frame)
        return frames
