"""A port for HTTP that strangers reach: its connections are bounded in number and time from accept on, TLS included.

aiohttp's own server sees a connection once TLS has shaken hands, and leaves one without a request open for long.
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
"""Then those that are there have their turn."""
_NO_FILES_S = 1.0
"""Without files for more connections, accepting pauses for so long."""
IDLE_S = 30.0
"""Between two requests of one connection. A client that comes more rarely connects again."""
_TLS_GOODBYE_S = 3.0
"""How long the end of a connection waits for the other side's goodbye."""
_READ_BYTES = 32 * 1024
"""Of a body that nobody reads, or of requests that are sent ahead, twice as much is held of each connection."""
_CUT_OFF_S = 1.0
"""Of the time for a stop: for cutting off what has not ended by itself."""
_NEVER_S = float("inf")

K = TypeVar("K", bound=Hashable)


class Silent(Generic[K]):
    """Those that are not asking anything: how many and until when. With one more, `Places` says who is dropped."""

    def __init__(self, number_max: int, drop: Callable[[K], None], of_address_max: int | None = None) -> None:
        """`of_address_max`: of one address; None: as many as there may be."""
        self._drop = drop
        self._places: Places[K] = Places(number_max, of_address_max)
        self._due_s: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._due_s)

    def add(self, one: K, address: bytes = b"", due_s: float = _NEVER_S, *, shared: bool = False) -> None:
        """`due_s`: when it is dropped, on the clock of `tick`. `shared`: many are behind its address."""
        self._due_s[one] = due_s
        leaving = self._places.add(one, address, shared=shared)
        if leaving is not None:
            self._end(leaving)

    def add_nobodys(self, one: K, due_s: float) -> None:
        """The same, as long as a balancer has not said whose it is: it has a time, and takes nobody's place."""
        self._due_s[one] = due_s

    def discard(self, one: K) -> None:
        """It asks, or is gone."""
        self._places.discard(one)
        self._due_s.pop(one, None)

    def tick(self, now_s: float) -> None:
        """Drops those whose time is over."""
        for one in [one for one, due_s in self._due_s.items() if due_s <= now_s]:
            self._end(one)

    def _end(self, one: K) -> None:
        self.discard(one)
        self._drop(one)


class WebPort:
    """Serves an application from `start` to `stop`. `tick` it now and then: else nothing ends by its time."""

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
        """`silent_s`: from accept to a request's head, TLS included; `idle_s`: from an answer to the next one.

        `shutdown_timeout_s`: how long answers under way may take from `stop` on.

        `hold`: whether one more connection of this address may be; `release`: it is gone. `handler_cancellation`: a
        request ends with its connection. `silent_of_address_max`: of those that are not asking anything, unless the
        address is `shared` by many. A connection from one of the `proxies` begins with a PROXY protocol header;
        `on_malformed_header`: one did not.
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
        """Those of them that are cut off: they hold no place any more, though their sockets close a moment later."""
        self._peak = 0
        self._by_handler: dict[web.RequestHandler, _Connection] = {}
        self._asked: dict[int, web.Request] = {}
        """Requests that are not answered yet, by their ids: they have no hash."""
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
        """`listener` listens already, and is the port's from now on."""
        await self._runner.setup()
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener, self._accept)

    @property
    def port(self) -> int:
        """The actual one, after start()."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """Those that are open, in whatever state."""
        return len(self._open)

    def take_connection_peak(self) -> int:
        """The most connections at one time since this was asked last."""
        peak, self._peak = self._peak, len(self._open)
        return peak

    @property
    def silent(self) -> int:
        """Those of them that are not asking anything, or have not sent it whole yet."""
        return len(self._silent)

    def tick(self) -> None:
        """Time has passed."""
        self._silent.tick(self._loop.time())

    def stop_listening(self) -> None:
        """Takes no more connections, and no body that is not whole; what else is there stays."""
        self._stopping = True
        for connection in list(self._open):
            self._end_body(connection.request)
            self._end_unread(connection)
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener)
            listener.close()

    async def stop(self) -> None:
        """Ends what is left, after the answers under way. What is streamed without an end is to be ended before."""
        self.stop_listening()
        end_s = self._loop.time() + self._shutdown_timeout_s
        for connection in [one for one in self._open if one.handler is None]:
            connection.abort()
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()  # those that are between two requests, or in a head
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end_s - _CUT_OFF_S):
                    await self._answered()
            # It waits so long for what is written still, and once more for what it has cut off by then.
            await self._runner.server.shutdown(max(_CUT_OFF_S, end_s - self._loop.time()) / 2)
        await self._runner.cleanup()

    async def _answered(self) -> None:
        while self._asked:
            self._all_answered.clear()
            await self._all_answered.wait()

    # --- requests

    def waits_for_body(self, request: web.Request, within_s: float) -> None:
        """Who sends a head and not its body is silent still; after `within_s` the connection is dropped."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            self._falls_silent(connection, self._loop.time() + within_s)

    def has_body(self, request: web.Request) -> None:
        """The request is whole."""
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
            # It may be taking its answer still: so no time of ours, aiohttp's begins behind that.
            connection = self._by_handler.get(request.protocol)
            if connection is not None:
                self._falls_silent(connection)

    def has_no_end(self, request: web.Request) -> None:
        """Its answer is a stream that somebody ends when the service stops. Nobody waits then for who does not read."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            connection.has_no_end = True

    def _end_unread(self, connection: "_Connection") -> None:
        if self._stopping and connection.has_no_end and connection.full:
            connection.abort()

    def _end_body(self, request: web.Request | None) -> None:
        """Whoever reads it, now or later, hears that it does not come whole: that is the answer."""
        if request is None or request.content.is_eof():
            return
        if id(request) in self._asked:
            stopping = web.HTTPServiceUnavailable(text="the service is stopping", headers={"Retry-After": "1"})
            request.content.set_exception(stopping)
        request.content.feed_eof()  # behind its answer aiohttp would wait for the rest

    def _falls_silent(self, connection: "_Connection", due_s: float = _NEVER_S) -> None:
        if connection.aborted:
            return  # what it has sent may be handled still; another one would have to leave for it
        address = connection.address
        self._silent.add(connection, subscriber(address), due_s, shared=self._shared(address))

    def address_of(self, request: web.Request) -> str:
        """The client's IP address, as a balancer says it where there is one."""
        connection = self._by_handler.get(request.protocol)
        return connection.address if connection is not None else request.remote or ""

    def one_behind(self, request: web.Request) -> bytes | None:
        """What stands for all addresses of who asks; None: many are behind the address."""
        address = self.address_of(request)
        return None if self._shared(address) else subscriber(address) or None

    # --- connections

    def _accept(self) -> None:
        # Not asyncio's server: under TLS that says nothing of a connection before its handshake is done.
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
                # It is there already, mostly. So a burst of connections is soon known to be somebody's.
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
        """Its connection_made comes within, after a balancer's header and TLS's handshake. Raises OSError."""
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
"""The port that an application is served by."""


