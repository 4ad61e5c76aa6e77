"""Every metric of the HTTP service, by name."""

import math
from pathlib import Path

from coldnotify_kafka.room import room_of
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

# From what Kafka needs on the same machine to what the publish timeout allows.
_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OUTCOMES = ("published", "repeated", "altered", "stale", "rejected", "refused", "unknown")
ACKNOWLEDGED, REFUSED, INDETERMINATE = "acknowledged", "refused", "indeterminate"
CONFLICT = "conflict"
ABOVE_AGREEMENT = "above_agreement"
"""Refused because of the tenant's agreement: nothing is wrong with the service then."""
_TRIED = (ACKNOWLEDGED, REFUSED, INDETERMINATE)
DESCRIPTION = "description"
FORGET_SHARE = "forget_share"
CHANGES = {
    DESCRIPTION: (*_TRIED, CONFLICT, ABOVE_AGREEMENT),
    "disconnect": _TRIED,
    "forget": _TRIED,
    FORGET_SHARE: _TRIED,
}
"""Changes other than publishes, each with its outcomes."""


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
            "Requests refused because a field was invalid, or because they were too large or too slow; and connections "
            "from --balancers that did not begin with a PROXY protocol header.",
            registry=registry,
        )
        self.publish_seconds = Histogram(
            "coldnotify_http_publish_seconds",
            "Time from the end of a request's body until Kafka has acknowledged all its objects.",
            buckets=_LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.outcome_seconds = Histogram(
            "coldnotify_http_outcome_seconds",
            "Time from Kafka's acknowledgement of an object until the matcher tells its outcome, by outcome; its "
            "`_count` is the number of objects.",
            ["outcome"],
            buckets=_LATENCY_BUCKETS_S,
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.outcome_seconds.labels(outcome)
        self.changes = Counter(
            "coldnotify_http_changes",
            "Changes other than publishes, by result: of an object's description, a client, a share.",
            ["change", "outcome"],
            registry=registry,
        )
        for change, outcomes in CHANGES.items():
            for outcome in outcomes:
                self.changes.labels(change, outcome)
        self.disk_free_ratio = Gauge(
            "coldnotify_http_kafka_disk_free_ratio",
            "Free part of the disk of --http-kafka-data; absent without it.",
            ["directory"],
            registry=registry,
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
            "Objects refused at once because the limit of objects on their way to Kafka was reached.",
            registry=registry,
        )

    def watch_disk(self, directory: Path) -> None:
        """Shows from now on how full the disk of this directory is."""
        self.disk_free_ratio.labels(str(directory)).set_function(lambda: _free_ratio(directory))


def _free_ratio(directory: Path) -> float:
    """Returns the free part of the disk; NaN if the disk has no figures."""
    try:
        room = room_of(directory)
    except OSError:
        return math.nan
    return room.free_bytes / room.whole_bytes if room.whole_bytes else math.nan


def before_anything() -> Metrics:
    """The metrics of a service that has done nothing: documents read all names off them."""
    return Metrics(CollectorRegistry())
