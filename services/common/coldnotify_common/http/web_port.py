"""An HTTP port open to strangers: bounds its connections in number and time from accept on, TLS included.

aiohttp's own server sees a connection only after the TLS handshake, and keeps one without a request open for long.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Container, Hashable
from contextlib import suppress
from typing import Generic, TypeVar, cast

import structlog
from aiohttp import web

from coldnotify_common.addresses import subscriber
from coldnotify_common.http.web import Handler
from coldnotify_common.paced import Paced
from coldnotify_common.security.places import Places
from coldnotify_common.security.proxy_protocol import ProxyError, ProxyHeader

log = structlog.get_logger()
_paced = Paced(log)

_ACCEPTED_AT_ONCE = 100
"""Number of connections accepted in a row; then existing connections are served."""
_NO_FILES_S = 1.0
"""Pause of accepting when no files are left for further connections."""
IDLE_S = 30.0
"""Maximum time between two requests of one connection. A client that sends requests more rarely has to reconnect."""
_TLS_GOODBYE_S = 3.0
"""Maximum wait for the other side's close message at the end of a TLS connection."""
_READ_BYTES = 32 * 1024
"""Read buffer. Up to twice as much is held for each connection, of an unread body or of requests sent ahead."""
_CUT_OFF_S = 1.0
"""The last part of the time for a stop: closes connections that have not ended by themselves."""
_NEVER_S = float("inf")

K = TypeVar("K", bound=Hashable)


class Silent(Generic[K]):
    """Connections without a request under way: limits their number and time. If there are too many, `Places` chooses
    which one is dropped."""

    def __init__(self, number_max: int, drop: Callable[[K], None], of_address_max: int | None = None) -> None:
        """`of_address_max`: limit per address; None: no limit of its own."""
        self._drop = drop
        self._places: Places[K] = Places(number_max, of_address_max)
        self._due_s: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._due_s)

    def add(self, one: K, address: bytes = b"", due_s: float = _NEVER_S, *, shared: bool = False) -> None:
        """Adds a connection. `due_s`: the time at which it is dropped, on the clock of `tick`. `shared`: many clients
        share its address."""
        self._due_s[one] = due_s
        leaving = self._places.add(one, address, shared=shared)
        if leaving is not None:
            self._end(leaving)

    def add_nobodys(self, one: K, due_s: float) -> None:
        """Adds a connection whose address the balancer has not named yet: it has a time, but takes no place of an
        address."""
        self._due_s[one] = due_s

    def discard(self, one: K) -> None:
        """Removes a connection that sends a request, or is gone."""
        self._places.discard(one)
        self._due_s.pop(one, None)

    def tick(self, now_s: float) -> None:
        """Drops connections whose time is over."""
        for one in [one for one, due_s in self._due_s.items() if due_s <= now_s]:
            self._end(one)

    def _end(self, one: K) -> None:
        self.discard(one)
        self._drop(one)


