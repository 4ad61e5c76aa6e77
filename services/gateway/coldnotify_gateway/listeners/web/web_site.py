"""The web port of a run: admits web pages by origin, and limits silent connections. Sibling modules contain the
endpoints."""

import ssl
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from coldnotify_common.addresses import Among
from coldnotify_common.http import mqtt_websockets, openapi
from coldnotify_common.http.about import about
from coldnotify_common.http.event_streams import come_back
from coldnotify_common.http.known_parameters import known_parameters
from coldnotify_common.http.web import Handler, error_response, json_errors
from coldnotify_common.http.web_origins import foreign, is_known, names_of
from coldnotify_common.http.web_port import WebPort
from coldnotify_common.paced import Paced

from coldnotify_gateway.core import MQTT
from coldnotify_gateway.listeners.port import LINGER_S, DevicePort
from coldnotify_gateway.listeners.web import websocket
from coldnotify_gateway.listeners.web.event_stream import EventsEndpoint
from coldnotify_gateway.listeners.web.sync import Sync
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.shell import GatewayShell

_paced = Paced(structlog.get_logger())

ANY_ORIGIN = "*"
_SESSION = "/v1/connect"
_FOR_PAGES = "/v1/events"
"""Endpoint that a page requests from its own host without an Origin header, like a device."""


class WebSite:
    """Serves the endpoints for devices, from `start` to `stop`. The run calls `tick` regularly."""

    def __init__(
        self, settings: GatewaySettings, shell: GatewayShell, port: DevicePort, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings = settings
        self._shell = shell
        self._listener = port
        self._origins = frozenset(settings.gateway_web_origins.split())
        self._names: frozenset[str] | None = None
        """Names that a page's own host may have; None: any, because a page must then show a proof that another page
        lacks."""
        if settings.auth == "none" and tls is None:
            hosts = (urlsplit(origin).hostname or "" for origin in self._origins)
            self._names = names_of("", settings.gateway_host, *hosts)
        app = web.Application(
            middlewares=[come_back([_FOR_PAGES]), self._admit, json_errors, known_parameters("devices")],
            client_max_size=settings.gateway_sync_bytes_max,
        )
        routes = self.routes()
        what = "a gateway's port for devices that come by WebSocket or HTTP"
        routes.append(openapi.route(what, "devices", routes))
        app.add_routes([about(what, routes), *routes])
        app.on_response_prepare.append(_allow_origin)
        # The same limits as for connections without a Hello: time, number, and total.
        self._port = WebPort(
            app,
            connections_max=shell.gateway.limits.connections_max,
            silent_max=settings.gateway_unidentified_max,
            silent_s=settings.gateway_handshake_s,
            shutdown_timeout_s=LINGER_S,
            handler_cancellation=True,
            tls=tls,
            hold=shell.gateway.hold,
            release=shell.gateway.release,
            silent_of_address_max=shell.gateway.limits.unidentified_share_max or None,
            shared=shell.gateway.shares.may_have_all,
            proxies=Among(settings.proxies()),
            on_malformed_header=shell.on_malformed_proxy_header,
        )

    @property
    def connections(self) -> int:
        """Returns the number of open connections in any state."""
        return self._port.connections

    def take_connection_peak(self) -> int:
        """Returns the highest number of simultaneous connections since the last call."""
        return self._port.take_connection_peak()

    def routes(self) -> list[web.AbstractRouteDef]:
        """Returns the endpoints' routes."""
        shell, settings = self._shell, self._settings
        return [
            web.get(_SESSION, self._connect),
            web.get(mqtt_websockets.PATH, self._connect_mqtt),
            web.post("/v1/sync", Sync(shell, settings, shell.on_sync_by_frames).post),
            web.options("/v1/sync", _preflight),
            web.options(_FOR_PAGES, _preflight),
            web.get(_FOR_PAGES, EventsEndpoint(shell, settings).get, allow_head=False),
        ]

    async def start(self) -> None:
        """Accepts connections. Raises ListenError."""
        (listener,) = self._listener.listeners()
        await self._port.start(listener)

    def stop_listening(self) -> None:
        """Stops accepting connections; open ones stay."""
        self._port.stop_listening()

    async def stop(self) -> None:
        """Ends the remaining connections. The run closes the sessions before."""
        await self._port.stop()

    def tick(self) -> None:
        """Closes connections that have sent no request for too long."""
        self._port.tick()

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        found = self._foreign(request)
        if found is None:
            return await handler(request)
        name, value = found
        setting = "COLDNOTIFY_GATEWAY_WEB_ORIGINS"
        _paced.log("page not allowed", level="warning", path=request.path, header=name, value=value, setting=setting)
        reason = f"pages of {value!r} may not connect here: see {setting}"
        refused = await websocket.refuse(request, reason) if request.path == _SESSION else None
        return refused or error_response(403, reason, field=name)

    def _foreign(self, request: web.Request) -> tuple[str, str] | None:
        """Returns the header and its value that exclude a web page, or None. Devices are never excluded."""
        origin = request.headers.get("Origin")
        if ANY_ORIGIN in self._origins or origin in self._origins:
            return None
        host = request.headers.get("Host")
        by_page = host is not None and (origin is not None or request.path == _FOR_PAGES)
        if self._names is not None and by_page and not is_known(host or "", self._names):
            return "Host", host or ""  # a browser treats a page as our own if its host name resolves to this address
        return foreign(request)

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        return await websocket.serve(request, self._shell, self._settings)

    async def _connect_mqtt(self, request: web.Request) -> web.StreamResponse:
        refused = mqtt_websockets.refusal(request)
        if refused is not None:
            return refused
        mqtt_websockets.probe(request)
        subprotocols = [mqtt_websockets.SUBPROTOCOL]
        return await websocket.serve(request, self._shell, self._settings, dialect=MQTT, subprotocols=subprotocols)


async def _preflight(_request: web.Request) -> web.Response:
    """Answers a page's preflight for JSON and a token. `_admit` has checked the page's origin before."""
    headers = {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
    }
    return web.Response(status=204, headers=headers)


async def _allow_origin(request: web.Request, response: web.StreamResponse) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and response.status != 403:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
