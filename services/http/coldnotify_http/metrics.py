"""Every metric of the HTTP service, by name."""

import math
from pathlib import Path

from coldnotify_kafka.room import room_of
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

# From what Kafka needs on the same machine to what the publish timeout allows.
_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OUTCOMES = ("published", "repeated", "altered", "stale", "rejected", "unknown")
ACKNOWLEDGED, REFUSED, INDETERMINATE = "acknowledged", "refused", "indeterminate"
CONFLICT = "conflict"
CLIENT_CHANGES = ("disconnect", "forget")
ABOVE_AGREEMENT = "above_agreement"
"""Refused because of the tenant's agreement: nothing is wrong with the service then."""


class Metrics:
    """The service's metrics in one registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.publishes = Counter(
            "coldnotify_http_publishes",
            "Objects that publishers asked to publish, by result.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (ACKNOWLEDGED, REFUSED, INDETERMINATE, ABOVE_AGREEMENT):
            self.publishes.labels(outcome)  # so that a rate is known before the first
        self.bad_requests = Counter(
            "coldnotify_http_bad_requests",
            "Requests refused because a field was invalid, or because they were too large or too slow.",
            registry=registry,
        )
        self.proxy_headers_malformed = Counter(
            "coldnotify_http_proxy_headers_malformed",
            "Connections from --balancers closed because they did not begin with a PROXY protocol header.",
            registry=registry,
        )
        self.publish_seconds = Histogram(
            "coldnotify_http_publish_seconds",
            "Time from the end of a request's body until Kafka has acknowledged all its objects.",
            buckets=_LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.outcomes = Counter(
            "coldnotify_http_outcomes",
            "Acknowledged objects for which the matcher was asked for the outcome, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.outcomes.labels(outcome)
        self.outcome_seconds = Histogram(
            "coldnotify_http_outcome_seconds",
            "Time from Kafka's acknowledgement until the matcher tells the outcome.",
            buckets=_LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.descriptions = Counter(
            "coldnotify_http_descriptions",
            "Descriptions of objects that publishers asked to change, by result.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (ACKNOWLEDGED, REFUSED, INDETERMINATE, CONFLICT, ABOVE_AGREEMENT):
            self.descriptions.labels(outcome)
        self.client_changes = Counter(
            "coldnotify_http_client_changes",
            "Clients that operators asked to disconnect or to forget, by result.",
            ["change", "outcome"],
            registry=registry,
        )
        for change in CLIENT_CHANGES:
            for outcome in (ACKNOWLEDGED, REFUSED, INDETERMINATE):
                self.client_changes.labels(change, outcome)
        self.disk_free = Gauge(
            "coldnotify_http_kafka_disk_free_bytes",
            "Free on the disk of --http-kafka-data; absent without it.",
            ["directory"],
            registry=registry,
        )
        self.disk_size = Gauge(
            "coldnotify_http_kafka_disk_size_bytes", "The size of that disk.", ["directory"], registry=registry
        )
        self.under_way = Gauge(
            "coldnotify_http_publishes_under_way", "Objects on their way to Kafka.", registry=registry
        )
        self.flow_limit = Gauge(
            "coldnotify_http_flow_limit",
            "Objects that may be on their way to Kafka at once; --http-flow moves it.",
            registry=registry,
        )
        self.flow_refused = Counter(
            "coldnotify_http_flow_refused",
            "Objects refused at once because as many were on their way to Kafka as may be.",
            registry=registry,
        )
        self.flow_acknowledged = Gauge(
            "coldnotify_http_flow_acknowledged_per_second",
            "Objects that Kafka acknowledged a second, in the last window that flow control measured.",
            registry=registry,
        )
        self.flow_wait = Gauge(
            "coldnotify_http_flow_wait_seconds",
            "Mean time until Kafka acknowledged an object, in that window.",
            registry=registry,
        )

    def watch_disk(self, directory: Path) -> None:
        """Shows from now on how full the disk of this directory is."""
        self.disk_free.labels(str(directory)).set_function(lambda: _room(directory)[0])
        self.disk_size.labels(str(directory)).set_function(lambda: _room(directory)[1])


def _room(directory: Path) -> tuple[float, float]:
    """Returns free and total bytes; NaN if the disk has no figures."""
    try:
        room = room_of(directory)
    except OSError:
        return math.nan, math.nan
    return room.free_bytes, room.whole_bytes


def before_anything() -> Metrics:
    """The metrics of a service that has done nothing: documents read all names off them."""
    return Metrics(CollectorRegistry())
