"""A TCP connection that never blocks, with TLS over it if wanted: what the I/O thread of `_sync` polls."""

import errno
import os
import random
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from coldnotify._carriers import CONNECTION_LOST, ENDED_BY_GATEWAY, Carrier, CarrierError
from coldnotify._core.session.reconnect import Address
from coldnotify._tls import ResumingContext

_READ_BYTES = 64 * 1024
_Target = str | tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_IN_PROGRESS = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)


def limit_unacknowledged(connection: socket.socket, timeout_ms: int | None) -> None:
    """Ends the connection once bytes have not been acknowledged for so long. None: the kernel decides."""
    if timeout_ms is not None and hasattr(socket, "TCP_USER_TIMEOUT") and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


class LinkState(Enum):
    """The stages of a connection."""

    RESOLVING = "resolving"
    CONNECTING = "connecting"
    HANDSHAKING = "handshaking"
    OPEN = "open"
    CLOSED = "closed"


class ClientLink:
    """One connection. Call `advance` whenever its socket is ready; after CLOSED, `problem` contains the reason."""

    def __init__(
        self,
        address: Address,
        context: ResumingContext | None,
        wake: Callable[[], None],
        user_timeout_ms: int | None = None,
    ) -> None:
        """Begin to connect. `wake` is called, on another thread, when the address has been looked up.
        `user_timeout_ms`: TCP's own limit for what is not acknowledged; None: the kernel's.
        """
        self.state = LinkState.RESOLVING
        self._user_timeout_ms = user_timeout_ms
        self.problem = ""
        self._address = address
        self._context = context
        self._socket: socket.socket | None = None
        self._is_local = address.scheme == "unix"
        self._unsent = b""
        self._want_write = False
        self._half_closed = False
        self._targets: list[tuple[socket.AddressFamily, _Target]] = []
        self._resolved: list[tuple[socket.AddressFamily, _Target]] | OSError | None = None
        # Looking up a name can block for half a minute when the network is away; nothing else may wait for that.
        threading.Thread(target=self._resolve, args=(wake,), name="coldnotify-resolve", daemon=True).start()

    def _resolve(self, wake: Callable[[], None]) -> None:
        try:
            self._resolved = self._look_up()
        except (OSError, UnicodeError) as error:
            self._resolved = error if isinstance(error, OSError) else OSError(str(error))
        wake()

    def _look_up(self) -> list[tuple[socket.AddressFamily, _Target]]:
        if self._is_local:
            return [(socket.AF_UNIX, self._address.host)]
        found = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        return [(family, sockaddr) for family, _, _, _, sockaddr in found]

    def is_open(self) -> bool:
        """Returns true if bytes can be exchanged."""
        return self.state is LinkState.OPEN

    # Polling

    def fileno(self) -> int | None:
        """Returns the socket to poll, if it is open."""
        return None if self._socket is None else self._socket.fileno()

    def events(self) -> int:
        """Returns the events to poll it for."""
        match self.state:
            case LinkState.CONNECTING:
                return select.POLLOUT
            case LinkState.HANDSHAKING:
                return select.POLLOUT if self._want_write else select.POLLIN
            case _:
                return select.POLLIN | (select.POLLOUT if self._unsent else 0)

    def advance(self) -> None:
        """Continues to connect, or to write, as far as possible without blocking."""
        if self.state is LinkState.RESOLVING and self._resolved is not None:
            if isinstance(self._resolved, OSError):
                self.close(f"{self._address.host} cannot be found: {self._resolved}")
            else:
                self._targets = random.sample(self._resolved, len(self._resolved))
                self._try_next("no address")
        elif self.state is LinkState.CONNECTING:
            assert self._socket is not None
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._try_next(os.strerror(code))
            elif self._connected():
                self._begin_tls()
        elif self.state is LinkState.HANDSHAKING:
            self._handshake()
        elif self.state is LinkState.OPEN:
            self._flush()

    def _try_next(self, problem: str) -> None:
        self._close_socket()
        while self._targets:
            family, target = self._targets.pop(0)
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
                self._socket.setblocking(False)
                if not self._is_local:
                    self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                limit_unacknowledged(self._socket, self._user_timeout_ms)
                code = self._socket.connect_ex(target)
            except OSError as error:
                problem = str(error)
                self._close_socket()
                continue
            # A Unix socket connects at once, or has no room.
            if code in _IN_PROGRESS and not (code and self._is_local):
                self.state = LinkState.CONNECTING
                return
            problem = os.strerror(code)
            self._close_socket()
        self.close(f"{self._address} cannot be reached: {problem}")

    def _connected(self) -> bool:
        assert self._socket is not None
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def _begin_tls(self) -> None:
        if self._context is None:
            self.state = LinkState.OPEN
            return
        assert self._socket is not None
        try:
            self._socket = self._context.wrap_socket(
                self._socket, server_hostname=self._address.host, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            self.close(f"TLS: {error}")
            return
        self.state = LinkState.HANDSHAKING
        self._handshake()

    def _handshake(self) -> None:
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
            self.state = LinkState.OPEN
        except ssl.SSLWantReadError:
            self._want_write = False
        except ssl.SSLWantWriteError:
            self._want_write = True
        except (OSError, ValueError) as error:
            assert self._context is not None
            self._context.forget(self._address.host)
            self.close(f"TLS: {error}")

    # Bytes

    @property
    def writing(self) -> bool:
        """True if something passed to `write` is still waiting."""
        return bool(self._unsent)

    def write(self, data: bytes) -> None:
        """Send `data`, now or as the socket takes it."""
        self._unsent += data
        self._flush()

    def read(self) -> bytes:
        """Returns received bytes, b"" if there are none; the link closes at the end of the stream."""
        if self.state is not LinkState.OPEN or self._socket is None:
            return b""
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        except OSError as error:
            self.close(f"{CONNECTION_LOST}: {error}")
            return b""
        if not data:
            self.close(ENDED_BY_GATEWAY)
        return b"" if self._half_closed else data

    def half_close(self) -> None:
        """Nothing more will be written. What comes is still read, so that the gateway gets all we wrote."""
        if self.state is LinkState.OPEN and not self._half_closed and self._socket is not None:
            self._half_closed = True
            self._remember()
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self, problem: str) -> None:
        """End it now."""
        if self.state is LinkState.OPEN:
            self._remember()
        if self.state is not LinkState.CLOSED:
            self.state = LinkState.CLOSED
            self.problem = problem
        self._close_socket()

    def forked(self) -> None:
        """Closes the socket in a child, without sending anything on it."""
        if self._socket is not None:
            self._socket.close()

    def _flush(self) -> None:
        while self._unsent and self._socket is not None:
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                self.close(f"{CONNECTION_LOST}: {error}")
                return
            self._unsent = self._unsent[sent:]

    def _remember(self) -> None:
        if self._context is not None and isinstance(self._socket, ssl.SSLSocket):
            self._context.remember(self._socket)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class CarriedLink(ClientLink):
    """A connection whose bytes are a carrier's. It is open once the carrier is ready."""

    def __init__(
        self,
        address: Address,
        context: ResumingContext | None,
        wake: Callable[[], None],
        carrier: Carrier,
        user_timeout_ms: int | None = None,
    ) -> None:
        """The same arguments as Link's, and the carrier."""
        super().__init__(address, context, wake, user_timeout_ms)
        self.carrier = carrier
        self._begun = False
        self._ending = False
        self._received = b""

    def is_open(self) -> bool:
        """Returns true if the session's bytes can be exchanged."""
        return super().is_open() and self.carrier.ready

    def advance(self) -> None:
        """Does the same as Link's, then what the carrier needs before it is ready."""
        super().advance()
        if super().is_open() and not self._begun:
            self._begun = True
            super().write(self.carrier.begin())
        if super().is_open() and not self.carrier.ready:
            self._received += self._take(super().read())
        if self._ending and not self.writing:
            self.half_close()

    def write(self, data: bytes) -> None:
        """Send the session's `data`."""
        super().write(self.carrier.send(data))
        self._close_if_over()

    def read(self) -> bytes:
        """Returns the session's bytes that the gateway sent."""
        said, self._received = self._received, b""
        while not said and super().is_open():
            data = super().read()
            if not data:
                break
            said = self._take(data)
        if not said:
            self._close_if_over()
        return said

    def end_sending(self) -> None:
        """Nothing more will be written: close our side, once all is."""
        if not self._ending:
            self._ending = True
            end = self.carrier.end()
            if end:
                super().write(end)
        if not self.writing:
            self.half_close()

    def _take(self, data: bytes) -> bytes:
        if not data:
            return b""
        try:
            said = self.carrier.receive(data)
        except CarrierError as error:
            self.close(str(error))
            return b""
        answer = self.carrier.answer()
        if answer and super().is_open():
            super().write(answer)
        return said

    def _close_if_over(self) -> None:
        if self.carrier.over and super().is_open():
            self.close(self.carrier.over)
