"""The gateway's metrics: all their names, read off the core when somebody asks."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Request
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from coldnotify_gateway.core import State
from coldnotify_gateway.service import Service

_COUNTERS = {
    "connections": ("coldnotify_gateway_connections", "Connections accepted."),
    "refused_connections": (
        "coldnotify_gateway_connections_refused",
        "Connections closed at once: too many.",
    ),
    "dropped_unidentified": (
        "coldnotify_gateway_connections_dropped_unidentified",
        "Connections closed before their time to say Hello was over: too many had not said it.",
    ),
    "malformed_proxy_headers": (
        "coldnotify_gateway_proxy_headers_malformed",
        "Connections from --gateway-proxies that did not begin with a PROXY protocol header, and were closed.",
    ),
    "received_bytes": ("coldnotify_gateway_received_bytes", "Bytes from clients."),
    "sent_bytes": ("coldnotify_gateway_sent_bytes", "Bytes to clients."),
    "fan_outs": ("coldnotify_gateway_fan_outs", "Publishes, of which sessions here are told."),
    "deliveries": ("coldnotify_gateway_deliveries", "Live notifications written, one for each session."),
    "live_dropped": (
        "coldnotify_gateway_live_dropped",
        "Live notifications not written: the session catches up and gets them then, or it is gone.",
    ),
    "pages": ("coldnotify_gateway_pages", "Pages of what was missing, written to sessions."),
    "slow_phases": ("coldnotify_gateway_slow_phases", "Times that a session's connection was full."),
    "gaps": ("coldnotify_gateway_gaps", "Times that inbox records were missed."),
    "announcements": (
        "coldnotify_gateway_announcements",
        "Sessions announced anew: the matcher lost sight of them.",
    ),
    "asked_again": ("coldnotify_gateway_asked_again", "Askings repeated because no answer came."),
    "stale_answers": ("coldnotify_gateway_stale_answers", "Answers to askings that are not the latest."),
    "stale_records": (
        "coldnotify_gateway_inbox_stale_records",
        "Inbox records of a matcher that has a successor.",
    ),
    "malformed_records": (
        "coldnotify_gateway_inbox_malformed_records",
        "Inbox records that could not be understood, or raised an exception: set aside, to coldnotify.rejected.",
    ),
    "requests_dropped": (
        "coldnotify_gateway_requests_dropped",
        "Requests of clients that had too many unanswered ones, or sent too many parts of their sets.",
    ),
}
_FOREIGN = ("coldnotify_gateway_inbox_foreign_records", "Inbox records of other gateways that share the inbox.")
_HELLOS = ("coldnotify_gateway_hellos", "Sessions begun, by whether the client says that it was here before.")
_CLOSES = ("coldnotify_gateway_closes", "Sessions ended by the service, by code.")
_REQUESTS = ("coldnotify_gateway_requests", "Requests to the matcher, by kind.")
_REQUESTS_FAILED = ("coldnotify_gateway_requests_failed", "Requests that Kafka did not take, by kind.")
_SESSIONS = ("coldnotify_gateway_sessions", "Sessions now, by state.")
_OPEN = ("coldnotify_gateway_connections_open", "Connections now, also of clients that said no Hello yet.")
_UNIDENTIFIED = ("coldnotify_gateway_connections_unidentified", "Connections now that have not said Hello.")
_BUFFERED = ("coldnotify_gateway_buffered_bytes", "Bytes that wait to be written, of all connections together.")
_CUT_OFF = ("coldnotify_gateway_connections_cut_off", "Connections cut off to bound the sockets or bytes that wait.")
_LATENCY = (
    "coldnotify_gateway_delivery_seconds",
    "From the timestamp of a publish's record until its live notification was written to the device's socket. What "
    "devices learn in pages, waking, is not in it. It is as good as the publishers' clocks.",
)
_AWAY = ("coldnotify_gateway_matchers_away", "Partitions with sessions here whose matcher does not answer.")


_KINDS = [field.name for field in Request.DESCRIPTOR.oneofs_by_name["body"].fields]
"""Also those that did not occur yet are shown: a rate that begins with the first one would not see it."""


class Running(Protocol):
    """Where the present run is found."""

    service: Service | None


class GatewayCollector(Collector):
    """Reads the metrics off the run that is on. Another run begins at 0, as after a restart."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def describe(self) -> Iterable[Metric]:
        """Nothing: so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
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
        states = Counter(session.state for session in gateway.sessions())
        sessions = GaugeMetricFamily(*_SESSIONS, labels=["state"])
        for state in State:
            sessions.add_metric([state.name.lower()], states[state])
        yield sessions
        yield GaugeMetricFamily(*_OPEN, value=gateway.connection_count)
        yield GaugeMetricFamily(*_UNIDENTIFIED, value=gateway.unidentified_count)
        yield GaugeMetricFamily(*_BUFFERED, value=service.buffered_bytes)
        yield CounterMetricFamily(*_CUT_OFF, value=service.cut_off)
        yield GaugeMetricFamily(*_AWAY, value=gateway.matchers_away(service.now_s()))
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
