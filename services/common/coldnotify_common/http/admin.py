"""The HTTP port of every service: /, the three probes, /v1/process and the service's own routes for inspection.

If services identify each other by certificates (`inside`), only they and operators may inspect. The three probes and
/v1/openapi.json stay open to everybody.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import REGISTRY, CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from coldnotify_common.http import openapi
from coldnotify_common.http.about import about
from coldnotify_common.http.known_parameters import known_parameters
from coldnotify_common.http.listening import BACKLOG, ListenError, listen_error, listening
from coldnotify_common.http.process_facts import ProcessFacts
from coldnotify_common.http.web import Handler, error_response, json_errors
from coldnotify_common.http.web_auth import IDENTITY, PROBES
from coldnotify_common.http.web_bodies import BodyReader, bodies_read_by
from coldnotify_common.http.web_origins import asked_by_name, names_of, own_pages
from coldnotify_common.http.web_port import WebPort
from coldnotify_common.http.web_shares import not_now, who_asks
from coldnotify_common.kafka.kafka_stats import STATISTICS
from coldnotify_common.paced import Paced
from coldnotify_common.security.address_settings import HTTP_HOSTS_SETTING
from coldnotify_common.security.authentication import NotAuthenticated
from coldnotify_common.security.inside import Inside, InsideSettings, may_look
from coldnotify_common.security.revocation import lists_usable
from coldnotify_common.security.shared import Shared
from coldnotify_common.security.shares import Shares

_paced = Paced(structlog.get_logger())

_THREAD_START_TIMEOUT_S = 30
"""Opening a port takes milliseconds; a machine that needs longer than this is not working."""
_STOP_TIMEOUT_S = 5
"""Time for answers under way after stop(); a scrape or an inspection is far shorter."""
_CONNECTIONS_MAX = 256
"""Maximum number of connections. Each is an open file, and a gateway reserves this many. An HTTP node opens at most 96
of them, seldom over ten."""
_SILENT_MAX = 96
"""Maximum number of connections without a whole request under way. One more closes the oldest of them, also one between
two requests."""
_ASKING_MAX = 128
"""Maximum number of requests under way. Connections above it stay available for the next caller, and for probes, which
are not counted."""
_ASKING_OF_ONE_MAX = 96
"""Maximum number of requests under way per caller. Loopback has no limit of its own, because callers there are not
identified."""
_BODY_BYTES_MAX = 1024 * 1024
"""Fits 1,000 names with each character escaped."""
_BODIES_BYTES_MAX = 16 * 1024 * 1024
_SILENT_S = 10.0
"""Time from a connection to the head of its first request, TLS included; as on the other ports."""
_IDLE_S = 75.0
"""Time between two requests of a connection: longer than Prometheus' usual minute."""
_TICK_S = 0.5
_RULE_SETTING = "COLDNOTIFY_INSIDE_RULE / --inside-rule"


class CommonMetrics(Collector):
    """Metrics in the /metrics of every service: readiness, its Kafka clients, and its revocation list."""

    def __init__(self, readiness: Callable[[], str | None]) -> None:
        self._readiness = readiness

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics with their current values."""
        ready = self._readiness() is None
        yield GaugeMetricFamily("coldnotify_ready", "1 while /readyz says that the service is ready", value=ready)
        yield from STATISTICS.collect()
        usable = GaugeMetricFamily(
            "coldnotify_auth_revoked_list_usable",
            "0 while the --auth-revoked file cannot be used and the entries read before count; absent without such a "
            "file",
        )
        if (value := lists_usable()) is not None:
            usable.add_metric([], value)
        yield usable


def standard_routes(
    readiness: Callable[[], str | None], registry: CollectorRegistry = REGISTRY
) -> list[web.AbstractRouteDef]:
    """Returns the probes. /healthz: the process answers. /readyz: 503 with the reason while `readiness` gives one.
    /metrics: Prometheus."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = readiness()
        return web.Response(text="ready\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    async def metrics(request: web.Request) -> web.Response:
        encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        # Registering in `registry` itself would last for ever, and happen twice in a process with two services (in
        # tests).
        everything = CollectorRegistry()
        everything.register(_Both(CommonMetrics(readiness), registry))
        return web.Response(body=encoder(everything), headers={"Content-Type": content_type})

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]


