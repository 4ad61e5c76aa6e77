"""Passes requests of devices and browsers on to a gateway, so that one address serves them and publishers."""

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, TypeVar

import structlog
from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    TCPConnector,
    WSMsgType,
    web,
)
from coldnotify_common.errors import SettingError
from coldnotify_common.http import event_streams, mqtt_websockets
from coldnotify_common.http.web import HttpNotNow, error_response
from coldnotify_common.http.web_bodies import BodyReader
from coldnotify_common.http.web_port import has_no_end
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.nodes import WEB
from coldnotify_common.paced import Paced
from coldnotify_common.security.shared import Full, Shared
from coldnotify_common.security.shares import share_of
from coldnotify_schemas.protocol import HELLO_S, WEB_PORT
from multidict import CIMultiDict

from coldnotify_http import open_files
from coldnotify_http.node_addresses import NodeAddresses, SeenNodes
from coldnotify_http.settings import HttpSettings

_paced = Paced(structlog.get_logger())

_CONNECT_TIMEOUT_S = 5.0
_READ_TIMEOUT_S = 120.0
"""Timeout for a silent gateway: longer than a sync may wait, and than the pause between two events."""
_WRITE_TIMEOUT_S = 60.0
"""Timeout for a side that reads nothing of what the other one sends: then the connection is closed."""
_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
_CLOSE_TIMEOUT_S = 10.0
_SMALL_BODY_S = float(HELLO_S)
"""The same as a gateway's."""
_BODIES_BYTES_MAX = 256 * 1024 * 1024
"""Limit on all bodies that are passed on, without the first bytes of each. A body is held until its request is
answered, which a client may ask to delay: so the limit is higher than a gateway's.
"""
_REQUEST_HEADERS = (
    *("Accept", "Authorization", "Content-Type", "Host", "Last-Event-ID"),
    # By these a gateway knows a page from elsewhere.
    *("Origin", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site"),
)
_RESPONSE_HEADERS = ("Cache-Control", "Content-Type", "Deprecation", "Retry-After", "Vary", "WWW-Authenticate")
_CORS = "Access-Control-"
EVENTS = "/v1/events"
_REFUSAL_BYTES_MAX = 4096

T = TypeVar("T")


class GatewayProxy:
    """GET /v1/connect, /mqtt (WebSocket), /v1/events, POST and OPTIONS /v1/sync: asked of the gateways in turn."""

    def __init__(self, settings: HttpSettings, nodes: SeenNodes | None = None) -> None:
        """Raises SettingError."""
        said = _urls(settings.http_gateways)
        self._gateways = NodeAddresses("gateway", WEB, said=said, default=f"127.0.0.1:{WEB_PORT}", nodes=nodes)
        self._turn = itertools.count()
        if settings.http_gateways and not said:
            raise SettingError("COLDNOTIFY_HTTP_GATEWAYS / --http-gateways: is empty")
        try:
            self._tls = ssl.create_default_context(cafile=settings.http_gateways_ca or None)
        except (OSError, ssl.SSLError) as error:
            raise SettingError(
                f"COLDNOTIFY_HTTP_GATEWAYS_CA / --http-gateways-ca: {settings.http_gateways_ca}: {error}"
            ) from None
        self._bodies = BodyReader(
            bytes_max=settings.http_sync_bytes_max,
            small_s=min(_SMALL_BODY_S, settings.http_body_timeout_s),
            s=settings.http_body_timeout_s,
            together_bytes_max=_BODIES_BYTES_MAX,
        )
        self.open_files = open_files.raised(settings.http_passed_on_max)
        most = self.open_files.passed_on_max
        self._under_way = Shared(most, share_of(most))
        self._session: ClientSession | None = None
        self._stopping = asyncio.Event()

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        return [
            web.get("/v1/connect", self.connect),
            web.get(mqtt_websockets.PATH, self.connect_mqtt),
            web.post("/v1/sync", self.request),
            web.options("/v1/sync", self.request),
            web.options(EVENTS, self.request),
            web.get(EVENTS, self.request, allow_head=False),
        ]

    def stop(self) -> None:
        """Ends requests without an end, and those that no gateway has begun to answer; accepts nothing more."""
        self._stopping.set()

    async def close(self) -> None:
        """Lets the connections to gateways go."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> ClientSession:
        if self._stopping.is_set():
            raise _stopping()
        if self._session is None:
            # A connection that was kept may be closed by the gateway the moment it is used: each request makes its own.
            self._session = ClientSession(
                connector=TCPConnector(limit=0, force_close=True),
                timeout=ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S),
                auto_decompress=False,
                raise_for_status=_keep_refusal,
            )
        return self._session

    @asynccontextmanager
    async def _counted(self, request: web.Request) -> AsyncIterator[None]:
        with self._under_way.part(who_asks(request, by_domain=False)) as full:
            if full is not None:
                number, whose = self._under_way.number, ""
                if full is Full.OF_ONE:
                    number, whose = self._under_way.of_one, " of this address"
                words = f"{number} requests{whose} are passed on to gateways already"
                raise HttpNotNow(words)
            yield

    def _in_turn(self) -> list[str]:
        gateways = [_url(one) for one in self._gateways.now(ready=True)]
        first = next(self._turn) % max(1, len(gateways))
        return gateways[first:] + gateways[:first]

    # --- one request, one answer

    async def request(self, request: web.Request) -> web.StreamResponse:
        """The gateway's answer, as it comes."""
        async with self._counted(request), self._bodies.read(request) as body:
            for gateway in self._in_turn():
                asking = self._client().request(
                    request.method,
                    gateway + request.path_qs,
                    headers=_headers(request),
                    data=body,
                    ssl=self._tls,
                    allow_redirects=False,
                    raise_for_status=False,
                )
                try:
                    answer = await self._unless_stopping(asking)
                except (ClientConnectionError, TimeoutError) as error:
                    _paced.log("a gateway cannot be reached", level="warning", gateway=gateway, error=str(error))
                    continue
                if answer is None:
                    raise _stopping()
                async with answer:
                    headers = _answer_headers(answer)
                    if request.path == EVENTS and event_streams.passes(answer.status):
                        refusal = await self._unless_stopping(answer.content.read(_REFUSAL_BYTES_MAX))
                        return web.Response(status=answer.status, headers=headers, body=refusal)
                    endless = answer.content_type == event_streams.TYPE
                    if endless:
                        headers.update(event_streams.HEADERS)
                        has_no_end(request)
                    response = web.StreamResponse(status=answer.status, headers=headers)
                    await response.prepare(request)
                    try:
                        await self._pass_on(answer, response, endless=endless)
                    except (ClientError, TimeoutError):
                        # The client must see that the answer has no end.
                        response.force_close()
                        if request.transport is not None:
                            request.transport.abort()
                    return response
        return _no_gateway()

    async def _pass_on(self, answer: ClientResponse, response: web.StreamResponse, *, endless: bool) -> None:
        """All of it. Events end when the service stops, or the gateway: whoever looks asks again.

        Raises ClientError, TimeoutError.
        """
        while not (endless and self._stopping.is_set()):
            reading = answer.content.readany()
            try:
                data = await (self._unless_stopping(reading) if endless else reading)
            except (ClientError, TimeoutError):
                if not endless:
                    raise
                return  # an event that is not whole is none to whoever looks
            if not data:
                return
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await response.write(data)

    async def _unless_stopping(self, doing: Coroutine[Any, Any, T]) -> T | None:
        """Returns its result, or raises its error; None if the service stops first."""
        task, stopping = asyncio.ensure_future(doing), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, stopping):
                one.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    # --- WebSocket

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Messages both ways, until either side closes."""
        return await self._connect(request)

    async def connect_mqtt(self, request: web.Request) -> web.StreamResponse:
        """The same for MQTT."""
        refused = mqtt_websockets.refusal(request)
        if refused is not None:
            return refused
        mqtt_websockets.probe(request)
        return await self._connect(request, mqtt_websockets.SUBPROTOCOL)

    async def _connect(self, request: web.Request, *subprotocols: str) -> web.StreamResponse:
        if not web.WebSocketResponse().can_prepare(request):
            # A gateway is not bothered: it would answer the service's own WebSocket, and nobody would be there for it.
            return error_response(400, "this is for WebSockets: an upgrade is wanted, see docs/protocol.md")
        async with self._counted(request):
            for gateway in self._in_turn():
                try:
                    upstream = await self._client().ws_connect(
                        gateway + request.path_qs,
                        protocols=subprotocols,
                        headers=_headers(request),
                        ssl=self._tls,
                        max_msg_size=_MESSAGE_BYTES_MAX,
                    )
                except _RefusedError as refused:
                    return refused.response
                except (ClientError, TimeoutError) as error:
                    _paced.log("a gateway cannot be reached", level="warning", gateway=gateway, error=str(error))
                    continue
                async with upstream:
                    return await _bridge(request, upstream, self._stopping, subprotocols)
        return _no_gateway()


async def _bridge(
    request: web.Request, upstream: ClientWebSocketResponse, stopping: asyncio.Event, subprotocols: Sequence[str]
) -> web.WebSocketResponse:
    # The writers' limit: each message waits until the other side takes it, so nothing piles up here.
    client = web.WebSocketResponse(
        protocols=subprotocols, compress=False, max_msg_size=_MESSAGE_BYTES_MAX, writer_limit=1
    )
    await client.prepare(request)
    tasks = [asyncio.create_task(one) for one in (_pump(client, upstream), _pump(upstream, client), stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await upstream.close()
                await client.close()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
    return client


async def _pump(
    source: web.WebSocketResponse | ClientWebSocketResponse, target: web.WebSocketResponse | ClientWebSocketResponse
) -> None:
    with suppress(ConnectionError, ClientError, TimeoutError):
        async for message in source:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                if message.type is WSMsgType.BINARY:
                    await target.send_bytes(message.data)
                elif message.type is WSMsgType.TEXT:
                    await target.send_str(message.data)


class _RefusedError(Exception):
    """A gateway's answer to who wanted a WebSocket, with its words: the library's own error has none."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