class WebPort:
    """Serves an application from `start` to `stop`. Call `tick` regularly: without it, no time limit takes effect."""

    def __init__(
        self,
        app: web.Application,
        *,
        connections_max: int,
        silent_max: int,
        silent_s: float,
        shutdown_timeout_s: float,
        idle_s: float = IDLE_S,
        handler_cancellation: bool = False,
        tls: ssl.SSLContext | None = None,
        hold: Callable[[str], bool] = lambda _address: True,
        release: Callable[[str], None] = lambda _address: None,
        silent_of_address_max: int | None = None,
        shared: Callable[[str], bool] = lambda _address: False,
        proxies: Container[str] = (),
        on_malformed_header: Callable[[], None] = lambda: None,
    ) -> None:
        """`silent_s`: from accept to a request's head, TLS included; `idle_s`: from an answer to the next request.

        `shutdown_timeout_s`: time for answers under way, from `stop` on.
        `hold`: returns true if another connection of this address is allowed; `release`: called when it is gone.
        `handler_cancellation`: a request is cancelled with its connection. `silent_of_address_max`: limit per address
        of connections without a request, unless the address is `shared` by many. A connection from one of the `proxies`
        begins with a PROXY protocol header; `on_malformed_header`: called if one does not.
        """
        self._loop = asyncio.get_running_loop()
        self._max = connections_max
        self._silent_s = silent_s
        self._tls = tls
        self._hold = hold
        self._release = release
        self._shared = shared
        self._proxies = proxies
        self._on_malformed_header = on_malformed_header
        self._silent: Silent[_Connection] = Silent(silent_max, _Connection.abort, silent_of_address_max)
        self._open: set[_Connection] = set()
        self._ending = 0
        """Open connections being aborted: they no longer count, though their sockets close a moment later."""
        self._peak = 0
        self._by_handler: dict[web.RequestHandler, _Connection] = {}
        self._asked: dict[int, web.Request] = {}
        """Requests without an answer, by id(), because a request has no hash."""
        self._all_answered = asyncio.Event()
        self._stopping = False
        self._shutdown_timeout_s = shutdown_timeout_s
        app[WEB_PORT] = self
        app.middlewares.insert(0, self._asking)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=idle_s,
            handle_signals=False,
            handler_cancellation=handler_cancellation,
            read_bufsize=_READ_BYTES,
        )
        self._listener: socket.socket | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serves the port. `listener` already listens; the port owns it from now on."""
        await self._runner.setup()
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener, self._accept)

    @property
    def port(self) -> int:
        """The actual port, after start()."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """The number of open connections, in whatever state."""
        return len(self._open)

    def take_connection_peak(self) -> int:
        """Returns the largest number of connections since the last call."""
        peak, self._peak = self._peak, len(self._open)
        return peak

    @property
    def silent(self) -> int:
        """The number of open connections without a request, or with an incomplete one."""
        return len(self._silent)

    def tick(self) -> None:
        """Drops connections whose time is over."""
        self._silent.tick(self._loop.time())

    def stop_listening(self) -> None:
        """Accepts no more connections, and rejects incomplete bodies; everything else stays."""
        self._stopping = True
        for connection in list(self._open):
            self._end_body(connection.request)
            self._end_unread(connection)
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener)
            listener.close()

    async def stop(self) -> None:
        """Closes the port after the answers under way. The caller ends endless streams before."""
        self.stop_listening()
        end_s = self._loop.time() + self._shutdown_timeout_s
        for connection in [one for one in self._open if one.handler is None]:
            connection.abort()
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()  # connections between two requests, or in a head
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end_s - _CUT_OFF_S):
                    await self._answered()
            # Waits this time for unfinished writes, and the same time again for the handlers it has cancelled.
            await self._runner.server.shutdown(max(_CUT_OFF_S, end_s - self._loop.time()) / 2)
        await self._runner.cleanup()

    async def _answered(self) -> None:
        while self._asked:
            self._all_answered.clear()
            await self._all_answered.wait()

    # --- requests

    def waits_for_body(self, request: web.Request, within_s: float) -> None:
        """Counts a connection as silent while a request's body is incomplete; after `within_s` it is dropped."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            self._falls_silent(connection, self._loop.time() + within_s)

    def has_body(self, request: web.Request) -> None:
        """Marks a request as complete."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            self._silent.discard(connection)

    @web.middleware
    async def _asking(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.has_body(request)
        asking = self._by_handler.get(request.protocol)
        if asking is not None:
            asking.request = request
        self._asked[id(request)] = request
        if self._stopping:
            self._end_body(request)
        try:
            return await handler(request)
        finally:
            del self._asked[id(request)]
            if not self._asked:
                self._all_answered.set()
            # The client may still be reading its answer, so no time limit of ours applies; aiohttp's begins after the
            # answer.
            connection = self._by_handler.get(request.protocol)
            if connection is not None:
                self._falls_silent(connection)

    def has_no_end(self, request: web.Request) -> None:
        """Marks the answer as an endless stream, which its handler ends when the service stops. The stop does not wait
        for a client that does not read."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            connection.has_no_end = True

    def _end_unread(self, connection: "_Connection") -> None:
        if self._stopping and connection.has_no_end and connection.full:
            connection.abort()

    def _end_body(self, request: web.Request | None) -> None:
        """Makes reading the body, now or later, raise an error that becomes the answer."""
        if request is None or request.content.is_eof():
            return
        if id(request) in self._asked:
            stopping = web.HTTPServiceUnavailable(text="the service is stopping", headers={"Retry-After": "1"})
            request.content.set_exception(stopping)
        request.content.feed_eof()  # otherwise aiohttp would wait for the rest after its answer

    def _falls_silent(self, connection: "_Connection", due_s: float = _NEVER_S) -> None:
        if connection.aborted:
            return  # its last request may still be handled; adding it would drop another connection
        address = connection.address
        self._silent.add(connection, subscriber(address), due_s, shared=self._shared(address))

    def address_of(self, request: web.Request) -> str:
        """Returns the client's IP address; behind a balancer, the address in its header."""
        connection = self._by_handler.get(request.protocol)
        return connection.address if connection is not None else request.remote or ""

    def one_behind(self, request: web.Request) -> bytes | None:
        """Returns the key of all addresses of this subscriber; None if many clients share the address."""
        address = self.address_of(request)
        return None if self._shared(address) else subscriber(address) or None

    # --- connections

    def _accept(self) -> None:
        # Does not use asyncio's server: under TLS, it does not show a connection before the handshake is done.
        listener = self._listener
        for _ in range(_ACCEPTED_AT_ONCE):
            if listener is None:
                return
            try:
                accepted, peername = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("connections cannot be accepted", error=os.strerror(error.errno or 0))
                self._loop.remove_reader(listener)
                self._loop.call_later(_NO_FILES_S, self._accept_again)
                return
            accepted.setblocking(False)
            address, header = str(peername[0]), None
            if address in self._proxies:
                # Usually the header has already arrived. So the addresses of a burst of connections are soon known.
                header = ProxyHeader()
                try:
                    _take_at_hand(header, accepted)
                except (ProxyError, OSError) as error:
                    self._refuse_header(address, error)
                    accepted.close()
                    continue
                if header.whole:
                    address, header = header.source or address, None
            if len(self._open) - self._ending >= self._max or not self._hold(address):
                accepted.close()
                continue
            connection = _Connection(self, accepted, address, header, self._loop.time() + self._silent_s)
            self._open.add(connection)
            self._peak = max(self._peak, len(self._open))
            if header is None:
                self._falls_silent(connection, connection.due_s)
            else:
                self._silent.add_nobodys(connection, connection.due_s)
            connection.begin()

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    async def _connect(self, connection: "_Connection", accepted: socket.socket) -> None:
        """Reads a balancer's header, and completes the TLS handshake; connection_made is called meanwhile. Raises
        OSError."""
        if connection.header is not None:
            await self._take_header(connection, connection.header, accepted)
        if self._tls is None:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        else:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._silent_s,
                ssl_shutdown_timeout=_TLS_GOODBYE_S,
            )

    def _refuse_header(self, proxy: str, error: Exception) -> None:
        if isinstance(error, ProxyError):
            self._on_malformed_header()
            _paced.log("PROXY header malformed", level="warning", proxy=proxy, reason=str(error))

    async def _take_header(self, connection: "_Connection", header: ProxyHeader, accepted: socket.socket) -> None:
        try:
            while wanted_bytes := header.wanted_bytes:
                _feed(header, await self._loop.sock_recv(accepted, wanted_bytes))
        except ProxyError as error:
            self._refuse_header(connection.address, error)
            raise ConnectionAbortedError("no PROXY protocol header") from None
        if header.source is not None:
            self._release(connection.address)
            connection.address, connection.held = header.source, self._hold(header.source)
            if not connection.held:
                raise ConnectionAbortedError("too many connections of this address")
        self._falls_silent(connection, connection.due_s)

    def _handler_of(self, connection: "_Connection") -> web.RequestHandler:
        server = self._runner.server
        assert server is not None
        handler = server()
        self._by_handler[handler] = connection
        return handler

    def _forget(self, connection: "_Connection") -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._ending -= connection.aborted
        self._silent.discard(connection)
        if connection.handler is not None:
            self._by_handler.pop(connection.handler, None)
        if connection.held:
            self._release(connection.address)


