"""The web port of a run: who may come, how long and how many may say nothing; the endpoints are next door."""

import asyncio
import ssl
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from coldnotify_common.web import Handler, error_response, json_errors

from coldnotify_gateway.open_files import LINGERING_MAX
from coldnotify_gateway.server import LINGER_S, Port
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.shell import Shell
from coldnotify_gateway.web import websocket
from coldnotify_gateway.web.events import Events
from coldnotify_gateway.web.sync import Sync

log = structlog.get_logger()

_IDLE_S = 30.0
"""Between two requests of one connection. A client that comes more rarely connects again."""
ANY_ORIGIN = "*"


class WebSite:
    """The endpoints for devices, from `start` to `stop`. `tick` it now and then."""

    def __init__(self, settings: GatewaySettings, shell: Shell, port: Port, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._shell = shell
        self._port = port
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._origins = frozenset(settings.gateway_web_origins.split())
        self._silent: dict[web.RequestHandler, float] = {}
        """Connections without a request so far, and until when; in the order in which they came."""
        app = web.Application(middlewares=[self._admit, json_errors], client_max_size=settings.gateway_sync_bytes_max)
        app.add_routes(
            [
                web.get("/v1/connect", self._connect),
                web.post("/v1/sync", Sync(shell, settings).post),
                web.options("/v1/sync", _preflight),
                web.get("/v1/events", Events(shell, settings).get),
            ]
        )
        app.on_response_prepare.append(_allow_origin)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=LINGER_S,
            handle_signals=False,
            handler_cancellation=True,
        )
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Accepts connections. Raises ListenError."""
        await self._runner.setup()
        self._server = await self._loop.create_server(self._accept, sock=self._port.listener(), ssl=self._tls)

    def stop_listening(self) -> None:
        """Takes no more connections; those that are there stay."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Ends what is left. The sessions are to be sent away before."""
        self.stop_listening()
        await self._runner.cleanup()

    def tick(self) -> None:
        """Closes connections that have not asked anything for too long."""
        now_s = self._loop.time()
        while self._silent:
            oldest, due_s = next(iter(self._silent.items()))
            if due_s > now_s:
                return
            self._drop(oldest)

    def _accept(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        protocol = server()
        # The same bounds as those of connections that have not said Hello: time and number.
        self._silent[protocol] = self._loop.time() + self._settings.gateway_handshake_s
        if len(self._silent) > self._settings.gateway_unidentified_max:
            self._drop(next(iter(self._silent)))
        return protocol

    def _drop(self, protocol: web.RequestHandler) -> None:
        del self._silent[protocol]
        protocol.force_close()

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._silent.pop(request.protocol, None)
        origin = request.headers.get("Origin")
        if origin is not None and not self._is_welcome(origin, request.host):
            return error_response(
                403, f"pages of {origin!r} may not connect here: see COLDNOTIFY_GATEWAY_WEB_ORIGINS", field="Origin"
            )
        response = await handler(request)
        server = self._runner.server
        if server is not None and len(server.connections) > self._shell.gateway.limits.connections_max + LINGERING_MAX:
            response.force_close()  # no room for those that may come back
        return response

    def _is_welcome(self, origin: str, host: str) -> bool:
        """A page in a browser says where it is from. Others (devices) do not."""
        return ANY_ORIGIN in self._origins or origin in self._origins or urlsplit(origin).netloc == host

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        return await websocket.serve(request, self._shell, self._settings)


async def _preflight(_request: web.Request) -> web.Response:
    """A page asks whether it may send JSON and a token. Whether it may come at all was looked at before."""
    headers = {"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Authorization, Content-Type"}
    return web.Response(status=204, headers=headers)


async def _allow_origin(request: web.Request, response: web.StreamResponse) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and response.status != 403:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
