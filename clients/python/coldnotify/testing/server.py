"""`Service` behind a TCP port of this machine."""

import select
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._forked import Owner, in_children
from coldnotify.testing.service import Service
from coldnotify.testing.service_session import Session
from coldnotify.testing.service_taking import NotTaken, Taking

if TYPE_CHECKING:
    from coldnotify.testing.service_http_port import HttpPort
    from coldnotify.testing.service_websocket import ServiceWebSocket


class FakeService:
    """A `Service` behind a TCP port of 127.0.0.1, on a separate thread. Its methods make it misbehave.

    `http` is an HTTP port with the routes of docs/http-api.md that back-ends use, and WebSocket for pages.
    """

    def __init__(
        self, service: Service | None = None, *, port: int = 0, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        """Listens from here on; `port` 0: any free one. Raises OSError if the port is taken."""
        self.service = service or Service()
        self._lock = threading.RLock()
        self._heard = threading.Condition(self._lock)
        """Notified when clients have said something."""
        self._owner = Owner("FakeService", "start another one in this process")
        self.accepted = 0
        """Connections so far."""
        self._ssl_context = ssl_context
        self._connections: dict[int, _Connection] = {}
        self._silent = False
        self._stopping = False
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._http: HttpPort | None = None
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="coldnotify-fake-service", daemon=True)
        in_children(self)
        self._thread.start()

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Take it to touch `service` or its sessions, and call `wake` after. Raises UsedAfterFork."""
        self._owner.check()
        return self._lock

    @property
    def http(self) -> str:
        """host:port of its HTTP port, for HttpPublisher and HttpClient; it is opened by the first look."""
        return self.open_http()

    def open_http(self, port: int = 0) -> str:
        """Opens the HTTP port, unless it is open, and returns its host:port; 0: any free one. Raises OSError if it is
        taken.
        """
        from coldnotify.testing.service_http_port import HttpPort

        with self.lock:
            if self._http is None:
                self._http = HttpPort(self, port, self._ssl_context)
            return self._http.address

    def adopt(self, connection: socket.socket, carrier: "ServiceWebSocket") -> None:
        """A client has connected by WebSocket."""
        with self.lock:
            connection.setblocking(False)
            self.accepted += 1
            self._connections[connection.fileno()] = _Connection(connection, self.service.open(), carrier)
        self.wake()

    def forked(self) -> None:
        """A child lets go of the ports, and of all connections."""
        if self._http is not None:
            self._http.forked()
        for end in (self._listener, self._wake_r, self._wake_w):
            end.close()
        for connection in self._connections.values():
            connection.forked()

    def publish(
        self,
        domain: str,
        group: str,
        object_: str,
        payload: object = None,
        *,
        version: int | None = None,
        incarnation: int | None = None,
        deleted: bool = False,
        wait: bool = False,
        timeout_s: float = 10,
    ) -> int:
        """A back-end publishes; see `Service.publish`.

        `wait`: returns when the callbacks of all clients that are registered for the object have taken it, which they
        report `Connection(ack_delay_s=...)` later; clients that have disconnected are not waited for, those whose
        connection has broken are. Raises NotTaken after `timeout_s`, which names them. In asyncio, call it by
        asyncio.to_thread(): the loop's clients must run meanwhile.
        """
        with self.lock:
            waited = Taking(self.service, domain, group, object_)
            version = self.service.publish(
                domain, group, object_, payload, version=version, incarnation=incarnation, deleted=deleted
            )
            waited.published(version)
        self.wake()
        if wait:
            self._wait_taken(waited, timeout_s)
        return version

    def _wait_taken(self, waited: Taking, timeout_s: float) -> None:
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not 0 or more")
        with self._heard:
            if not self._heard.wait_for(lambda: not waited.lacking(), timeout_s):
                raise NotTaken(waited.words(timeout_s))

    def send(
        self,
        domain: str,
        group: str,
        channel: str,
        payload: object = None,
        *,
        data: bytes | None = None,
        id: str = "",  # noqa: A002 - as a message calls it
        source: str = "",
        to: Collection[str] = (),
        published_ms: int | None = None,
        key: str = "",
    ) -> int:
        """A back-end sends a message to a channel; see `Service.send`. `published_ms`: Unix time; None: now."""
        at_ms = time.time_ns() // 1_000_000 if published_ms is None else published_ms
        with self.lock:
            offset = self.service.send(
                domain, group, channel, payload, data=data, id=id, source=source, to=to, published_ms=at_ms, key=key
            )
        self.wake()
        return offset

    def expire_leases(self, domain: str, group: str) -> None:
        """Ends all leases of shares at once, as if their members had been away for so long."""
        with self.lock:
            self.service.expire_leases(domain, group)
        self.wake()

    def retain(self, domain: str, group: str, start: int) -> None:
        """Removes messages below this offset from the log of channels: clients that lack some are told that they missed
        them.
        """
        with self.lock:
            self.service.retain(domain, group, start)

    def enter(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query from here on; see `Service.enter`."""
        with self.lock:
            self.service.enter(domain, group, query, object_)
        self.wake()

    def leave(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query no more."""
        with self.lock:
            self.service.leave(domain, group, query, object_)
        self.wake()

    def describe(self, domain: str, group: str, object_: str, description: Mapping[str, Any] | None) -> None:
        """The object is described like this from here on; see `Service.describe`."""
        with self.lock:
            self.service.describe(domain, group, object_, description)
        self.wake()

    def close_all(self, code: int, reason: str = "") -> None:
        """End every session with this code."""
        with self.lock:
            self.service.close_all(code, reason)
        self.wake()

    def drop_all(self) -> None:
        """Break every connection, without a word."""
        with self.lock:
            for connection in self._connections.values():
                connection.session.drop()
                connection.broken = True
        self.wake()

    def silence(self, silent: bool) -> None:
        """Read nothing and answer nothing, like a host whose network is gone; new connections are taken by the kernel
        only."""
        with self.lock:
            self._silent = silent
        self.wake()

    def received(self) -> list[wire.ClientFrame]:
        """The frames of the sessions that are open."""
        with self.lock:
            return [frame for session in self.service.sessions for frame in session.received]

    def wake(self) -> None:
        """Sends what was put into sessions."""
        with suppress(OSError):
            self._wake_w.send(b"w")

    def stop(self) -> None:
        """Close everything. In a child of fork() it does nothing."""
        if not self._owner.is_here:
            return
        if self._http is not None:
            self._http.stop()
        self._stopping = True
        self.wake()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopping:
            poll = select.poll()
            poll.register(self._wake_r, select.POLLIN)
            with self.lock:
                if not self._silent:
                    poll.register(self._listener, select.POLLIN)
                    for number, connection in self._connections.items():
                        poll.register(number, select.POLLIN | (select.POLLOUT if connection.unsent else 0))
            ready = {number for number, _ in poll.poll()}
            with suppress(BlockingIOError):
                self._wake_r.recv(4096)
            with self.lock:
                if self._listener.fileno() in ready:
                    self._accept()
                if not self._silent:
                    for number, connection in self._connections.items():
                        if number in ready and not connection.broken:
                            connection.read()
                # After all reading: what one client says can put bytes into another one's session.
                for number, connection in list(self._connections.items()):
                    if not self._silent and not connection.broken:
                        connection.write()
                    if connection.broken:
                        connection.close()
                        del self._connections[number]
                self._heard.notify_all()
        for connection in self._connections.values():
            connection.close()
        for end in (self._listener, self._wake_r, self._wake_w):
            end.close()

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        self.accepted += 1
        if self._ssl_context is not None:
            accepted.settimeout(10)
            try:
                accepted = self._ssl_context.wrap_socket(accepted, server_side=True)
            except OSError:
                accepted.close()
                return
        accepted.setblocking(False)
        self._connections[accepted.fileno()] = _Connection(accepted, self.service.open())


class _Connection:
    def __init__(self, connection: socket.socket, session: Session, carrier: "ServiceWebSocket | None" = None) -> None:
        self._socket = connection
        self._carrier = carrier
        self.session = session
        self.unsent = b""
        self.broken = False

    def read(self) -> None:
        """Reads what has arrived."""
        try:
            while True:
                data = self._socket.recv(65536)
                if not data:
                    raise ConnectionResetError
                self.session.receive(data if self._carrier is None else self._carrier.receive(data))
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.broken = True

    def write(self) -> None:
        """Write as much as goes."""
        self.unsent += self._wrapped(self.session.take())
        try:
            while self.unsent:
                self.unsent = self.unsent[self._socket.send(self.unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.broken = True
        is_over = self.session.closed or (self._carrier is not None and self._carrier.over)
        if is_over and not self.unsent:
            self.broken = True

    def _wrapped(self, data: bytes) -> bytes:
        if self._carrier is None:
            return data
        self._carrier.send(data)
        if self.session.closed:
            self._carrier.close()
        return self._carrier.take()

    def forked(self) -> None:
        """A child lets go of the socket."""
        self._socket.close()

    def close(self) -> None:
        """Close the socket."""
        self.session.drop()
        self._socket.close()
