"""Every metric of `coldnotify auto`."""

from prometheus_client import Counter, Gauge

PUBLISHED = Counter("coldnotify_auto_published_total", "Versions and messages that Kafka acknowledged", ("source",))
SET_ASIDE = Counter(
    "coldnotify_auto_set_aside_total",
    "Rows, files and answers that could not be mapped, or that Kafka refused for good. The log has their positions",
    ("source",),
)
LAG = Gauge(
    "coldnotify_auto_lag_seconds",
    "Age of the oldest change of a source that is not acknowledged by Kafka; while the source cannot be reached, the "
    "time since it could",
    ("source",),
)
RETAINED = Gauge(
    "coldnotify_auto_slot_retained_bytes", "Bytes of log that a database keeps for a source's slot", ("source",)
)
