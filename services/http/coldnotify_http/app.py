"""The HTTP service's process: opens the port, watches Kafka, stops in order."""

import asyncio
import secrets
import time
from contextlib import suppress
from pathlib import Path

import structlog
import uvloop
from aiohttp import web
from coldnotify.publisher import Publisher
from coldnotify_common.addresses import Among
from coldnotify_common.errors import ServiceError
from coldnotify_common.http import mqtt_websockets, openapi
from coldnotify_common.http.admin import standard_routes
from coldnotify_common.http.event_streams import come_back
from coldnotify_common.http.known_parameters import known_parameters
from coldnotify_common.http.listening import listening
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_auth import PROBES, authorized
from coldnotify_common.http.web_origins import ANY_HOST, asked_by_name, names_of, own_pages
from coldnotify_common.http.web_port import WebPort
from coldnotify_common.kafka.cut_off_nodes import watched_nodes
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicLooks
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.kafka.kafka_stats import STATISTICS
from coldnotify_common.log import configure
from coldnotify_common.memory import Ebb
from coldnotify_common.nodes import HTTP
from coldnotify_common.nodes_reader import NodesReader
from coldnotify_common.nodes_writer import NodePort, NodeState, NodeWriter
from coldnotify_common.placement.allowed_addresses import AllowedAddresses
from coldnotify_common.security.address_settings import HTTP_HOSTS_SETTING
from coldnotify_common.security.authentication import Authenticator
from coldnotify_common.security.inside_tls import InsideTls
from coldnotify_common.security.shares import Shares, share_of
from coldnotify_common.security.tls import ServerTls
from coldnotify_common.stop import stop_event
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_common.tenancy.tenancy_metrics import TenancyCollector
from coldnotify_common.tracing import tracer_of
from coldnotify_schemas.host_port import host_port
from coldnotify_schemas.protocol import HELLO_S
from prometheus_client import REGISTRY, CollectorRegistry

from coldnotify_http import console, ledger_endpoints
from coldnotify_http.atomic_endpoints import AtomicEndpoints
from coldnotify_http.client_changes import ClientChanges
from coldnotify_http.describing import DescribingEndpoints
from coldnotify_http.directory_endpoints import GATEWAY, DirectoryEndpoints
from coldnotify_http.entrance import BEYOND_MAX
from coldnotify_http.gateway_proxy import EVENTS, GatewayProxy
from coldnotify_http.history_endpoints import HistoryEndpoints
from coldnotify_http.hook_endpoints import HookEndpoints
from coldnotify_http.lists_endpoints import ListsEndpoints
from coldnotify_http.matchers_endpoints import MatchersEndpoints
from coldnotify_http.metrics import Metrics
from coldnotify_http.new_objects import NewObjects
from coldnotify_http.node_client import NodeClient
from coldnotify_http.nodes_endpoints import NodesEndpoints
from coldnotify_http.outcome_client import OutcomeClient
from coldnotify_http.overview_endpoints import HttpOverview
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.resetting import Resetting
from coldnotify_http.sending import Sending
from coldnotify_http.settings import HttpSettings
from coldnotify_http.tenant_endpoints import TenantEndpoints

log = structlog.get_logger()

_KAFKA_LOOK_INTERVAL_S = 2
"""How long /readyz may reuse its answer: each refresh is one small request to Kafka."""
_KAFKA_LOOK_TIMEOUT_S = 5
_PASSED_ON = ("/v1/connect", mqtt_websockets.PATH, "/v1/sync", EVENTS)
"""The gateway behind these paths authenticates clients itself, at the Hello or CONNECT, and knows which origins are
allowed."""
_OPEN_PATHS = (*PROBES, openapi.PATH, *console.OPEN_PATHS, *_PASSED_ON, GATEWAY)
_NAVIGABLE = (*PROBES, console.PAGE)
"""Links from other sites may lead there: Prometheus' pages link to its targets."""
_SILENT_S = float(HELLO_S)
"""Limit from a connection to the head of its first request, including TLS; the same as a gateway's for a Hello."""
_IDLE_S = 75.0
"""Between two requests of a connection: longer than proxies keep theirs, which is 60 s mostly, so they end it."""
_NODES_WAIT_S = 3.0
_TICK_S = 0.25
_STOP_MARGIN_S = 2
"""Beyond the publish timeout and the outcome's, for requests under way: to write the answer."""


