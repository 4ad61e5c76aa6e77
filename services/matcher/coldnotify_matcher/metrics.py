"""Every metric of the matcher."""

from coldnotify_schemas import topics
from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = ("published", "repeated", "altered", "stale")
"""Of publishes, as the engine's history names them; their events come with the domain."""
EVENTS = {
    "published": Counter("coldnotify_matcher_publishes_total", "Newer versions of objects taken in"),
    "repeated": Counter("coldnotify_matcher_publishes_repeated_total", "Records that repeat the newest version"),
    "altered": Counter(
        "coldnotify_matcher_publishes_altered_total",
        "Records with the newest version's number that say something else: clients that have it are not told",
    ),
    "conflated": Counter("coldnotify_matcher_publishes_conflated_total", "Publishes held back that a newer one outdid"),
    "stale": Counter("coldnotify_matcher_publishes_stale_total", "Records with a version below the newest"),
    "repaired": Counter("coldnotify_matcher_objects_repaired_total", "Newest versions written again"),
    "moved": Counter("coldnotify_matcher_records_moved_total", "Records moved from a wrong partition"),
    "rejected": Counter(
        "coldnotify_matcher_records_rejected_total",
        "Records that could not be understood, by what is wrong",
        ("field",),
    ),
    "deliveries": Counter("coldnotify_matcher_deliveries_total", "Sessions addressed by live notifications"),
    "opens": Counter("coldnotify_matcher_opens_total", "Sessions opened in sync"),
    "opens_not_in_sync": Counter("coldnotify_matcher_opens_not_in_sync_total", "Sessions that need a reg-sync"),
    "superseded_opens": Counter("coldnotify_matcher_opens_superseded_total", "Opens outdone by a later one at once"),
    "doubted": Counter(
        "coldnotify_matcher_sessions_doubted_total",
        "Sessions announced anew after a load, as their registrations were not those of their last record",
    ),
    "never_announced": Counter(
        "coldnotify_matcher_sessions_never_announced_total",
        "Sessions ended as their gateway, whose Beats disagreed for long, did not announce them",
    ),
    "syncs": Counter("coldnotify_matcher_syncs_total", "Whole registration sets taken in"),
    "half_sets_dropped": Counter(
        "coldnotify_matcher_half_sets_dropped_total", "Sets whose last chunk was not in, dropped to keep within bounds"
    ),
    "registered": Counter("coldnotify_matcher_registered_total", "Registrations added"),
    "unregistered": Counter("coldnotify_matcher_unregistered_total", "Registrations removed"),
    "forgotten": Counter("coldnotify_matcher_clients_forgotten_total", "Clients forgotten, not seen for too long"),
    "pages": Counter("coldnotify_matcher_pages_total", "Pages of what sessions lacked"),
    "paged": Counter("coldnotify_matcher_paged_total", "Objects in these pages"),
    "closed": Counter("coldnotify_matcher_closed_total", "Sessions told to close"),
    "silent_gateways": Counter("coldnotify_matcher_gateways_silent_total", "Gateways with sessions taken for dead"),
    "state_repaired": Counter("coldnotify_matcher_state_repaired_total", "State records written again"),
}
"""By the engine's name of the event."""
REJECTED_FIELDS = (
    "key", "domain", "group", "object", "record",
    "version", "incarnation", "source", "payload", "expires_at", "deleted",
)  # fmt: skip
UNKNOWN_FIELD = "unknown_field"
"""Instead of a name that the publisher made up: there is no end to those."""
for _field in (*REJECTED_FIELDS, UNKNOWN_FIELD):
    EVENTS["rejected"].labels(_field)  # so that a rate is known before the first

DOMAIN_PUBLISHES = Counter(
    "coldnotify_matcher_domain_publishes_total",
    "Records taken in by outcome, of each domain that has had a stale one; beyond 50 such domains, of all others "
    "together as (others)",
    ("domain", "outcome"),
)
DOMAINS_MAX = 50
"""So many domains have a row of their own: publishers choose their names, and there may be any number of them."""
OTHER_DOMAINS = "(others)"
"""No domain's name holds a parenthesis."""
_domains: set[str] = set()

