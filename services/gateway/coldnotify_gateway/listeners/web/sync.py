"""POST /v1/sync: a whole wake in one request. Each request is a session of the gateway's core, from Hello to its end.

The body's type selects one of two forms: JSON, where the gateway acts as the client; and frames, where the client sends
its own, while the gateway acknowledges the pages for it. The second form is deprecated: only clients of release 0.1.0
use it (docs/adr/0027).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from coldnotify_common.http.query_numbers import seconds
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_bodies import BodyReader
from coldnotify_common.paced import Paced
from coldnotify_common.played.agent import Agent
from coldnotify_common.slices import Slices
from coldnotify_common.steady import steady_s
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, encode_length, parse_gateway_frame
from coldnotify_schemas.protocol import DISPLACED_MIN_S, GATEWAY_FRAME_BYTES_MAX, SYNC_WAIT_S_MAX
from coldnotify_schemas.wire_pb2 import Ack, Bye, ClientFrame, Close

from coldnotify_gateway.core import JSON, Dialect, Violation, values_of
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web import sync_body
from coldnotify_gateway.listeners.web.portion import Portion
from coldnotify_gateway.listeners.web.queued_connection import QueuedConnection, proof_of
from coldnotify_gateway.listeners.web.sync_shares import show_shares
from coldnotify_gateway.settings import GatewaySettings

FRAMES_TYPE = "application/vnd.coldnotify.frames"
_DEPRECATED = {"Deprecation": "@1795305600"}
"""Date of the deprecation in the form of RFC 9745: 2026-11-22."""
_DEPRECATION_SAID_EVERY_S = 600.0
_paced = Paced(structlog.get_logger(), every_s=_DEPRECATION_SAID_EVERY_S)
_BYE = encode(ClientFrame(bye=Bye()))
ABOVE_AGREEMENT_RETRY_S = 10
"""Seconds before a retry above an agreement, which ends only when others leave or the agreement grows; the same as for
a publisher of one object too many."""
_STATUS = {
    CloseCode.DISPLACED: 409,
    CloseCode.ABOVE_AGREEMENT: 429,
    CloseCode.EXPIRED: 401,
    CloseCode.NOT_AUTHENTICATED: 401,
    CloseCode.NOT_ALLOWED: 403,
}
_RETRY_AFTER_S = {CloseCode.DISPLACED: DISPLACED_MIN_S, CloseCode.ABOVE_AGREEMENT: ABOVE_AGREEMENT_RETRY_S}


@asynccontextmanager
async def session_of(
    request: web.Request,
    events: ConnectionEvents,
    settings: GatewaySettings,
    dialect: Dialect | None = JSON,
    *,
    bye: bool = True,
) -> AsyncIterator[QueuedConnection]:
    """Opens a connection of the core for this request, until the end of the block. `dialect`: that of the device; None:
    its Hello decides. `bye` False: the session ends without Bye, which would give back all that the client holds."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    connection = QueuedConnection(
        events,
        settings.gateway_high_water_bytes,
        settings.gateway_low_water_bytes,
        cut_off=transport.abort,
        dialect=dialect,
    )
    connection.carried_by(request, transport)
    events.on_connect(connection, transport)
    try:
        yield connection
    finally:
        if bye and not connection.finished:
            events.on_bytes(connection, _BYE)
        events.on_disconnected(connection)