WEB_PORT = web.AppKey("WEB_PORT", WebPort)
"""The port that serves an application."""


def has_no_end(request: web.Request) -> None:
    """Marks the answer as an endless stream, see WebPort.has_no_end."""
    port = request.app.get(WEB_PORT)
    if port is not None:
        port.has_no_end(request)


def address_of(request: web.Request) -> str:
    """Returns the client's IP address; behind a balancer, the address in its header; "" if not known."""
    port = request.app.get(WEB_PORT)
    return port.address_of(request) if port is not None else request.remote or ""


class _Connection(asyncio.Protocol):
    """One connection, from accept to its end: TLS handshake if TLS is on; then aiohttp handles all bytes."""

    def __init__(
        self, port: WebPort, accepted: socket.socket, address: str, header: ProxyHeader | None, due_s: float
    ) -> None:
        self._port = port
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.address = address
        self.header = header
        """The balancer's header, until it is complete; otherwise None."""
        self.held = True
        """True while it counts as a connection of its address."""
        self.due_s = due_s
        """The time by which the head of its first request must have arrived."""
        self.handler: web.RequestHandler | None = None
        self.request: web.Request | None = None
        """The last request, part of whose body may still be missing."""
        self.has_no_end = False
        self.full = False
        """True while sent bytes wait here because the other side does not read."""
        self.aborted = False
        """True once the connection is aborted; it is gone a moment later."""

    def begin(self) -> None:
        """Starts the handshake."""
        self._connecting = asyncio.create_task(self._port._connect(self, self._accepted))
        self._connecting.add_done_callback(self._connected)

    def _connected(self, connecting: "asyncio.Task[None]") -> None:
        self._connecting = None
        if connecting.cancelled() or connecting.exception() is not None:  # no TLS, too slow, gone, or dropped
            if self._transport is not None:
                self._transport.abort()
            self._accepted.close()
            self._port._forget(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hands the connection to aiohttp after the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self.handler = self._port._handler_of(self)
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Passes on received bytes, decrypted."""
        if self.handler is not None:
            self.handler.data_received(data)

    def eof_received(self) -> None:
        """Passes on the end of the other side's bytes: aiohttp closes the connection."""
        if self.handler is not None:
            self.handler.eof_received()

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self.full = True
        if self.handler is not None:
            self.handler.pause_writing()
        self._port._end_unread(self)

    def resume_writing(self) -> None:
        """The write buffer has space again."""
        self.full = False
        if self.handler is not None:
            self.handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if self.handler is not None:
            self.handler.connection_lost(exc)
        self._port._forget(self)

    def abort(self) -> None:
        """Aborts the connection in whatever state it is."""
        if not self.aborted:
            self.aborted = True
            self._port._ending += self in self._port._open
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None:
            self._connecting.cancel()


def _take_at_hand(header: ProxyHeader, accepted: socket.socket) -> None:
    # No byte after the header may be read here: it belongs to TLS, or to aiohttp. Raises ProxyError, OSError.
    while wanted_bytes := header.wanted_bytes:
        try:
            data = accepted.recv(wanted_bytes)
        except (BlockingIOError, InterruptedError):
            return
        _feed(header, data)


def _feed(header: ProxyHeader, data: bytes) -> None:
    if not data:
        raise ConnectionResetError("gone before its header was whole")
    header.feed(data)
