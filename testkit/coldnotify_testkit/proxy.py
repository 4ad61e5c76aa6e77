"""A proxy that counts the bytes of each direction: what a connection costs on the wire, without the headers of TCP."""

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

_BYTES = 65536
_LOOK_S = 0.2
_CONNECT_S = 10.0


class CountingProxy:
    """Listens on a free port of 127.0.0.1, and passes everything on, one server connection for each client's."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.port = self.address[1]
        self.up_bytes = 0
        """From clients to the server."""
        self.down_bytes = 0
        """From the server to clients."""
        self._selector = selectors.DefaultSelector()
        self._others: dict[socket.socket, tuple[socket.socket, bool]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def idle(self) -> bool:
        """Whether no connection is open."""
        return not self._others

    def reset(self) -> None:
        """Count from 0."""
        self.up_bytes = self.down_bytes = 0

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(10)
        for one in [self._listener, *self._others]:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(_LOOK_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._others:
                    self._pass_on(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, _CONNECT_S)
        except OSError:
            client.close()
            return
        for one, other, is_client in ((client, server, True), (server, client, False)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._others[one] = other, is_client
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        other, from_client = self._others[one]
        try:
            data = one.recv(_BYTES)
            # Counted before it is passed on: whoever sees its effect finds it counted.
            if from_client:
                self.up_bytes += len(data)
            else:
                self.down_bytes += len(data)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for end in (one, other):
            self._selector.unregister(end)
            del self._others[end]
            end.close()
