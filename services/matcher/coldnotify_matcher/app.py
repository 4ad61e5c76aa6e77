"""The matcher as a process: its worker, and the routes of its HTTP port."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog
from coldnotify_common.kafka.cut_off_nodes import watched_nodes
from coldnotify_common.log import configure
from coldnotify_common.nodes import INSIDE
from coldnotify_common.nodes_writer import NodePort, NodeState, NodeWriter
from coldnotify_common.security.inside import Inside
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_common.tenancy.tenancy_metrics import TenancyCollector
from coldnotify_common.tracing import tracer_of
from coldnotify_streams.job_clock import JobClock
from coldnotify_streams.job_process import CurrentWorker, JobPort, serve
from prometheus_client import REGISTRY

from coldnotify_matcher import metrics
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.watched_deaths import watched_deaths
from coldnotify_matcher.worker import MatcherWorker

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef

log = structlog.get_logger()

_PORT_SETTING = "COLDNOTIFY_MATCHER_PORT / --matcher-port"


def run(settings: MatcherSettings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; 0: stopped in order; 1: the HTTP port cannot be opened.

    Raises SettingError.
    """
    configure(settings.log_format, settings.log_level, settings.matcher_id)
    tracer = tracer_of(settings, "matcher", settings.matcher_id)
    tenancy = Tenancy(settings, "matcher")
    REGISTRY.register(TenancyCollector(tenancy))
    tenancy.start()
    clock = JobClock()
    try:
        inside = Inside(settings)
        code = serve(
            "matcher",
            settings.kafka,
            JobPort(host=settings.matcher_host, port=settings.matcher_port, setting=_PORT_SETTING),
            inside,
            what="a matcher, which matches publishes with registrations; this port is for looking in",
            api="matcher",
            make_worker=lambda stop: MatcherWorker(settings, stop, tracer, tenancy, clock),
            routes=lambda current: _routes(current, settings),
            on_reload=metrics.RELOADS.inc,
            beside=lambda current, port: _beside(settings, inside, current, port),
        )
    finally:
        tenancy.stop()
        if tracer is not None:
            tracer.close()
    log.info("matcher stopped")
    return code


@contextmanager
def _beside(
    settings: MatcherSettings, inside: Inside, current: CurrentWorker[MatcherWorker], port: int
) -> Iterator[None]:
    deaths = watched_deaths(settings, inside, current.readiness)
    with watched_nodes(settings), _node(settings, current, port), deaths:
        yield


def _node(settings: MatcherSettings, current: CurrentWorker[MatcherWorker], port: int) -> NodeWriter:
    """Returns the writer of this matcher's record. Raises SettingError."""
    ports = {INSIDE: NodePort(host=settings.matcher_host, port=port)}

    def look() -> NodeState:
        return NodeState(
            ready=current.readiness() is None, ports=ports, payload_bytes_max=settings.object_payload_bytes_max
        )

    return NodeWriter(settings, "matcher", settings.matcher_id, look)


def _routes(current: CurrentWorker[MatcherWorker], settings: MatcherSettings) -> "list[AbstractRouteDef]":
    from coldnotify_matcher.asked_writes import AskedWrites
    from coldnotify_matcher.looking import (
        channel_endpoints,
        description_endpoints,
        find_endpoints,
        ledger,
        list_endpoints,
        missing_endpoints,
        operating_endpoints,
        outcome_endpoints,
        overview,
        query_endpoints,
        removal_endpoints,
    )
    from coldnotify_matcher.looking.state_endpoints import routes

    writes = AskedWrites(settings)
    return [
        *ledger.routes(current),
        *description_endpoints.routes(current, writes),
        *missing_endpoints.routes(current),
        *operating_endpoints.routes(current, writes),
        *outcome_endpoints.routes(current),
        *overview.routes(current),
        *list_endpoints.routes(current),
        *find_endpoints.routes(current, writes),
        *query_endpoints.routes(current),
        *channel_endpoints.routes(current),
        *removal_endpoints.routes(current),
        *routes(current),
    ]
