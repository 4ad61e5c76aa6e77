"""The gateway as a process: its ports, and one run after the other."""

import asyncio
from collections.abc import Callable
from contextlib import closing

import structlog
import uvloop
from coldnotify_common.admin import AdminServer
from coldnotify_common.authentication import Authenticator
from coldnotify_common.errors import ServiceError
from coldnotify_common.log import configure
from coldnotify_common.stop import stop_event
from coldnotify_common.tls import ServerTls
from coldnotify_common.tracing import tracer_of
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from coldnotify_gateway.errors import Reload
from coldnotify_gateway.looking_in import routes
from coldnotify_gateway.metrics import GatewayCollector
from coldnotify_gateway.server import Port
from coldnotify_gateway.service import Service
from coldnotify_gateway.settings import (
    GATEWAY_HTTP_PORT_SETTING,
    GATEWAY_PORT_SETTING,
    GATEWAY_WEB_PORT_SETTING,
    GatewaySettings,
)

log = structlog.get_logger()

_BETWEEN_RUNS_S = 0.5
"""Topics that are being made anew need a moment, and a run that fails at once must not spin."""


class Current:
    """The run that is on, for those who look in."""

    def __init__(self) -> None:
        self.service: Service | None = None

    def readiness(self) -> str | None:
        """None when ready, else why not."""
        return "starting" if self.service is None else self.service.readiness()


def run(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: a port cannot be opened."""
    configure(settings.log_format, settings.log_level, "gateway")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(settings))


async def serve(settings: GatewaySettings) -> int:
    """What `run` does, in a running event loop of the main thread. Returns the exit code. Raises SettingError."""
    authenticator, tls = Authenticator(settings), ServerTls(settings)
    tracer = tracer_of(settings, "gateway")
    settings.addresses_exempt()  # what is wrong with it is said now, not when Kafka is there
    authenticator.announce(GATEWAY_PORT_SETTING, tls=tls.on)
    current = Current()
    registry = CollectorRegistry()
    registry.register(GatewayCollector(current))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    admin = AdminServer(
        settings.gateway_http_host,
        settings.gateway_http_port,
        readiness=current.readiness,
        routes=routes(current),
        registry=registry,
        setting=GATEWAY_HTTP_PORT_SETTING,
    )
    with stop_event() as stop, tls.reloaded_by_signal():
        try:
            with (
                closing(Port(settings, settings.gateway_port, GATEWAY_PORT_SETTING)) as port,
                closing(Port(settings, settings.gateway_web_port, GATEWAY_WEB_PORT_SETTING)) as web_port,
            ):
                await admin.start()
                log.info(
                    "gateway started",
                    port=port.port,
                    web_port=web_port.port,
                    http_port=admin.port,
                    kafka=settings.kafka,
                )
                await _run_after_run(
                    lambda: Service(settings, port, web_port, authenticator, tls, tracer), current, stop
                )
        except ServiceError as error:
            log.error("cannot start", error=str(error))
            return 1
        finally:
            await admin.stop()
            if tracer is not None:
                tracer.close()
    log.info("gateway stopped")
    return 0


async def _run_after_run(make: Callable[[], Service], current: Current, stop: asyncio.Event) -> None:
    while not stop.is_set():
        current.service = make()
        try:
            await current.service.run(stop)
        except Reload:
            await asyncio.sleep(_BETWEEN_RUNS_S)
        finally:
            current.service = None