TAKEOVER_SECONDS = Histogram(
    "coldnotify_matcher_takeover_seconds",
    "From assignment of a partition until it is served, by whether it was followed before or had to be loaded",
    ("state",),
    buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300),
)
for _state in ("followed", "loaded"):
    TAKEOVER_SECONDS.labels(_state)
STEP_SECONDS = Histogram(
    "coldnotify_matcher_step_seconds",
    "One step: engine, writes, answers",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
)
PARTITIONS_STANDBY = Gauge(
    "coldnotify_matcher_partitions_standby", "Partitions of other matchers that are followed and were read to their end"
)
CONFLATION_INTERVAL_SECONDS = Gauge(
    "coldnotify_matcher_conflation_interval_seconds",
    "How long publishes are held and merged now, by domain as the setting of conflation names it, the longest of all "
    "partitions that are served",
    ("domain",),
)
LAG_OBJECTS = Gauge(
    "coldnotify_matcher_lag_objects",
    "Offsets of the objects topic not handled yet, of each partition that is served; looked at every 5 s",
    ("partition",),
)
LAG_REQUESTS = Gauge(
    "coldnotify_matcher_lag_requests",
    "Offsets of the requests topic not handled yet, of each partition that is served; looked at every 5 s",
    ("partition",),
)
LAG_STANDBY = Gauge(
    "coldnotify_matcher_lag_standby",
    "Offsets of the compacted topics not read yet, of each partition that is only followed; looked at every 5 s",
    ("partition",),
)
PARTITIONS = Gauge("coldnotify_matcher_partitions", "Partitions that all matchers together are to serve")
PARTITIONS_OWNED = Gauge("coldnotify_matcher_partitions_owned", "Partitions served by this matcher")
RELOADS = Counter("coldnotify_matcher_reloads_total", "Times all state was dropped and loaded anew after a failure")


SET_ASIDE = Counter(
    "coldnotify_matcher_records_set_aside_total",
    "Records that the matcher goes on without and has written to coldnotify.rejected, by their topic and by why: "
    "not_understood, or raised (whatever handled it raised an exception). Of the objects topic only the latter",
    ("topic", "why"),
)
for _topic in (topics.OBJECTS, topics.REQUESTS, topics.REGISTRATIONS, topics.SESSIONS):
    for _why in ("not_understood", "raised"):
        SET_ASIDE.labels(_topic, _why)
PARTITION_RELOADS = Counter(
    "coldnotify_matcher_partition_reloads_total", "Times one partition was loaded anew for a record that was set aside"
)
PARTITIONS_WAITING = Gauge(
    "coldnotify_matcher_partitions_waiting",
    "Partitions of this matcher that cannot be served, and are tried again after a while",
)


def count(event: str, by: int) -> None:
    """`event`: the engine's name. With "rejected" comes the field, "rejected:key"; with an outcome the domain; with
    "set_aside" the topic and why, "set_aside:topic:why".
    """
    name, _, field = event.partition(":")
    if name == "set_aside":
        SET_ASIDE.labels(*field.split(":")).inc(by)
        return
    if not field or name in OUTCOMES:
        EVENTS[name].inc(by)
        if field and (row := _row_of(field, name)) is not None:
            DOMAIN_PUBLISHES.labels(row, name).inc(by)
        return
    EVENTS[name].labels(field if field in REJECTED_FIELDS else UNKNOWN_FIELD).inc(by)


def _row_of(domain: str, outcome: str) -> str | None:
    """The label under which a domain's publishes are counted; None: they are not."""
    if domain in _domains:
        return domain
    if len(_domains) >= DOMAINS_MAX:
        return OTHER_DOMAINS
    if outcome != "stale":
        return None
    _domains.add(domain)
    for one in OUTCOMES:
        DOMAIN_PUBLISHES.labels(domain, one)  # so that a share is known from the first on
    return domain
