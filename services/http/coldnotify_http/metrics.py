"""Every metric of the HTTP service, by name."""

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

# From what Kafka needs on the same machine to what the publish timeout allows.
_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OUTCOMES = ("published", "repeated", "altered", "stale", "rejected", "unknown")
ACKNOWLEDGED, REFUSED, INDETERMINATE = "acknowledged", "refused", "indeterminate"
CONFLICT = "conflict"


class Metrics:
    """The service's metrics in one registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.publishes = Counter(
            "coldnotify_http_publishes",
            "Objects that publishers asked to publish, by result.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (ACKNOWLEDGED, REFUSED, INDETERMINATE):
            self.publishes.labels(outcome)  # so that a rate is known before the first
        self.bad_requests = Counter(
            "coldnotify_http_bad_requests",
            "Requests refused because a field was invalid, or because they were too large or too slow.",
            registry=registry,
        )
        self.proxy_headers_malformed = Counter(
            "coldnotify_http_proxy_headers_malformed",
            "Connections from --http-proxies closed because they did not begin with a PROXY protocol header.",
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
        for outcome in (ACKNOWLEDGED, REFUSED, INDETERMINATE, CONFLICT):
            self.descriptions.labels(outcome)
        self.under_way = Gauge(
            "coldnotify_http_publishes_under_way", "Objects on their way to Kafka.", registry=registry
        )