class _Both(Collector):
    def __init__(self, *sources: Collector | CollectorRegistry) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Yields nothing, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of all sources."""
        for source in self._sources:
            yield from source.collect()


class AdminServer:
    """An aiohttp server on its own port. `readiness` returns None when the service is ready, otherwise the reason why
    not."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        readiness: Callable[[], str | None],
        routes: Iterable[web.AbstractRouteDef] = (),
        registry: CollectorRegistry = REGISTRY,
        setting: str = "",
        listener: socket.socket | None = None,
        inside: Inside | None = None,
        what: str = "a service",
        api: str = "service",
    ) -> None:
        """`port` 0: any free one. `setting`: the name of the port's setting, for error messages.

        `what`: the service's name in the answer to /. `api`: the kind of port, one of openapi.PORTS. `listener`: a
        socket that already listens on `host`; the server closes it. `inside`: None: no TLS, and everybody may inspect.
        """
        self._host = host
        self._inside = inside or Inside(InsideSettings())
        self._wanted_port = port
        self._setting = setting
        self._listener = listener
        self._facts = ProcessFacts(readiness)
        self._api = api
        answered = [*standard_routes(readiness, registry), self._facts.route(), *routes]
        answered.append(openapi.route(what, api, answered))
        self._routes = [about(what, answered), *answered]
        self._web: WebPort | None = None
        self._ticks: asyncio.Task[None] | None = None
        self.port = 0
        """The actual port, after start()."""

    async def start(self) -> None:
        """Opens the port. Raises ListenError."""
        inside = self._inside
        app = web.Application(
            middlewares=[
                json_errors,
                asked_by_name(names_of(inside.hosts, self._host), HTTP_HOSTS_SETTING),
                own_pages(navigable=PROBES),
                _insiders(inside),
                _bounded(),
                known_parameters(self._api),
                bodies_read_by(
                    BodyReader(
                        bytes_max=_BODY_BYTES_MAX,
                        small_s=_SILENT_S,
                        s=_SILENT_S,
                        together_bytes_max=_BODIES_BYTES_MAX,
                    )
                ),
            ]
        )
        app.add_routes(self._routes)
        listener = self._listener or listening(self._host, self._wanted_port, setting=self._setting)
        self._web = WebPort(
            app,
            connections_max=_CONNECTIONS_MAX,
            silent_max=_SILENT_MAX,
            silent_s=_SILENT_S,
            idle_s=_IDLE_S,
            shutdown_timeout_s=_STOP_TIMEOUT_S,
            tls=inside.server,
            shared=Shares(0).may_have_all,
        )
        await self._web.start(listener)
        self.port = self._web.port
        self._ticks = asyncio.create_task(self._tick(self._web))

    async def stop(self) -> None:
        """Closes the port after the answers under way. May be called twice, and before start()."""
        if self._ticks is not None:
            self._ticks.cancel()
            await asyncio.wait({self._ticks})
        port, self._web = self._web, None
        if port is not None:
            await port.stop()

    async def _tick(self, port: WebPort) -> None:
        while True:
            port.tick()
            self._facts.tick()
            self._inside.look()
            await asyncio.sleep(_TICK_S)


def _insiders(inside: Inside) -> Middleware:
    """Returns a middleware that answers 401 or 403 to a caller that may not inspect; probes need no certificate."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in PROBES or request.path == openapi.PATH:
            return await handler(request)
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            identity = inside.identify(certificate)
        except NotAuthenticated as error:
            _paced.log("request not authenticated", path=request.path, reason=str(error))
            return error_response(401, str(error))
        if not may_look(identity):
            _paced.log("request not allowed", path=request.path, identity=identity.name)
            return error_response(403, f"{identity.name} is neither a service nor an operator: see {_RULE_SETTING}")
        request[IDENTITY] = identity
        return await handler(request)

    return check


def _bounded() -> Middleware:
    """Returns a middleware that limits the requests under way, in all and per caller; probes are always answered."""
    asking = Shared(_ASKING_MAX, _ASKING_OF_ONE_MAX)

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in PROBES:
            return await handler(request)
        # Not by domain, because services request data of all domains.
        with asking.part(who_asks(request, by_domain=False)) as full:
            if full is not None:
                raise not_now(full, "as many requests as this port takes")
            return await handler(request)

    return count


async def listen(
    app: web.Application,
    host: str,
    port: int,
    *,
    setting: str = "",
    shutdown_timeout_s: float = _STOP_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
    listener: socket.socket | None = None,
) -> web.AppRunner:
    """Serves `app` until the returned runner's cleanup(), on `listener` if there is one. Raises ListenError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    site: web.BaseSite
    if listener is None:
        site = web.TCPSite(runner, host, port, ssl_context=ssl_context)
    else:
        site = web.SockSite(runner, listener, ssl_context=ssl_context, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise listen_error(setting, host, port, error) from None
    return runner


def bound_port(runner: web.AppRunner) -> int:
    """Returns the port that a runner with one site listens on."""
    port = runner.addresses[0][1]
    assert isinstance(port, int)
    return port


class AdminThread:
    """Runs an AdminServer in a thread of its own, for services whose main loop is not asyncio.

    Handlers run in that thread: data they read must be safe to read from there.
    """

    def __init__(self, server: AdminServer) -> None:
        """`server`: an AdminServer that is not started yet."""
        self._server = server
        self._thread = threading.Thread(target=self._run, name="admin-http", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._error: BaseException | None = None

    @property
    def port(self) -> int:
        """The actual port, after start()."""
        return self._server.port

    def start(self) -> None:
        """Starts the thread, and returns when the port is open. Raises ListenError."""
        self._thread.start()
        if not self._started.wait(_THREAD_START_TIMEOUT_S):
            raise ListenError(f"the admin port did not open within {_THREAD_START_TIMEOUT_S} s")
        if self._error is not None:
            self._thread.join(_STOP_TIMEOUT_S)
            raise self._error

    def stop(self) -> None:
        """Closes the port and ends the thread. May be called twice, and before start()."""
        if self._loop is None or not self._thread.is_alive():
            return
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            return  # the loop closed between the check and the call
        self._thread.join(2 * _STOP_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._server.start()
        except BaseException as error:
            self._error = error
            return
        finally:
            self._started.set()
        await self._stop.wait()
        await self._server.stop()
