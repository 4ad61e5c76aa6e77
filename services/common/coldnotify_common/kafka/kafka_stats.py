"""Exports some statistics of librdkafka as metrics, for each Kafka client in this process.

librdkafka passes its statistics, as JSON, to the thread that polls the client. Without polling they would pile up: so
only producers and consumers, whose owners poll, have them, and no AdminClient.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

log = structlog.get_logger()

EVERY_MS = 5000
"""Interval of statistics, below the usual interval of scrapes; the statistics of one client are some ten KiB of
JSON."""
_FORGOTTEN_AFTER_S = 6 * EVERY_MS / 1000
"""A client without statistics for this time is closed, or nobody polls it."""
_US = 1e-6
_MS = 1e-3


class _Window(msgspec.Struct):
    avg: int = 0
    p99: int = 0


class _Broker(msgspec.Struct):
    nodeid: int = -1
    state: str = ""
    rx: int = 0
    txerrs: int = 0
    rxerrs: int = 0
    req_timeouts: int = 0
    disconnects: int = 0
    rtt: _Window = msgspec.field(default_factory=_Window)
    throttle: _Window = msgspec.field(default_factory=_Window)


class _Partition(msgspec.Struct):
    fetchq_cnt: int = 0
    app_offset: int = -1
    hi_offset: int = -1


class _Topic(msgspec.Struct):
    partitions: dict[str, _Partition] = {}


class _Group(msgspec.Struct):
    rebalance_cnt: int = 0


class _Statistics(msgspec.Struct):
    msg_cnt: int = 0
    msg_size: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    txmsgs: int = 0
    rxmsgs: int = 0
    brokers: dict[str, _Broker] = {}
    topics: dict[str, _Topic] = {}
    cgrp: _Group | None = None


_decode = msgspec.json.Decoder(_Statistics).decode

_CLIENT_COUNTERS: dict[str, tuple[str, Callable[[_Statistics], float]]] = {
    "sent_bytes": ("Bytes sent to Kafka", lambda s: s.tx_bytes),
    "received_bytes": ("Bytes received from Kafka", lambda s: s.rx_bytes),
    "sent_records": ("Records written to Kafka", lambda s: s.txmsgs),
    "received_records": ("Records read from Kafka", lambda s: s.rxmsgs),
}
_CLIENT_GAUGES: dict[str, tuple[str, Callable[[_Statistics], float]]] = {
    # The nodes' own statistics do not show this: when all are away, librdkafka drops them and tries the bootstrap
    # servers.
    "connected": (
        "1 while this Kafka client is connected to any Kafka node",
        lambda s: any(broker.state == "UP" for broker in s.brokers.values()),
    ),
    "waiting_records": ("Records waiting to be sent to Kafka or for its acknowledgement", lambda s: s.msg_cnt),
    "waiting_bytes": (
        "Bytes of the records waiting to be sent to Kafka or for its acknowledgement",
        lambda s: s.msg_size,
    ),
    "fetched_records": (
        "Fetched records that the service has not taken yet",
        lambda s: sum(max(0, p.fetchq_cnt) for topic in s.topics.values() for p in topic.partitions.values()),
    ),
}
_BROKER_COUNTERS: dict[str, tuple[str, Callable[[_Broker], float]]] = {
    "send_errors": ("Requests that could not be sent to this broker", lambda b: b.txerrs),
    "receive_errors": ("Errors while receiving from this broker", lambda b: b.rxerrs),
    "request_timeouts": ("Requests that this broker did not answer in time", lambda b: b.req_timeouts),
    "disconnects": ("Number of times the connection to this broker ended", lambda b: b.disconnects),
}
_BROKER_GAUGES: dict[str, tuple[str, Callable[[_Broker], float]]] = {
    "up": ("1 while this broker is connected", lambda b: b.state == "UP"),
    "round_trip_seconds": (
        "Mean time until this broker's answer over the last 5 s; a consumer's includes the time it waits for records",
        lambda b: b.rtt.avg * _US,
    ),
    "round_trip_p99_seconds": (
        "99th percentile of the time until this broker's answer over the last 5 s",
        lambda b: b.rtt.p99 * _US,
    ),
    "throttle_seconds": (
        "Mean time for which this broker throttled the client over the last 5 s",
        lambda b: b.throttle.avg * _MS,
    ),
}
_CLIENT, _BROKER, _TOPIC = "kafka_client", "broker", "topic"


class KafkaStatistics(Collector):
    """The last statistics of each client. The clients' threads write them, and scrapes read them."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._last: dict[str, tuple[float, _Statistics]] = {}
        self.heard_s = float("-inf")
        """When statistics showed last that Kafka had answered any of the clients, by the clock."""

    def options(self, client: str, client_id: str) -> dict[str, Any]:
        """Returns options for a polled Producer or Consumer. `client`: its purpose, and its name in labels and logs.

        `client_id`: its name in Kafka. A later client of the same name replaces the former one.
        """

        answered: dict[str, int] = {}

        def take(text: str) -> None:
            try:
                statistics = _decode(text)
                now_s = self._clock_s()
                answers = {name: broker.rx for name, broker in statistics.brokers.items()}
                if any(count > answered.get(name, 0) for name, count in answers.items()):
                    self.heard_s = now_s
                answered.clear()
                answered.update(answers)
                self._last[client] = now_s, statistics
            except msgspec.DecodeError as error:
                # An exception would end the thread that polls.
                log.warning("Kafka client's statistics not understood", kafka_client=client, error=str(error))

        return {"client.id": client_id, "statistics.interval.ms": EVERY_MS, "stats_cb": take}

    def describe(self) -> Iterable[Metric]:
        """Yields all metrics without values."""
        return self._metrics([])

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics with the values of the last statistics."""
        since_s = self._clock_s() - _FORGOTTEN_AFTER_S
        return self._metrics([(name, last) for name, (at_s, last) in sorted(self._last.items()) if at_s >= since_s])

    def _metrics(self, clients: list[tuple[str, _Statistics]]) -> Iterator[Metric]:
        for name, (words, count) in _CLIENT_COUNTERS.items():
            counter = CounterMetricFamily(f"coldnotify_kafka_{name}", words, labels=[_CLIENT])
            for client, last in clients:
                counter.add_metric([client], count(last))
            yield counter
        for name, (words, measure) in _CLIENT_GAUGES.items():
            gauge = GaugeMetricFamily(f"coldnotify_kafka_{name}", words, labels=[_CLIENT])
            for client, last in clients:
                gauge.add_metric([client], measure(last))
            yield gauge
        yield _lag(clients)
        words = "Rebalances of this client's consumer group"
        rebalances = CounterMetricFamily("coldnotify_kafka_rebalances", words, labels=[_CLIENT])
        for client, last in clients:
            if last.cgrp is not None:
                rebalances.add_metric([client], last.cgrp.rebalance_cnt)
        yield rebalances
        yield from _of_brokers(clients)


def _lag(clients: list[tuple[str, _Statistics]]) -> Metric:
    words = "Offsets that a consumer has not taken yet, sum of its partitions of the topic"
    lag = GaugeMetricFamily("coldnotify_kafka_lag_records", words, labels=[_CLIENT, _TOPIC])
    for client, last in clients:
        for topic, seen in sorted(last.topics.items()):
            read = [p for p in seen.partitions.values() if p.app_offset >= 0 and p.hi_offset >= 0]
            if read:
                lag.add_metric([client, topic], sum(max(0, p.hi_offset - p.app_offset) for p in read))
    return lag


def _of_brokers(clients: list[tuple[str, _Statistics]]) -> Iterator[Metric]:
    # The group's coordinator has an entry of its own besides that of its node.
    brokers: list[tuple[str, str, list[_Broker]]] = []
    for client, last in clients:
        by_node: dict[int, list[_Broker]] = {}
        for broker in last.brokers.values():
            if broker.nodeid >= 0:
                by_node.setdefault(broker.nodeid, []).append(broker)
        brokers += [(client, str(node), entries) for node, entries in sorted(by_node.items())]
    for name, (words, count) in _BROKER_COUNTERS.items():
        counter = CounterMetricFamily(f"coldnotify_kafka_broker_{name}", words, labels=[_CLIENT, _BROKER])
        for client, node, entries in brokers:
            counter.add_metric([client, node], sum(map(count, entries)))
        yield counter
    for name, (words, measure) in _BROKER_GAUGES.items():
        gauge = GaugeMetricFamily(f"coldnotify_kafka_broker_{name}", words, labels=[_CLIENT, _BROKER])
        for client, node, entries in brokers:
            gauge.add_metric([client, node], max(map(measure, entries)))
        yield gauge


STATISTICS = KafkaStatistics()
"""The statistics of this process; every service's /metrics includes them."""
