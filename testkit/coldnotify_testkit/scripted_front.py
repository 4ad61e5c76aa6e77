"""ScriptedFront: a real port in front of the HTTP service that answers as a test says, then passes requests on."""

import re
import socket
import threading
from collections import deque
from typing import NamedTuple, Self
from urllib.parse import urlsplit

_PART = 65_536
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_LIMIT_S = 120.0


class Cut(NamedTuple):
    """The first bytes of the service's answer."""

    bytes_passed: int
    """Below 0: all but so many."""
    stalls: bool = False
    """True: the connection stays open behind them, until the front ends. False: it closes."""


def canned(status: str, body: str, *headers: str) -> bytes:
    """Returns an answer, as bytes; `status` with its words: "503 Service Unavailable"."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*head, "", body]).encode()


class ScriptedFront:
    """Answers each request as the next of `acts` says: these bytes, or a part of the service's answer. Without one it
    passes the request on."""

    def __init__(self, url: str) -> None:
        """`url`: the service's."""
        self.acts: deque[bytes | Cut] = deque()
        self.requests: list[bytes] = []
        """Each whole request."""
        self.stalled = threading.Event()
        """Set once an answer stalls."""
        parts = urlsplit(url)
        self._service = parts.hostname or "", parts.port or 0
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(_LIMIT_S)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_LIMIT_S)
            try:
                request = _whole(connection)
                self.requests.append(request)
                act = self.acts.popleft() if self.acts else Cut(1 << 40)
                if isinstance(act, bytes):
                    connection.sendall(act)
                else:
                    self._pass_on(request, connection, act)
            except OSError:
                return  # its client is gone

    def _pass_on(self, request: bytes, connection: socket.socket, cut: Cut) -> None:
        with socket.create_connection(self._service, _LIMIT_S) as service:
            service.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b""
            while part := service.recv(_PART):
                answer += part
            connection.sendall(answer[: cut.bytes_passed])
        if cut.stalls:
            self.stalled.set()
            self._over.wait(_LIMIT_S)


def _whole(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        if end and len(body) >= (int(found[1]) if found else 0):
            return data
        part = connection.recv(_PART)
        if not part:
            raise ConnectionResetError("it ended before its request did")
        data += part
