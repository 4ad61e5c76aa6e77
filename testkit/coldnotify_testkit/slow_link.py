"""For tests and measurements: a TCP proxy like a slow radio link: a token bucket, small buffers, bytes counted."""

import json
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import GatewayFrame, Notification

_BUFFER_BYTES = 4096
"""Of each socket of the link: what is in there has left the gateway, and is not the newest any more when it arrives."""
_CHUNK_BYTES = 512


def needed_bytes(names: Iterable[str], payload: object, version: int) -> int:
    """What the newest version of each of these objects takes on the link, as Notifications."""
    said = json.dumps(payload).encode()
    frames = (
        Notification(crc=object_crc(name), version=version, offset=100_000, behind=1, payload=said) for name in names
    )
    return sum(len(encode(GatewayFrame(notification=one))) for one in frames)


class SlowLink:
    """A proxy on a port of its own; each direction of a connection carries at most `bits_per_s`."""

    def __init__(self, host: str, port: int, *, bits_per_s: float) -> None:
        self._target = (host, port)
        self._bytes_per_s = bits_per_s / 8
        self._listener = socket.socket()
        # Accepted sockets inherit it. It must be set before the connection is there.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        self.down_bytes = 0
        """To clients."""
        self.up_bytes = 0
        """From clients."""
        self.frames: list[tuple[float, GatewayFrame]] = []
        """What came through to clients, and when (monotonic clock, seconds)."""
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def times_of(self, kind: str) -> list[float]:
        """When frames of this kind came through."""
        return [at_s for at_s, frame in list(self.frames) if frame.WhichOneof("frame") == kind]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            try:
                server.connect(self._target)
            except OSError:
                server.close()
                client.close()
                continue
            self._sockets += [client, server]
            for source, sink, down in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, down), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, down: bool) -> None:
        free_at_s = time.monotonic()
        buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        try:
            with suppress(OSError, FrameError):
                while data := source.recv(_CHUNK_BYTES):
                    now_s = time.monotonic()
                    free_at_s = max(free_at_s, now_s) + len(data) / self._bytes_per_s
                    time.sleep(free_at_s - now_s)
                    sink.sendall(data)
                    if down:
                        self.down_bytes += len(data)
                        at_s = time.monotonic()
                        self.frames += [(at_s, parse_gateway_frame(body)) for body in buffer.feed(data)]
                    else:
                        self.up_bytes += len(data)
        finally:
            for one in (source, sink):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            source.close()