def identified(request: web.Request, events: ConnectionEvents) -> web.Response | None:
    """Stores the identity in the request. Returns an error response if the request has no valid proof."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    try:
        request[IDENTITY] = events.identify(proof_of(request, transport))
    except Violation as violation:
        return not_answered(Close(code=violation.code, reason=violation.reason))
    return None


class Sync:
    """The handler of POST /v1/sync."""

    def __init__(
        self, events: ConnectionEvents, settings: GatewaySettings, on_deprecated: Callable[[], None] = lambda: None
    ) -> None:
        """Creates the handler, which calls `on_deprecated` for each request of the deprecated form."""
        self._events = events
        self._on_deprecated = on_deprecated
        self._settings = settings
        self._slices = Slices()
        self._bodies = BodyReader(
            bytes_max=settings.gateway_sync_bytes_max, small_s=settings.gateway_handshake_s, s=settings.gateway_sync_s
        )

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Handles a POST /v1/sync."""
        begun_s = steady_s()
        # Checks the header or certificate before it reads the body. Frames may carry their token in the Hello.
        frames = request.content_type == FRAMES_TYPE
        refused = identified(request, self._events)
        if refused is not None and not frames:
            return refused
        # Releases the body before the session begins, because that may wait for long.
        if frames:
            async with self._bodies.read(request) as body:
                hello, rest = _split(body, self._settings.gateway_frame_bytes_max)
            del body
            self._on_deprecated()
            _paced.log("sync by frames is deprecated: update the client", level="warning", address=request.remote)
            wait_s = seconds("wait_s", request.query.get("wait_s", "0"), maximum=SYNC_WAIT_S_MAX)
            return await self._frames(request, hello, rest, wait_s)
        if "wait_s" in request.query:
            raise BadRequest("wait_s", "as a parameter it is for frames only: say it in the body")
        async with self._bodies.read(request) as body:
            steps = await self._slices.all(sync_body.parse(body, wait_s_max=SYNC_WAIT_S_MAX))
        del body
        asked = next(result for result in reversed(steps) if result is not None)
        return await self._json(request, asked, begun_s)

    # --- JSON

    async def _json(self, request: web.Request, asked: sync_body.SyncRequest, begun_s: float) -> web.StreamResponse:
        agent = Agent(asked.device)
        portion, shares = Portion(agent, asked.bytes_max), agent.shares
        async with session_of(request, self._events, self._settings, bye=not shares.wanted) as connection:
            hello_s = int(steady_s() - begun_s)
            self._events.on_bytes(connection, agent.begin())
            # A single page is a single answer, with a status of its own. Further pages leave one by one.
            streamed: web.StreamResponse | None = None
            due_s = self._due_s()
            while not agent.caught_up and not portion.full:
                if not await self._step(connection, portion, due_s):
                    return self._not_all(request, streamed, agent)
                if agent.page_ended and not portion.full:
                    if agent.found:
                        if streamed is None:
                            streamed = web.StreamResponse(headers={"Content-Type": "application/json"})
                            await streamed.prepare(request)
                        await self._write(streamed, portion.show())
                    if portion.ended:
                        break  # the cursor contains the positions; the next request gets the rest
                    self._events.on_bytes(connection, agent.acknowledge())
                    due_s = self._due_s()
            due_s = self._due_s()
            while not shares.is_answered:
                if not await self._step(connection, portion, due_s):
                    return self._not_all(request, streamed, agent)
            if asked.wait_s and not portion.shown and agent.caught_up:
                await self._wait(connection, portion, asked.wait_s)
                if agent.closed is not None and agent.closed.code != CloseCode.GOING_AWAY and not agent.found:
                    return not_answered(agent.closed)
            more = portion.full or not agent.caught_up
            proof = (hello_s, None) if more else await self._proof(connection, portion, hello_s, begun_s)
            # Last of all: the device's leases begin when nothing more is handed out in this session.
            shares.close()
            due_s = self._due_s()
            while not shares.is_closed:
                if not await self._step(connection, portion, due_s):
                    return self._not_all(request, streamed, agent)
            more = more or portion.full
        end = portion.show() + b"]," + sync_body.show_end(agent, *proof, more=more)
        end += show_shares(shares, steady_s()) + b"}\n"
        if streamed is None:
            return web.Response(body=end, content_type="application/json")
        await self._write(streamed, end)
        return streamed

    def _not_all(self, request: web.Request, streamed: web.StreamResponse | None, agent: Agent) -> web.StreamResponse:
        """Ends an answer that cannot be completed."""
        if streamed is not None:
            return _broken_off(request, streamed)
        return not_answered(agent.closed, waits=agent.waits)

    async def _wait(self, connection: QueuedConnection, portion: Portion, wait_s: float) -> None:
        """Waits until a publish arrives, a share hands something out, the time is over, or the session ends."""
        end_s = asyncio.get_running_loop().time() + wait_s
        while not portion.agent.found and not portion.agent.shares.has_news:
            if not await self._step(connection, portion, end_s):
                return

    async def _proof(
        self, connection: QueuedConnection, portion: Portion, hello_s: int, begun_s: float
    ) -> tuple[int, int | None]:
        """Returns `held_s` and `age_s` of the answer: all that was acknowledged `age_s` before it had been held for
        `held_s` is in it. The session began after `hello_s`; one that was held back since is asked again."""
        agent = portion.agent
        age_s, held_s, due_s = agent.age_s, int(steady_s() - begun_s), self._due_s()
        if held_s == hello_s or agent.unanswered > 0 or agent.closed is not None or connection.finished:
            return hello_s, age_s
        self._events.on_bytes(connection, agent.ping())
        while agent.unanswered > 0:
            if not await self._step(connection, portion, due_s):
                return hello_s, None if portion.full else age_s
        if agent.age_s is None or (age_s is not None and hello_s - age_s > held_s - agent.age_s):
            return hello_s, age_s
        return held_s, agent.age_s

    def _due_s(self) -> float:
        """Returns the time of the loop's clock by which a part of the answer must arrive. A Wait is not a part of
        it."""
        return asyncio.get_running_loop().time() + self._settings.gateway_sync_s

    async def _step(self, connection: QueuedConnection, portion: Portion, due_s: float) -> bool:
        """Takes the gateway's next frames. Returns false if none arrive until `due_s`, or the session is over or
        stuck."""
        agent, loop = portion.agent, asyncio.get_running_loop()
        while True:
            while hold := agent.shares.next_hold(steady_s()):
                self._events.on_bytes(connection, hold)
            hold_s = loop.time() + agent.shares.hold_at - steady_s()
            try:
                async with asyncio.timeout_at(min(due_s, hold_s)):
                    frames = await connection.take_frames()
                break
            except TimeoutError:
                if loop.time() >= due_s:
                    return False
        reply = portion.receive(values_of(frames))
        if reply:
            self._events.on_bytes(connection, reply)
        return bool(frames) and agent.closed is None and not agent.stuck

    # --- frames (deprecated)

    async def _frames(self, request: web.Request, hello: bytes, rest: bytes, wait_s: float) -> web.StreamResponse:
        """Answers by frames. Sends `rest`, the client's whole set, only if the service asks for it; the client then
        gets the second Welcome only."""
        response = web.StreamResponse(headers={"Content-Type": FRAMES_TYPE, **_DEPRECATED})
        frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        loop = asyncio.get_running_loop()
        begun = caught_up = over = False
        due_s = self._due_s()
        async with session_of(request, self._events, self._settings, dialect=None) as connection:
            self._events.on_bytes(connection, hello)
            while not over:
                try:
                    async with asyncio.timeout_at(due_s):
                        data = await connection.take()
                except TimeoutError:
                    data = b""
                    if not caught_up:
                        return _broken_off(request, response) if begun else not_answered(None)
                over = not data
                out, page = [], 0
                for body in frames.feed(data):
                    frame = parse_gateway_frame(body)
                    kind = frame.WhichOneof("frame")
                    if kind == "page_end" and not frame.page_end.stream:
                        page = frame.page_end.page
                        continue
                    if kind == "wait":
                        continue
                    if kind == "welcome" and not frame.welcome.in_sync and rest:
                        self._events.on_bytes(connection, rest)
                        rest = b""
                        continue
                    out.append(encode_length(len(body)) + body)
                    if kind == "caught_up":
                        caught_up = True
                        due_s = loop.time() + wait_s
                    over = (
                        over
                        or kind == "close"
                        or (kind == "welcome" and not frame.welcome.in_sync)
                        or (kind == "notification" and caught_up)
                    )
                if out:
                    if not begun:
                        begun = True
                        await response.prepare(request)
                    await self._write(response, b"".join(out))
                if page:
                    self._events.on_bytes(connection, encode(ClientFrame(ack=Ack(page=page))))
                    due_s = due_s if caught_up else self._due_s()
                over = over or (caught_up and due_s <= loop.time())
        return response

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        """Writes, and waits until the client takes the bytes, because no page is acknowledged before that."""
        async with asyncio.timeout(self._settings.gateway_sync_s):
            await response.write(data)


