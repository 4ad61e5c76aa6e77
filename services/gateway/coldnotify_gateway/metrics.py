"""The gateway's metrics, which are read from the core at each request for them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Protocol

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Request
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from coldnotify_gateway.core import Gateway, Limits, SessionState
from coldnotify_gateway.latency import Latency
from coldnotify_gateway.service import GatewayService

_COUNTERS = {
    "connections": ("coldnotify_gateway_connections", "Connections accepted."),
    "refused_connections": (
        "coldnotify_gateway_connections_refused",
        "Connections closed at once, because too many were open.",
    ),
    "dropped_unidentified": (
        "coldnotify_gateway_connections_dropped_unidentified",
        "Connections closed before their time to send Hello was over, because too many had not sent it.",
    ),
    "malformed_proxy_headers": (
        "coldnotify_gateway_proxy_headers_malformed",
        "Connections from --balancers closed because they did not begin with a PROXY protocol header.",
    ),
    "syncs_by_frames": (
        "coldnotify_gateway_syncs_by_frames",
        "POST /v1/sync in its deprecated form, as frames: by clients of release 0.1.0 with an http(s):// address.",
    ),
    "received_bytes": ("coldnotify_gateway_received_bytes", "Bytes received from clients."),
    "sent_bytes": ("coldnotify_gateway_sent_bytes", "Bytes sent to clients."),
    "fan_outs": ("coldnotify_gateway_fan_outs", "Publishes fanned out to sessions of this gateway."),
    "deliveries": ("coldnotify_gateway_deliveries", "Live notifications written, one per session."),
    "live_dropped": (
        "coldnotify_gateway_live_dropped",
        "Live notifications not written, because the session is gone, or is catching up and gets them in a page.",
    ),
    "pages": ("coldnotify_gateway_pages", "Catch-up pages written to sessions."),
    "slow_phases": ("coldnotify_gateway_slow_phases", "Number of times a session's connection became slow."),
    "gaps": ("coldnotify_gateway_gaps", "Gaps in the inbox: number of times that records were missed."),
    "announcements": (
        "coldnotify_gateway_announcements",
        "Sessions announced again, because the matcher had lost them.",
    ),
    "asked_again": ("coldnotify_gateway_asked_again", "Questions to the matcher repeated because no answer came."),
    "stale_answers": ("coldnotify_gateway_stale_answers", "Answers to questions that are not the session's latest."),
    "stale_records": (
        "coldnotify_gateway_inbox_stale_records",
        "Inbox records of a matcher that another one has succeeded.",
    ),
    "malformed_records": (
        "coldnotify_gateway_inbox_malformed_records",
        "Inbox records that could not be understood or raised an exception, and were set aside to coldnotify.rejected.",
    ),
    "requests_dropped": (
        "coldnotify_gateway_requests_dropped",
        "Requests dropped because their client had too many unanswered ones, or sent too many chunks of its set.",
    ),
}
_FOREIGN = ("coldnotify_gateway_inbox_foreign_records", "Inbox records for other gateways that share the inbox.")
_HELLOS = ("coldnotify_gateway_hellos", "Sessions begun, by whether the client has a cursor of an earlier session.")
_CLOSES = ("coldnotify_gateway_closes", "Sessions ended by the service, by code.")
_REQUESTS = ("coldnotify_gateway_requests", "Requests sent to the matcher, by kind.")
_REQUESTS_FAILED = ("coldnotify_gateway_requests_failed", "Requests that Kafka did not accept, by kind.")
_PUBLISHES = (
    "coldnotify_gateway_publishes",
    "Publishes of clients on their sessions, by outcome; refused: may be tried again, rejected: may not.",
)
_SESSIONS = ("coldnotify_gateway_sessions", "Open sessions, by state.")
_OPEN = ("coldnotify_gateway_connections_open", "Open connections, including those that have not sent Hello.")
_UNIDENTIFIED = ("coldnotify_gateway_connections_unidentified", "Open connections that have not sent Hello.")
_BUFFERED = ("coldnotify_gateway_buffered_bytes", "Bytes waiting to be written, of all connections together.")
_CUT_OFF = (
    "coldnotify_gateway_connections_cut_off",
    "Connections cut off to limit lingering sockets or bytes waiting to be written.",
)
_LATENCY = (
    "coldnotify_gateway_delivery_seconds",
    "Time from the timestamp of a publish's record until its live notification is written to the device's "
    "socket. Pages, from which waking devices learn, are not included. The time is as good as the publishers' "
    "clocks.",
)
_AWAY = ("coldnotify_gateway_matchers_away", "Partitions with sessions on this gateway whose matcher does not answer.")
_STALE = (
    "coldnotify_gateway_sessions_stale",
    "Live sessions for which nothing proves that they were told all that was acknowledged 20 s ago.",
)


_KINDS = [field.name for field in Request.DESCRIPTOR.oneofs_by_name["body"].fields]
"""Kinds of requests. Kinds that did not occur yet are exported, too, because a rate would miss the first one
otherwise."""
_OUTCOMES = ["published", "refused", "rejected"]


class Running(Protocol):
    """An object that holds the current run."""

    service: GatewayService | None


class GatewayCollector(Collector):
    """Reads the metrics of the current run. Another run begins at 0, as after a restart."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def describe(self) -> Iterable[Metric]:
        """Returns no metrics, so that registering does not collect any."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics with their current values."""
        service = self._running.service
        if service is None or service.gateway is None:
            return
        gateway = service.gateway
        counters = gateway.counters
        for field, (name, words) in _COUNTERS.items():
            yield CounterMetricFamily(name, words, value=getattr(counters, field))
        in_reader = service.reader.foreign_records if service.reader is not None else 0
        yield CounterMetricFamily(*_FOREIGN, value=counters.foreign_records + in_reader)
        hellos = Counter({"new": counters.hellos_new, "returning": counters.hellos_returning})
        yield _labelled(_HELLOS, "client", hellos, [])
        closes = Counter({_close_name(c): n for c, n in counters.closes.items()})
        yield _labelled(_CLOSES, "code", closes, [code.name.lower() for code in CloseCode])
        yield _labelled(_REQUESTS, "kind", counters.requests, _KINDS)
        yield _labelled(_REQUESTS_FAILED, "kind", counters.failed_requests, _KINDS)
        yield _labelled(_PUBLISHES, "outcome", counters.publishes, _OUTCOMES)
        states = Counter(session.state for session in gateway.sessions())
        sessions = GaugeMetricFamily(*_SESSIONS, labels=["state"])
        for state in SessionState:
            sessions.add_metric([state.name.lower()], states[state])
        yield sessions
        yield GaugeMetricFamily(*_OPEN, value=gateway.connection_count)
        yield GaugeMetricFamily(*_UNIDENTIFIED, value=gateway.unidentified_count)
        yield GaugeMetricFamily(*_BUFFERED, value=service.buffered_bytes)
        yield CounterMetricFamily(*_CUT_OFF, value=service.cut_off)
        yield GaugeMetricFamily(*_AWAY, value=gateway.matchers_away(service.now_s()))
        yield GaugeMetricFamily(*_STALE, value=gateway.stale_sessions(service.now_s()))
        latency = service.latency
        yield HistogramMetricFamily(*_LATENCY, buckets=latency.buckets(), sum_value=latency.sum_s)


def _labelled(name_and_words: tuple[str, str], label: str, counts: Counter[str], values: Iterable[str]) -> Metric:
    family = CounterMetricFamily(*name_and_words, labels=[label])
    for value in sorted({*values, *counts}):
        family.add_metric([value], counts[value])
    return family


def _close_name(code: int) -> str:
    try:
        return CloseCode(code).name.lower()
    except ValueError:
        return "other"


def before_anything() -> GatewayCollector:
    """Returns the collector of an unused gateway, from which the documentation reads all names."""
    service: Any = SimpleNamespace(
        gateway=Gateway(1, 0, 1, Limits()),
        reader=None,
        now_s=lambda: 0.0,
        buffered_bytes=0,
        cut_off=0,
        latency=Latency(),
    )
    running: Any = SimpleNamespace(service=service)
    return GatewayCollector(running)
