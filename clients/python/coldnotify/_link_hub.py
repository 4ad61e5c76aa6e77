"""A link's hub: applications connect to its Unix socket as to a gateway, and share its one connection to a gateway.

The hub passes frames on; what they mean stays between each client and the service. So it stores nothing: where it, its
connection or an application ends, clients come back and go on as after any lost connection.
"""

import asyncio
import logging
import ssl
import time
from contextlib import suppress
from random import Random
from typing import cast

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import (
    CLIENT_FRAME_BYTES_MAX,
    GATEWAY_FRAME_BYTES_MAX,
    SAID_ONCE,
    FrameBuffer,
    FrameError,
    encode,
    parse_client_frame,
    parse_gateway_frame,
)
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX, SILENCE_FACTOR
from coldnotify_schemas.wire_pb2 import CAPABILITY_MOVES, Bye, ClientFrame, Close, GatewayFrame, Hello

from coldnotify._carriers import CONNECTION_LOST, ENDED_BY_GATEWAY, CarrierError, carrier_of
from coldnotify._core.session.address_book import AddressBook
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import LINGER_S
from coldnotify._link import limit_unacknowledged
from coldnotify.connection import Connection

logger = logging.getLogger("coldnotify")

_UNREAD_BYTES_MAX = 1024 * 1024
"""An application that leaves more unread is cut off: it comes back, and is told the newest."""
_APPLICATIONS_MAX = 4 * LINK_SESSIONS_MAX
"""Connections to the socket, with a Hello or without one."""
_LOOK_S = 1.0


class LinkHub:
    """The hub of one event loop."""

    def __init__(self, connection: Connection) -> None:
        """Raises ValueError for a connection that a link cannot use, or whose certificate cannot be used."""
        if connection.directory is not None:
            raise ValueError("directory: a link asks none, give it addresses")
        self.connection = connection
        self.context = connection.ssl_context()
        gateways = connection.gateways()
        if any(address.scheme == "unix" for address in connection.addresses()):
            raise ValueError("address: a link connects to gateways, not to another link")
        self.book: AddressBook[Address] = AddressBook(
            gateways.addresses, connection.address_rest_s, Random(), gateways.home
        )
        self.silence_s = SILENCE_FACTOR * connection.chosen_keepalive_s() + connection.chosen_silence_grace_s()
        self._applications: set[_Application] = set()
        self._gateway: _Gateway | None = None
        """The one that new applications are served by."""
        self._gateways: set[_Gateway] = set()
        """All connections that have not ended."""

        self._emptied = asyncio.Event()
        """Set once it ends, and nothing is open any more."""
        self._ends = False

    def application(self) -> asyncio.Protocol:
        """Returns the protocol of an application's new connection."""
        return _Application(self)

    async def run(self) -> None:
        """Looks after the connection to the gateway, until cancelled; then ends all connections."""
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                if self._gateway is not None:
                    self._gateway.look()
        finally:
            await self._end()

    async def _end(self) -> None:
        self._ends = True
        if self._gateway is not None:
            self._gateway.end()
        for application in list(self._applications):
            application.close()
        self._look_whether_empty()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._emptied.wait()
        for application in self._applications:
            application.abort()
        for gateway in self._gateways:
            gateway.abort("stopped")
        # A transport that is aborted is closed in the loop's next turn.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    # What applications say

    def begun(self, application: "_Application") -> None:
        """One has connected."""
        self._applications.add(application)
        if len(self._applications) > _APPLICATIONS_MAX:
            application.refuse(CloseCode.OVERLOADED, "too many applications are connected to this link")

    def on_frame(self, application: "_Application", frame: ClientFrame) -> None:
        """One has sent a frame."""
        gateway = self._gateway
        if application.gateway is None and frame.HasField("hello"):
            if gateway is None:
                gateway = self._gateway = _Gateway(self)
                self._gateways.add(gateway)
                gateway.connect()
            if not gateway.take(application):
                reason = f"{LINK_SESSIONS_MAX} applications are on this link, no more are taken"
                application.refuse(CloseCode.OVERLOADED, reason)
                return
        if application.gateway is not None:
            application.gateway.send(application, frame)

    def gone(self, application: "_Application") -> None:
        """One has disconnected."""
        self._applications.discard(application)
        self._look_whether_empty()
        if application.gateway is not None:
            application.gateway.leave(application)

    def leave(self, gateway: "_Gateway") -> None:
        """Another connection serves whoever comes from here on."""
        if self._gateway is gateway:
            self._gateway = None

    def lost(self, gateway: "_Gateway") -> None:
        """A connection to a gateway is gone."""
        self.leave(gateway)
        self._gateways.discard(gateway)
        self._look_whether_empty()

    def _look_whether_empty(self) -> None:
        if self._ends and not self._applications and not self._gateways:
            self._emptied.set()