def _split(body: bytes, frame_bytes_max: int) -> tuple[bytes, bytes]:
    """Splits the body into its first frame and the others. Raises BadRequest."""
    try:
        first = next(FrameBuffer(frame_bytes_max).feed(body), None)
    except FrameError as error:
        raise BadRequest("body", str(error)) from None
    if first is None:
        raise BadRequest("body", "holds no whole frame")
    hello = encode_length(len(first)) + first
    return hello, body[len(hello) :]


def not_answered(close: Close | None, *, waits: bool = False) -> web.Response:
    """Returns the HTTP response for a session that was closed before it could answer; None: it took too long.

    `waits`: the service has reported that it cannot answer yet.
    """
    if close is None:
        words = "cannot tell yet, as it is loading or evaluates queries" if waits else "did not answer in time"
        response = error_response(503, f"the service {words}, ask again")
        response.headers["Retry-After"] = "1"
        return response
    try:
        code: CloseCode | None = CloseCode(close.code)
    except ValueError:
        code = None
    status = _STATUS.get(code, 503 if close.code < CloseCode.PROTOCOL_ERROR else 400) if code is not None else 503
    response = error_response(status, close.reason, close=code.name if code is not None else close.code)
    if status in (409, 429, 503):
        response.headers["Retry-After"] = str(_RETRY_AFTER_S.get(code, 1) if code is not None else 1)
    return response


def _broken_off(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Aborts an answer that cannot be completed. The client sees a body without its end, and asks again."""
    response.force_close()
    if request.transport is not None:
        request.transport.abort()
    return response
