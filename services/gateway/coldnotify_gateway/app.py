"""The gateway's process: opens its ports, and begins one run after the other.

Clients wait for a gateway that restarts. So its ports listen before anything else, and the HTTP server (aiohttp takes
as long as all the rest) is imported only after the first rush.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import structlog
import uvloop
from coldnotify_common.errors import ServiceError
from coldnotify_common.http.listening import first_rush, listening
from coldnotify_common.kafka.cut_off_nodes import watched_nodes
from coldnotify_common.log import configure
from coldnotify_common.nodes import DEVICE, INSIDE
from coldnotify_common.nodes_reader import NodesReader
from coldnotify_common.nodes_writer import NodePort, NodeState, NodeWriter
from coldnotify_common.security.authentication import Authenticator
from coldnotify_common.security.inside import Inside
from coldnotify_common.security.tls import ServerTls
from coldnotify_common.settings import Settings
from coldnotify_common.stop import stop_event
from coldnotify_common.tracing import tracer_of

from coldnotify_gateway.errors import Reload
from coldnotify_gateway.listeners.registry import LISTENERS, TCP
from coldnotify_gateway.neighbours import Neighbours
from coldnotify_gateway.publish_limits import PublishAgreements
from coldnotify_gateway.service import GatewayService
from coldnotify_gateway.settings import GATEWAY_HTTP_PORT_SETTING, GatewaySettings, peers_of

if TYPE_CHECKING:
    from coldnotify_common.http.admin import AdminServer

log = structlog.get_logger()

_EARLY_S = 2.0
"""Longest time that clients wait that connect before Kafka is available."""
_HTTP_AFTER_S = 1.5
"""Latest time at which the HTTP port is served, even if devices are not served yet."""
_BETWEEN_RUNS_S = 0.5
"""Pause between runs, because recreated topics need a moment, and a run that fails at once must not spin."""


class CurrentRun:
    """The current run, for the HTTP port."""

    def __init__(self, payload_bytes_max: int) -> None:
        self.service: GatewayService | None = None
        self._payload_bytes_max = payload_bytes_max

    def readiness(self) -> str | None:
        """Returns None if ready, else the reason."""
        return "starting" if self.service is None else self.service.readiness()

    def node_state(self, ports: Mapping[str, NodePort]) -> NodeState:
        """Returns the state for the gateway's record in the nodes topic. Any thread may call it."""
        service = self.service
        core = service.gateway if service is not None else None
        return NodeState(
            ready=self.readiness() is None,
            ports=ports,
            connections=core.connection_count if core is not None else 0,
            limit=core.limits.connections_max if core is not None else 0,
            home=core.home_count if core is not None else 0,
            payload_bytes_max=self._payload_bytes_max,
            kafka_heard_s=service.kafka_heard_s if service is not None else None,
        )


