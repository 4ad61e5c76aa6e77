"""The HTTP port that every service has: /healthz, /readyz, /metrics and what routes it adds for looking in."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from coldnotify_common.kafka_stats import STATISTICS
from coldnotify_common.listening import BACKLOG, ListenError, listen_error
from coldnotify_common.revocation import lists_usable
from coldnotify_common.web import json_errors

_THREAD_START_TIMEOUT_S = 30
"""Opening a port takes milliseconds; a machine that needs longer than this is not working."""
_STOP_TIMEOUT_S = 5
"""How long answers under way may take after stop(); a scrape or a look is far shorter."""


class CommonMetrics(Collector):
    """What the /metrics of every service shows: whether it is ready, its Kafka clients, and its list of the revoked."""

    def __init__(self, readiness: Callable[[], str | None]) -> None:
        self._readiness = readiness

    def collect(self) -> Iterator[Metric]:
        """As things are now."""
        ready = self._readiness() is None
        yield GaugeMetricFamily("coldnotify_ready", "1 while the service is ready, as /readyz says", value=ready)
        yield from STATISTICS.collect()
        usable = GaugeMetricFamily(
            "coldnotify_auth_revoked_list_usable",
            "0 while the file of --auth-revoked cannot be used as it is, and what it said before counts; "
            "only where there is one",
        )
        if (value := lists_usable()) is not None:
            usable.add_metric([], value)
        yield usable


def standard_routes(
    readiness: Callable[[], str | None], registry: CollectorRegistry = REGISTRY
) -> list[web.AbstractRouteDef]:
    """/healthz: the process answers. /readyz: 503 with the reason while `readiness` gives one. /metrics: Prometheus."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = readiness()
        return web.Response(text="ready\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    async def metrics(request: web.Request) -> web.Response:
        encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        # Registering in `registry` itself would be for ever, and twice where a process has two services (in tests).
        everything = CollectorRegistry()
        everything.register(_Both(CommonMetrics(readiness), registry))
        return web.Response(body=encoder(everything), headers={"Content-Type": content_type})

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]


class _Both(Collector):
    def __init__(self, *sources: Collector | CollectorRegistry) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Nothing: so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Of all sources."""
        for source in self._sources:
            yield from source.collect()


class AdminServer:
    """An aiohttp server on its own port. `readiness` returns None when the service is ready, else why it is not."""

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
    ) -> None:
        """`port` 0: any free one. `setting`: the name of the port's setting, for the words of errors.

        `listener`: listens already, in place of `host` and `port`; the server closes it.
        """
        self._host = host
        self._wanted_port = port
        self._setting = setting
        self._listener = listener
        self._routes = [*standard_routes(readiness, registry), *routes]
        self._runner: web.AppRunner | None = None
        self.port = 0
        """The actual one, after start()."""

    async def start(self) -> None:
        """Opens the port. Raises ListenError."""
        app = web.Application(middlewares=[json_errors])
        app.add_routes(self._routes)
        self._runner = await listen(app, self._host, self._wanted_port, setting=self._setting, listener=self._listener)
        self.port = bound_port(self._runner)

    async def stop(self) -> None:
        """Closes the port, after the answers under way. May be called twice, and before start()."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


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
    """The port that a runner with one site listens on."""
    port = runner.addresses[0][1]
    assert isinstance(port, int)
    return port


class AdminThread:
    """Runs an AdminServer in a thread of its own, for services whose main loop is not asyncio.

    Handlers run in that thread: what they read must be safe to read from there.
    """

    def __init__(self, server: AdminServer) -> None:
        """`server`: not started yet."""
        self._server = server
        self._thread = threading.Thread(target=self._run, name="admin-http", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._error: BaseException | None = None

    @property
    def port(self) -> int:
        """The actual one, after start()."""
        return self._server.port

    def start(self) -> None:
        """Returns when the port is open. Raises ListenError."""
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
            return  # the loop closed between the question and the call
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