def has_no_end(request: web.Request) -> None:
    """See WebPort.has_no_end."""
    port = request.app.get(WEB_PORT)
    if port is not None:
        port.has_no_end(request)


def address_of(request: web.Request) -> str:
    """The IP address of who asks, as a balancer says it where there is one; "" where it is not known."""
    port = request.app.get(WEB_PORT)
    return port.address_of(request) if port is not None else request.remote or ""


class _Connection(asyncio.Protocol):
    """From accept to its end: first it shakes hands, where TLS is on; then all that comes is aiohttp's."""

    def __init__(
        self, port: WebPort, accepted: socket.socket, address: str, header: ProxyHeader | None, due_s: float
    ) -> None:
        self._port = port
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.address = address
        self.header = header
        """What a balancer has to say before all else, if it has not said all of it yet."""
        self.held = True
        """It counts as one of its address."""
        self.due_s = due_s
        """When the head of its first request must be in."""
        self.handler: web.RequestHandler | None = None
        self.request: web.Request | None = None
        """The last one, of which a part may be to come still."""
        self.has_no_end = False
        self.full = False
        """What was said waits here, until the other side reads."""
        self.aborted = False
        """It is cut off, and gone a moment later."""

    def begin(self) -> None:
        """Shakes hands."""
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
        """The handshake is done."""
        self._transport = cast(asyncio.Transport, transport)
        self.handler = self._port._handler_of(self)
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came, decrypted."""
        if self.handler is not None:
            self.handler.data_received(data)

    def eof_received(self) -> None:
        """Nothing more comes: aiohttp closes it."""
        if self.handler is not None:
            self.handler.eof_received()

    def pause_writing(self) -> None:
        """It is full."""
        self.full = True
        if self.handler is not None:
            self.handler.pause_writing()
        self._port._end_unread(self)

    def resume_writing(self) -> None:
        """It is drained."""
        self.full = False
        if self.handler is not None:
            self.handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self.handler is not None:
            self.handler.connection_lost(exc)
        self._port._forget(self)

    def abort(self) -> None:
        """Cuts it off, in whatever state it is."""
        if not self.aborted:
            self.aborted = True
            self._port._ending += self in self._port._open
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None:
            self._connecting.cancel()


def _take_at_hand(header: ProxyHeader, accepted: socket.socket) -> None:
    # No byte behind the header may be read here: it is TLS's, or aiohttp's. Raises ProxyError, OSError.
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