class HttpService:
    """The service between start() and stop()."""

    def __init__(self, settings: HttpSettings, registry: CollectorRegistry = REGISTRY) -> None:
        """Raises SettingError."""
        self._settings = settings
        self._registry = registry
        self._publisher: Publisher | None = None
        settings.retentions()
        self._authenticator = Authenticator(settings)
        self.tls = ServerTls(settings)
        self._tracer = tracer_of(settings, "http")
        self._nodes = NodesReader(settings)
        self._node = NodeWriter(settings, "http", secrets.token_hex(8), self._look)
        self._asking = NodeClient(settings, nodes=self._nodes)
        self._outcomes = OutcomeClient(settings, self._nodes)
        self._changing = NodeClient(settings, nodes=self._nodes, timeout_s=settings.http_publish_timeout_s)
        self._overview = HttpOverview(self._asking, settings.http_overdue_s, self._authenticator.holds)
        self._passing_on = GatewayProxy(settings, self._nodes)
        self._tenancy = Tenancy(settings, "http")
        self.shares = Shares(
            share_of(self._passing_on.open_files.connections_max),
            exempt=settings.without_limit(),
        )
        """Connections by address."""
        self._port: WebPort | None = None
        self._ticks: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._not_ready: str | None = "Kafka was not asked yet"
        self._started_s = time.monotonic()
        self.port = 0
        """The actual one, after start()."""

    async def start(self) -> None:
        """Opens the port; does not wait for Kafka (/readyz does). Raises ServiceError."""
        settings = self._settings
        statistics = STATISTICS.options("publisher", settings.topics.group("publisher"))
        self._publisher = Publisher(
            settings.kafka,
            timeout_s=settings.http_publish_timeout_s,
            queue_max=settings.http_publishes_max + BEYOND_MAX,
            flow="fixed",  # one limit in this process is moved: the one that refuses
            # librdkafka says each failed try to connect at level 3, twice a second; _watch_kafka says it once.
            kafka_config={"log_level": 2, **read_options(settings.kafka_config), **statistics},
            channel_retentions=settings.channel_retentions,
            topics_prefix=settings.topics_prefix,
            object_payload_bytes_max=settings.object_payload_bytes_max,
        )
        metrics = Metrics(self._registry)
        if settings.http_kafka_data:
            metrics.watch_disk(Path(settings.http_kafka_data))
        self._registry.register(TenancyCollector(self._tenancy))
        self._tenancy.start()
        self._authenticator.announce("COLDNOTIFY_HTTP_PORT / --http-port", tls=self.tls.on)
        app = web.Application(
            middlewares=[
                come_back([EVENTS]),
                json_errors,
                asked_by_name(self._names(), HTTP_HOSTS_SETTING, passed_on=_PASSED_ON),
                own_pages(_PASSED_ON, navigable=_NAVIGABLE),
                authorized(self._authenticator, _OPEN_PATHS),
                known_parameters("http"),
            ],
            client_max_size=settings.http_body_bytes_max,
        )
        routes = self.routes(self._publisher, metrics)
        app.add_routes([*routes, openapi.route("the HTTP service", "http", routes)])
        files = self._passing_on.open_files
        self._port = WebPort(
            app,
            connections_max=files.connections_max,
            silent_max=files.silent_max,
            silent_s=_SILENT_S,
            idle_s=_IDLE_S,
            shutdown_timeout_s=settings.http_publish_timeout_s + settings.outcome_timeout_s + _STOP_MARGIN_S,
            tls=self.tls.context(required=False),
            hold=self.shares.take,
            release=self.shares.give_back,
            silent_of_address_max=share_of(files.silent_max),
            shared=self.shares.may_have_all,
            proxies=Among(settings.proxies()),
            on_malformed_header=metrics.bad_requests.inc,
        )
        await self._port.start(
            listening(settings.http_host, settings.http_port, setting="COLDNOTIFY_HTTP_PORT / --http-port")
        )
        self.port = self._port.port
        self._nodes.start()
        self._node.start()
        self._ticks = asyncio.create_task(self._tick())
        self._watch = asyncio.create_task(self._watch_kafka())

    async def stop(self) -> None:
        """Accepts nothing more, answers requests in progress (which the publish timeout limits), then closes the
        publisher.
        """
        self._not_ready = "stopping"
        for task in (self._watch, self._ticks):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._overview.stop()
        self._passing_on.stop()
        if self._port is not None:
            await self._port.stop()
        await self._passing_on.close()
        await self._asking.close()
        await self._outcomes.close()
        await self._changing.close()
        if self._publisher is not None:
            await self._publisher.aclose()
        await asyncio.to_thread(self._node.stop)
        await asyncio.to_thread(self._nodes.stop)
        await asyncio.to_thread(self._tenancy.stop)
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)

    def routes(self, publisher: Publisher, metrics: Metrics) -> list[web.AbstractRouteDef]:
        """Returns the routes of the port."""
        settings = self._settings
        new_objects = NewObjects(self._tenancy, self._asking, metrics)
        publishing = PublishEndpoints(
            publisher, settings, metrics, self._outcomes, self._tracer, self._tenancy, new_objects
        )
        bodies = publishing.bodies
        describing = DescribingEndpoints(self._asking, self._changing, metrics, bodies, admission=self._tenancy)
        return [
            *standard_routes(lambda: self._not_ready, self._registry),
            *publishing.routes(),
            *AtomicEndpoints(publisher, publishing, self._outcomes, metrics).routes(),
            *Sending(publisher, publishing.entrance, metrics, bodies).routes(),
            *self._outcomes.routes(),
            *describing.routes(),
            *HistoryEndpoints(self._asking, settings, payload_bytes_max=settings.object_payload_bytes_max).routes(),
            *Resetting(publishing, self._asking, metrics).routes(),
            *ClientChanges(self._changing, metrics, bodies).routes(),
            *ledger_endpoints.routes(self._asking),
            *MatchersEndpoints(self._asking, bodies).routes(),
            *DirectoryEndpoints(
                self._nodes, AllowedAddresses(settings.directory_addresses), self._authenticator
            ).routes(),
            *NodesEndpoints(self._nodes, inside_scheme=InsideTls(settings).scheme).routes(),
            *ListsEndpoints(self._asking, settings.http_overdue_s).routes(),
            *HookEndpoints(settings, bodies).routes(),
            *TenantEndpoints(self._tenancy, settings, bodies).routes(),
            *self._overview.routes(),
            *console.routes(),
            *self._passing_on.routes(),
        ]

    def _look(self) -> NodeState:
        """Returns the state for the record in the nodes topic; another thread calls it."""
        port = self._port
        return NodeState(
            ready=self._not_ready is None,
            ports={HTTP: NodePort(host=self._settings.http_host, port=self.port, tls=self.tls.on)},
            connections=port.connections if port is not None else 0,
            limit=self._passing_on.open_files.connections_max,
            payload_bytes_max=self._settings.object_payload_bytes_max,
        )

    @property
    def _nodes_not_ready(self) -> str | None:
        """The reason to wait, for a moment after the start, until a matcher is known: what is asked of this node then
        would be answered as if there were none."""
        if self._asking.matchers or time.monotonic() - self._started_s > _NODES_WAIT_S:
            return None
        return "no matcher is known yet"

    def _names(self) -> frozenset[str]:
        """Those by which the port may be asked. A proof is nothing that a page with another name could show."""
        settings = self._settings
        if settings.auth != "none" or self.tls.on:
            return frozenset([ANY_HOST])
        return names_of(settings.http_hosts, settings.http_host)

    async def _tick(self) -> None:
        assert self._port is not None
        port, ebb, loop = self._port, Ebb(), asyncio.get_running_loop()
        while True:
            port.tick()
            ebb.tick(port.connections, loop.time(), port.take_connection_peak())
            await asyncio.sleep(_TICK_S)

    async def _watch_kafka(self) -> None:
        looks = TopicLooks(self._settings)
        while True:
            reason: str | None = None
            say = log.warning
            try:
                await asyncio.to_thread(looks.describe, self._settings.topics.objects, _KAFKA_LOOK_TIMEOUT_S)
            except KafkaUnavailable as error:
                reason = str(error)
            interval_s: float = _KAFKA_LOOK_INTERVAL_S
            if reason is None and (reason := self._tenancy.not_ready or self._nodes_not_ready) is not None:
                interval_s = _TICK_S  # before that, nobody would be held to an agreement
                say = log.info  # each start begins so, for a fifth of a second: nobody is to look into that
            if reason != self._not_ready:
                if reason is None:
                    log.info("ready")
                else:
                    say("not ready", reason=reason)
            self._not_ready = reason
            await asyncio.sleep(interval_s)


async def _serve(settings: HttpSettings) -> None:
    service = HttpService(settings)
    with stop_event() as stop, service.tls.reloaded_by_signal():
        try:
            await service.start()
            log.info("listening", address=host_port(settings.http_host, service.port), kafka=settings.kafka)
            await stop.wait()
            log.info("stopping")
        finally:
            await service.stop()
    log.info("stopped")


def run(settings: HttpSettings) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code: 0 stopped in order, 1 could not serve."""
    configure(settings.log_format, settings.log_level, "http")
    try:
        with watched_nodes(settings), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except ServiceError as error:
        log.error(str(error))
        return 1
    return 0
