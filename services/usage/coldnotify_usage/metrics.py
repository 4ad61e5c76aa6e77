"""Every metric of the usage job."""

from prometheus_client import Counter, Gauge

EVENTS = Counter(
    "coldnotify_usage_events_total",
    "Events of the job: record (of the usage topic read, repetitions included), takeover (the partitions were "
    "divided among the workers again), gone_back (a record came too early, and those before it were read again)",
    ("event",),
)
RECORD, TAKEOVER, GONE_BACK = "record", "takeover", "gone_back"
for _event in (RECORD, TAKEOVER, GONE_BACK):
    EVENTS.labels(_event)  # so that a rate is known before the first
SET_ASIDE = Counter(
    "coldnotify_usage_set_aside_total",
    "Records of the usage topic, or tenants in them, that could not be counted: record (not understood), partition "
    "(the tenant belongs to another one), room (200,000 counters in memory); state: of the topic of the job's "
    "own state; agreement: of the tenants topic",
    ("reason",),
)
for _reason in ("record", "partition", "room", "state", "agreement"):
    SET_ASIDE.labels(_reason)
PARTITIONS = Gauge("coldnotify_usage_partitions", "Partitions of the usage topic that this worker has")
COUNTERS = Gauge(
    "coldnotify_usage_counters", "Counters in memory, one for each tenant, node and start of the node in the last day"
)
LAG_RECORDS = Gauge("coldnotify_usage_lag_records", "Records of the usage topic that wait to be read by this worker")
LAG_SECONDS = Gauge(
    "coldnotify_usage_lag_seconds", "Age of the record read last, in the partition where it was the oldest"
)
