"""GET /v1/connect and /mqtt: a session over WebSocket. Binary messages are pieces of the same byte stream as on TCP."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from aiohttp import WSCloseCode, WSMsgType, web
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import encode
from coldnotify_schemas.protocol import WEBSOCKET_SENT_BYTES_MAX, WEBSOCKET_TAKEN_FRAMES_MAX
from coldnotify_schemas.wire_pb2 import Close, GatewayFrame

from coldnotify_gateway.core import Dialect
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.port import LINGER_S
from coldnotify_gateway.listeners.web.queued_connection import QueuedConnection
from coldnotify_gateway.settings import GatewaySettings


async def serve(
    request: web.Request,
    events: ConnectionEvents,
    settings: GatewaySettings,
    *,
    dialect: Dialect | None = None,
    subprotocols: Sequence[str] = (),
) -> web.WebSocketResponse:
    """Serves one session until its end. `dialect`: that of the device; None: its Hello decides."""
    # The writer's limit makes each message wait until the transport holds less than its own high-water mark.
    socket = web.WebSocketResponse(
        protocols=subprotocols,
        compress=False,
        timeout=LINGER_S,
        max_msg_size=WEBSOCKET_TAKEN_FRAMES_MAX * settings.gateway_frame_bytes_max,
        writer_limit=1,
    )
    await socket.prepare(request)
    transport = request.transport
    if transport is None:  # the client is gone already
        return socket
    linger = _Linger(transport)
    connection = QueuedConnection(
        events,
        settings.gateway_high_water_bytes,
        settings.gateway_low_water_bytes,
        cut_off=transport.abort,
        on_finish=linger.begin,
        dialect=dialect,
    )
    connection.carried_by(request, transport)
    events.on_connect(connection, transport)
    transport.set_write_buffer_limits(settings.gateway_low_water_bytes)
    writer = asyncio.create_task(_write(socket, connection))
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                linger.begin()
                await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=b"only binary messages are taken")
                break
            events.on_bytes(connection, message.data)
            await connection.wanted()
    finally:
        connection.finish()
        events.on_disconnected(connection)
        writer.cancel()
        linger.end()
    return socket


async def refuse(request: web.Request, reason: str) -> web.WebSocketResponse | None:
    """Sends the reason of a refusal in a Close frame, because a browser hides a failed handshake's reason from its
    page.

    Ignores all input. Returns None if the request is not a WebSocket handshake.
    """
    socket = web.WebSocketResponse(compress=False, timeout=LINGER_S, writer_limit=1)
    if not socket.can_prepare(request).ok:
        return None
    await socket.prepare(request)
    with suppress(ConnectionError):
        await socket.send_bytes(encode(GatewayFrame(close=Close(code=CloseCode.NOT_ALLOWED, reason=reason))))
        await socket.close()
    return socket


async def _write(socket: web.WebSocketResponse, connection: QueuedConnection) -> None:
    with suppress(ConnectionError):
        while data := await connection.take():
            for start in range(0, len(data), WEBSOCKET_SENT_BYTES_MAX):
                await socket.send_bytes(data[start : start + WEBSOCKET_SENT_BYTES_MAX])
        await socket.close()


class _Linger:
    """Cuts off a connection that the core has closed, if its client does not read or does not close its side."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Starts the timer of LINGER_S, which also ends a message that cannot be sent."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def end(self) -> None:
        """Stops the timer, because the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