async def _keep_refusal(answer: ClientResponse) -> None:
    if answer.status != HTTPStatus.SWITCHING_PROTOCOLS:
        body = await answer.read()
        raise _RefusedError(web.Response(status=answer.status, body=body, headers=_answer_headers(answer)))


def _answer_headers(answer: ClientResponse) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value)
        for name, value in answer.headers.items()
        if name.title() in map(str.title, _RESPONSE_HEADERS) or name.title().startswith(_CORS)
    )


def _headers(request: web.Request) -> CIMultiDict[str]:
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.title() in map(str.title, _REQUEST_HEADERS) or name.title().startswith(_CORS)
    )
    # The gateway is to know why there is no client certificate (RFC 9110, 7.6.3).
    headers["Via"] = "1.1 coldnotify-http"
    return headers


def _urls(addresses: str) -> list[str]:
    """host:port or http[s]://host:port, separated by commas."""
    return [_url(entry.strip().rstrip("/")) for entry in addresses.split(",") if entry.strip()]


def _url(address: str) -> str:
    return address if "://" in address else f"http://{address}"


def _stopping() -> web.HTTPException:
    return web.HTTPServiceUnavailable(text="the service is stopping", headers={"Retry-After": "1"})


def _no_gateway() -> web.Response:
    response = error_response(503, "no gateway can be reached, see COLDNOTIFY_HTTP_GATEWAYS / --http-gateways")
    response.headers["Retry-After"] = "1"
    return response
