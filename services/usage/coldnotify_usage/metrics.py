"""Every metric of the usage job."""

from prometheus_client import Counter, Gauge

RECORDS = Counter("coldnotify_usage_records_total", "Records of the usage topic that were read, repetitions included")
SET_ASIDE = Counter(
    "coldnotify_usage_set_aside_total",
    "Records of the usage topic, or tenants in them, that could not be counted: record (not understood), partition "
    "(the tenant belongs to another one), room (--usage-counters-max); state: of the topic of the job's own state",
    ("reason",),
)
for _reason in ("record", "partition", "room", "state"):
    SET_ASIDE.labels(_reason)  # so that a rate is known before the first
AGREEMENTS_SET_ASIDE = Counter(
    "coldnotify_usage_agreements_set_aside_total", "Records of the tenants topic that could not be understood"
)
STORED = Counter("coldnotify_usage_counters_stored_total", "Counters written to the topic of the job's state")
VERDICTS = Counter("coldnotify_usage_verdicts_total", "Verdicts written")
HISTORY = Counter("coldnotify_usage_history_records_total", "Counts of hours and days written")
EXCEEDED = Counter(
    "coldnotify_usage_exceeded_total", "Verdicts that say that a tenant is above its agreement, by limit", ("limit",)
)
TAKEOVERS = Counter("coldnotify_usage_takeovers_total", "Times that the partitions were divided anew among the workers")
GONE_BACK = Counter(
    "coldnotify_usage_gone_back_total", "Times that a record came too early, and those before it were read once more"
)
PARTITIONS = Gauge("coldnotify_usage_partitions", "Partitions of the usage topic that this worker has")
TENANTS = Gauge("coldnotify_usage_tenants", "Tenants in these partitions of whom something is counted")
COUNTERS = Gauge(
    "coldnotify_usage_counters", "Counters in memory, one for each tenant, node and start of the node in the last day"
)
LAG_RECORDS = Gauge("coldnotify_usage_lag_records", "Records of the usage topic that wait to be read by this worker")
LAG_SECONDS = Gauge(
    "coldnotify_usage_lag_seconds", "How old the record read last was, in the partition in which it was the oldest"
)