class _Application(asyncio.Protocol):
    """An application's connection."""

    def __init__(self, hub: LinkHub) -> None:
        self._hub = hub
        self._frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self.gateway: _Gateway | None = None
        self.said_bye = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._hub.begun(self)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                frame = parse_client_frame(body)
                self.said_bye |= frame.HasField("bye")
                self._hub.on_frame(self, frame)
        except FrameError as error:
            logger.warning("an application on the link sent what is no frame: %s", error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.gone(self)

    def tell(self, data: bytes) -> None:
        """Write frames of the gateway for it."""
        assert self._transport is not None
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
            logger.warning("an application on the link does not read: it is cut off")
            self._transport.abort()

    def refuse(self, code: CloseCode, reason: str) -> None:
        """Send it away: it comes back."""
        self.gateway = None
        self.tell(encode(GatewayFrame(close=Close(code=code, reason=reason))))
        self.close()

    def close(self) -> None:
        """End its connection once it has all that it was told."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End its connection now."""
        if self._transport is not None:
            self._transport.abort()

    def read(self, *, on: bool) -> None:
        """Read from it, or leave what it sends to its socket."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.resume_reading if on else self._transport.pause_reading)()


class _Gateway(asyncio.Protocol):
    """The connection to a gateway, from the attempt to make it on. Its sessions are numbered as they come."""

    def __init__(self, hub: LinkHub) -> None:
        self._hub = hub
        address = hub.book.next(time.monotonic())
        assert address is not None  # there is no directory
        self._address = address
        self._carrier = carrier_of(address)
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._sessions: dict[int, _Application] = {}
        self._numbers: dict[_Application, int] = {}
        self._first: Hello | None = None
        self._token = ""
        self._last = -1
        """The last session's number. None is used twice."""
        self._waiting: list[ClientFrame] = []
        """Frames that are written together: what waits for the connection, or comes in one turn of the loop."""
        self._up = self._served = False
        self.leaves = False
        """True once its last session has ended: a new application needs another connection."""
        self._asked_s: float | None = None
        """Since when an answer is due."""
        self._connecting: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._problem = ""

    def connect(self) -> None:
        """Begin."""
        logger.info("the link connects to %s", self._address)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        connection, address = self._hub.connection, self._address
        context = self._hub.context if connection.uses_tls(address) else None
        problem = "stopped"
        try:
            async with asyncio.timeout(connection.connect_timeout_s):
                self._token = await asyncio.to_thread(connection.current_token)
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self, address.host, address.port, ssl=context)
        except Exception as error:
            problem = f"{address} cannot be reached: {error or 'not in time'}"
        finally:
            self._connecting = None
            if self._transport is None:
                self._down(problem)

    # What the hub says

    def take(self, application: _Application) -> bool:
        """Gives an application the next number. Returns false if too many are open."""
        if len(self._sessions) == LINK_SESSIONS_MAX:
            return False
        self._last += 1
        self._sessions[self._last], self._numbers[application] = application, self._last
        application.gateway = self
        # Until its Hello is sent, it says no more.
        application.read(on=self._up)
        return True

    def send(self, application: _Application, frame: ClientFrame) -> None:
        """Send an application's frame, in its session."""
        number = self._numbers.get(application)
        if number is not None:
            frame.session = number
            self._write(frame)

    def _write(self, frame: ClientFrame) -> None:
        if self._up and not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(frame)

    def _flush(self) -> None:
        if not self._up or not self._waiting or self._transport is None:
            return
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            if frame.HasField("hello"):
                self._shorten(frame.hello)
            if self._asked_s is None and (frame.HasField("hello") or frame.HasField("ping")):
                self._asked_s = time.monotonic()
        self._transport.write(self._carrier.send(b"".join(map(encode, waiting))))

    def _shorten(self, hello: Hello) -> None:
        """Leave out what the first Hello on this connection says."""
        hello.token = hello.token or self._token
        if self._hub.book.knows_other(self._address):
            hello.capabilities |= CAPABILITY_MOVES
        if self._first is None:
            self._first = Hello()
            self._first.CopyFrom(hello)
            return
        for name in SAID_ONCE:
            if getattr(hello, name) == getattr(self._first, name):
                hello.ClearField(name)

    def leave(self, application: _Application) -> None:
        """An application has gone: its session ends, and with the last one the connection."""
        number = self._numbers.pop(application, None)
        if number is None:
            return
        del self._sessions[number]
        if not application.said_bye:
            self._write(ClientFrame(bye=Bye(), session=number))
        if not self._sessions:
            self.end()

    def end(self) -> None:
        """End the connection once what was sent is written."""
        self.leaves = True
        self._hub.leave(self)
        if not self._up:
            self.abort("stopped")
            return
        self._flush()
        if self._transport is not None:
            self._transport.write(self._carrier.end())
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self.abort, "stopped")

    def abort(self, problem: str) -> None:
        """End it now."""
        self._problem = self._problem or problem
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None:
            self._connecting.cancel()

    def look(self) -> None:
        """Give a gateway up that owes an answer for too long: each application would only come back to it."""
        if self._asked_s is not None and time.monotonic() - self._asked_s > self._hub.silence_s:
            self.abort("the gateway is silent")

    # What the connection says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tls = transport.get_extra_info("ssl_object")
        limit_unacknowledged(transport.get_extra_info("socket"), self._hub.connection.user_timeout_ms())
        self._transport.write(self._carrier.begin())
        self._begin_if_ready()

    def _begin_if_ready(self) -> None:
        if not self._carrier.ready or self._up:
            return
        self._up = True
        # A frame without content, with a session's number: this is a link.
        self._waiting.insert(0, ClientFrame(session=1))
        self._flush()
        self.resume_writing()

    def pause_writing(self) -> None:
        for application in self._numbers:
            application.read(on=False)

    def resume_writing(self) -> None:
        for application in self._numbers:
            application.read(on=True)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._asked_s = None
        try:
            said = self._carrier.receive(data)
            self._transport.write(self._carrier.answer())
            self._begin_if_ready()
            for body in self._frames.feed(said):
                self._on_frame(parse_gateway_frame(body))
        except (CarrierError, FrameError) as error:
            self.abort(str(error))
        if self._carrier.over:
            self.abort(self._carrier.over)

    def _on_frame(self, frame: GatewayFrame) -> None:
        application = self._sessions.get(frame.session)
        if application is None:
            return  # it has gone
        frame.ClearField("session")
        self._served |= frame.HasField("welcome")
        application.tell(encode(frame))
        if frame.HasField("close"):
            if frame.close.not_here_s:
                self._hub.book.failed(self._address, time.monotonic(), frame.close.not_here_s)
            del self._sessions[self._numbers.pop(application)]
            application.gateway = None
            application.close()
            if not self._sessions:
                self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._tls is not None and self._hub.context is not None:
            self._hub.context.remember(self._tls)
        self._down(ENDED_BY_GATEWAY if exc is None else f"{CONNECTION_LOST}: {exc}")

    def _down(self, problem: str) -> None:
        problem = self._problem or problem
        logger.info("the link's connection to %s ended: %s", self._address, problem)
        if not self.leaves and (not self._served or self._problem):
            self._hub.book.failed(self._address, time.monotonic())
        self._hub.lost(self)
        applications, self._numbers, self._sessions = list(self._numbers), {}, {}
        for application in applications:
            application.refuse(CloseCode.GOING_AWAY, problem)