def run(settings: GatewaySettings, others: Sequence[Settings] = ()) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code: 0: stopped in order; 1: a port cannot be opened.

    `others`: listeners' own settings; a listener without any gets its defaults.
    """
    configure(settings.log_format, settings.log_level, "gateway")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(settings, others))


async def serve(settings: GatewaySettings, others: Sequence[Settings] = ()) -> int:
    """Serves like `run`, in a running event loop of the main thread. Returns the exit code. Raises SettingError."""
    authenticator, tls = Authenticator(settings), ServerTls(settings)
    tracer = tracer_of(settings, "gateway")
    agreements = PublishAgreements(settings)
    settings.without_limit()  # raises errors now, not once Kafka is available
    authenticator.announce(TCP.setting, tls=tls.on)
    inside = Inside(settings)
    inside.announce(GATEWAY_HTTP_PORT_SETTING, settings.gateway_http_host)
    current = CurrentRun(settings.object_payload_bytes_max)
    http: asyncio.Task[AdminServer] | None = None
    ports: dict[str, NodePort] = {}
    node = NodeWriter(settings, "gateway", secrets.token_hex(8), lambda: current.node_state(ports))
    nodes = NodesReader(settings)
    neighbours = Neighbours(nodes, node.key.id, peers_of(settings.gateway_peers))
    with stop_event() as stop, tls.reloaded_by_signal(), watched_nodes(settings):
        try:
            with ExitStack() as opened:
                listeners = {row: opened.enter_context(closing(row.make(settings, others))) for row in LISTENERS}
                http_port = opened.enter_context(
                    closing(
                        listening(
                            settings.gateway_http_host, settings.gateway_http_port, setting=GATEWAY_HTTP_PORT_SETTING
                        )
                    )
                )
                for listener in listeners.values():
                    listener.listen_early()
                    asyncio.get_running_loop().call_later(_EARLY_S, listener.end_early)
                http = asyncio.create_task(
                    _serve_http(current, http_port, settings.gateway_http_host, inside, agreements)
                )
                for row, listener in listeners.items():
                    name = DEVICE if row is TCP else row.name
                    tls_here = tls.on and row is not TCP  # who connects by TCP knows by itself whether TLS is on
                    ports[name] = NodePort(host=settings.gateway_host, port=listener.port, tls=tls_here)
                ports[INSIDE] = NodePort(host=settings.gateway_http_host, port=http_port.getsockname()[1])
                node.start()
                nodes.start()
                log.info(
                    "gateway started",
                    **{row.port_key: listener.port for row, listener in listeners.items()},
                    http_port=http_port.getsockname()[1],
                    kafka=settings.kafka,
                )
                http.add_done_callback(lambda ended: None if _serves(ended) else stop.set())
                await _run_after_run(
                    lambda: GatewayService(
                        settings, listeners, authenticator, tls, tracer, agreements, inside, neighbours
                    ),
                    current,
                    stop,
                )
                if http.done():
                    http.result()  # raises its error if that has stopped the process
        except ServiceError as error:
            log.error("cannot start", error=str(error))
            return 1
        finally:
            if http is not None:
                http.cancel()
                await asyncio.wait({http})
                if _serves(http):
                    await http.result().stop()
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(nodes.stop)
            await asyncio.to_thread(agreements.stop)
            if tracer is not None:
                tracer.close()
    log.info("gateway stopped")
    return 0


async def _serve_http(
    current: CurrentRun, listener: socket.socket, host: str, inside: Inside, agreements: PublishAgreements
) -> "AdminServer":
    """Serves the HTTP port after the first rush. `listener` listens on `host`."""
    for wait_s in first_rush(current.readiness, _HTTP_AFTER_S):
        await asyncio.sleep(wait_s)
    from coldnotify_common.http.admin import AdminServer
    from coldnotify_common.tenancy.tenancy_metrics import TenancyCollector
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

    from coldnotify_gateway.metrics import GatewayCollector
    from coldnotify_gateway.session_endpoints import routes

    registry = CollectorRegistry()
    registry.register(GatewayCollector(current))
    registry.register(TenancyCollector(agreements.tenancy))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    admin = AdminServer(
        host,
        listener.getsockname()[1],
        readiness=current.readiness,
        routes=routes(current),
        registry=registry,
        listener=listener,
        inside=inside,
        what="a gateway, which holds devices' connections; this port is for looking in",
        api="gateway",
    )
    await admin.start()
    return admin


def _serves(http: "asyncio.Task[AdminServer]") -> bool:
    """Returns true if the finished task has started the HTTP server."""
    return not http.cancelled() and http.exception() is None


async def _run_after_run(make: Callable[[], GatewayService], current: CurrentRun, stop: asyncio.Event) -> None:
    while not stop.is_set():
        current.service = make()
        try:
            await current.service.run(stop)
        except Reload:
            await asyncio.sleep(_BETWEEN_RUNS_S)
        finally:
            current.service = None
