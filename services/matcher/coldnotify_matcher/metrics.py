"""Every metric of the matcher."""

from coldnotify_schemas.topics import TopicNames
from prometheus_client import Counter, Gauge, Histogram

from coldnotify_matcher import channel_metrics

OUTCOMES = ("published", "repeated", "altered", "stale")
"""Outcomes of publishes, as the engine's history names them; their events come with the domain."""
EVENTS = {
    "published": Counter("coldnotify_matcher_publishes_total", "Records that brought a newer version of an object"),
    "repeated": Counter("coldnotify_matcher_publishes_repeated_total", "Records that repeat the newest version"),
    "altered": Counter(
        "coldnotify_matcher_publishes_altered_total",
        "Records with the newest version's number but other content, of which clients that have this version are "
        "not told",
    ),
    "conflated": Counter(
        "coldnotify_matcher_publishes_conflated_total", "Publishes held back and then replaced by a newer one"
    ),
    "urgent": Counter(
        "coldnotify_matcher_publishes_urgent_total",
        "Newer versions of high priority, which are held back by nothing and told also to sessions that are sent pages",
    ),
    "urgent_above_share": Counter(
        "coldnotify_matcher_publishes_urgent_above_share_total",
        "Newer versions that said they were of high priority and were told like all others, because their tenant has "
        "published more of these than its high_priority_share",
    ),
    "messages_urgent": Counter(
        "coldnotify_matcher_messages_urgent_total",
        "Messages of high priority, whose channels come before others",
    ),
    "messages_urgent_above_share": Counter(
        "coldnotify_matcher_messages_urgent_above_share_total",
        "Messages that said they were of high priority and were told like all others, because their tenant has "
        "published more of these than its high_priority_share",
    ),
    "stale": Counter("coldnotify_matcher_publishes_stale_total", "Records with a version below the newest"),
    "repaired": Counter(
        "coldnotify_matcher_objects_repaired_total",
        "Newest versions written again, because compaction would have kept another record",
    ),
    "removed": Counter(
        "coldnotify_matcher_objects_removed_total",
        "Objects removed, because they were neither published nor described for as long as --matcher-retention says, "
        "or were deleted long ago",
    ),
    "nulls_void": Counter(
        "coldnotify_matcher_nulls_void_total",
        "Nulls under an object's key that removed nothing, because they named no version, or one that was published "
        "anew since; the version in force is written again",
    ),
    "moved": Counter("coldnotify_matcher_records_moved_total", "Records moved out of a wrong partition"),
    "rejected": Counter(
        "coldnotify_matcher_records_rejected_total",
        "Records of the objects topic that could not be understood, by the field that is wrong",
        ("field",),
    ),
    "deliveries": Counter("coldnotify_matcher_deliveries_total", "Sessions addressed by live notifications"),
    "opens": Counter("coldnotify_matcher_opens_total", "Sessions opened in sync"),
    "opens_not_in_sync": Counter(
        "coldnotify_matcher_opens_not_in_sync_total", "Sessions opened out of sync, which need a reg-sync"
    ),
    "superseded_opens": Counter(
        "coldnotify_matcher_opens_superseded_total",
        "Opens left unanswered, because a later Open of the client was in the same batch",
    ),
    "syncs": Counter("coldnotify_matcher_syncs_total", "Whole registration sets received"),
    "half_sets_dropped": Counter(
        "coldnotify_matcher_half_sets_dropped_total",
        "Incomplete registration sets (last chunk missing) dropped to keep within the memory limit",
    ),
    "registered": Counter("coldnotify_matcher_registered_total", "Registrations added"),
    "unregistered": Counter("coldnotify_matcher_unregistered_total", "Registrations removed"),
    "queries_held": Counter(
        "coldnotify_matcher_queries_held_total",
        "Registrations by query answered without a member, because the client held the same members",
    ),
    "sets_digests": Counter(
        "coldnotify_matcher_sets_digests_total",
        "Sessions told a digest of their members, because not all changes since their cursor were known",
    ),
    "evaluated": Counter(
        "coldnotify_matcher_queries_evaluated_total", "Queries evaluated because a change might concern them"
    ),
    "forgotten": Counter(
        "coldnotify_matcher_clients_forgotten_total", "Clients forgotten, because they were not seen for too long"
    ),
    "forgotten_by_operators": Counter(
        "coldnotify_matcher_clients_forgotten_by_operators_total", "Clients forgotten, because an operator asked for it"
    ),
    "disconnected": Counter(
        "coldnotify_matcher_clients_disconnected_total", "Sessions ended, because an operator asked for it"
    ),
    "pages": Counter("coldnotify_matcher_pages_total", "Catch-up pages made for sessions"),
    "paged": Counter("coldnotify_matcher_paged_total", "Objects in catch-up pages"),
    "messages": Counter("coldnotify_matcher_messages_total", "Messages of channels that were followed"),
    "messages_told": Counter(
        "coldnotify_matcher_messages_told_total", "Sessions addressed by messages of channels as they came"
    ),
    "messages_paged": Counter(
        "coldnotify_matcher_messages_paged_total", "Messages of channels in catch-up pages, by session"
    ),
    "messages_repeated": Counter(
        "coldnotify_matcher_messages_repeated_total",
        "Records of channels told to nobody, because their id or `moved` header was on an earlier one",
    ),
    "messages_rejected": Counter(
        "coldnotify_matcher_messages_rejected_total",
        "Records of channels that could not be understood, by the field that is wrong",
        ("field",),
    ),
    "missed": Counter(
        "coldnotify_matcher_missed_total",
        "Sessions told that messages of a channel may be missing, by the reason",
        ("reason",),
    ),
    "channel_sessions_put_off": Counter(
        "coldnotify_matcher_channel_sessions_put_off_total",
        "Sessions whose channels were live and come by pages for a while, because their tenant is above what may be "
        "told of its messages",
    ),
    "blocks_served": Counter(
        "coldnotify_matcher_blocks_served_total", "Sessions that waited for a block of a log of channels when it came"
    ),
    "closed": Counter("coldnotify_matcher_closed_total", "Sessions told to close"),
    "silent_gateways": Counter(
        "coldnotify_matcher_gateways_silent_total", "Gateways with sessions that were taken for dead"
    ),
    "state_repaired": Counter(
        "coldnotify_matcher_state_repaired_total",
        "State records written again after a null or a record of a lower generation",
    ),
}
"""By the engine's name of the event."""
OTHER_EVENTS = {
    "urgent_deliveries": "Sessions addressed by live notifications of high priority",
    "messages_ahead": (
        "Messages told at once because of one of high priority, in front of what waits of a page; each comes "
        "again in the next page"
    ),
    "descriptions_removed": "Descriptions removed with their objects",
    "doubted": "Sessions to be announced anew after a load, because their registrations differ from their last record",
    "never_announced": (
        "Sessions ended because their gateway, whose Beats had disagreed for long, did not announce them"
    ),
    "queries_registered": "Registrations by query added",
    "queries_unregistered": "Registrations by query removed",
    "queries_refused": "Registrations by query refused: the text is no query, or there are too many queries or members",
    "queries_answered": "Registrations by query answered with all members",
    "sets_computed": "Sets of queries computed from all objects",
    "entered": "Objects that became members of a set",
    "left": "Objects that ceased to be members of a set",
    "differences": "Sessions addressed by live notifications of sets that have changed",
    "redescribed": "Sessions addressed by live notifications of members that are described in another way",
    "announced_anew": (
        "Sessions of clients with queries to be caught up after a takeover, because their sets are computed anew"
    ),
    "messages_moved": "Records of channels moved out of a wrong partition",
    "channel_pages": "Catch-up pages of channels made for sessions",
    "channels_registered": "Registrations of channels added",
    "channels_unregistered": "Registrations of channels removed",
    "channels_refused": "Registrations of channels refused: the name, attributes, or limit",
    "channels_forgotten": "Channels forgotten, because retention has left none of theirs",
}
"""Events that share one metric, each with its meaning."""
OTHERS = Counter(
    "coldnotify_matcher_events_total",
    "Other events of the engine, by event; the table of events says what each is",
    ("event",),
)
for _event in OTHER_EVENTS:
    OTHERS.labels(_event)
REJECTED_FIELDS = (
    "key", "domain", "group", "object", "record",
    "version", "incarnation", "source", "payload", "expires_at", "deleted",
    "description", "timestamp",
)  # fmt: skip
UNKNOWN_FIELD = "unknown_field"
"""Replaces a name that the publisher made up: their number has no bound."""
for _field in (*REJECTED_FIELDS, UNKNOWN_FIELD):
    EVENTS["rejected"].labels(_field)  # so that a rate is known before the first
MESSAGE_FIELDS = ("key", "domain", "payload", "id", "to", "source", "expires_at", "priority", "time")
for _field in (*MESSAGE_FIELDS, UNKNOWN_FIELD):
    EVENTS["messages_rejected"].labels(_field)
MISSED_REASONS = ("retention", "expired", "lost", "unreadable")
for _reason in MISSED_REASONS:
    EVENTS["missed"].labels(_reason)
_LABELS = {"messages_rejected": MESSAGE_FIELDS, "missed": MISSED_REASONS}

DOMAIN_PUBLISHES = Counter(
    "coldnotify_matcher_domain_publishes_total",
    "Records handled, by outcome and domain, for each domain that has had a stale record; beyond 50 such "
    "domains the others are counted together as (others)",
    ("domain", "outcome"),
)
DOMAINS_MAX = 50
"""Number of domains with a row of their own: publishers choose their names, and there may be any number of them."""
OTHER_DOMAINS = "(others)"
"""A name of a domain cannot contain a parenthesis."""
_domains: set[str] = set()

TAKEOVER_SECONDS = Histogram(
    "coldnotify_matcher_takeover_seconds",
    "Time from a partition's assignment until it is served, by whether it was followed before or had to be loaded",
    ("state",),
    buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300),
)
for _state in ("followed", "loaded"):
    TAKEOVER_SECONDS.labels(_state)
STEP_SECONDS = Histogram(
    "coldnotify_matcher_step_seconds",
    "Duration of one step: engine, writes, answers",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
)
PARTITIONS_STANDBY = Gauge(
    "coldnotify_matcher_partitions_standby",
    "Partitions of other matchers that this standby follows and has read to their end",
)
CONFLATION_INTERVAL_SECONDS = Gauge(
    "coldnotify_matcher_conflation_interval_seconds",
    "Present interval for which publishes are held and merged, by domain as named in --matcher-conflation; "
    "the longest of the partitions served",
    ("domain",),
)
REMOVALS_UNDER_WAY = Gauge(
    "coldnotify_matcher_removals_under_way",
    "Objects whose removal was written and not read back yet, in all partitions served; with 200 in a partition no "
    "more are written",
)
CLOCKS_APART = Gauge(
    "coldnotify_matcher_clocks_apart",
    "Clocks that are more than a minute away from this matcher's: its own since the start, Kafka's, gateways'. While "
    "there are any, no client is forgotten and no object removed",
)
REMOVED = ("clients", "objects")
REMOVALS_HELD = Gauge(
    "coldnotify_matcher_removals_held",
    "Clients and objects whose time has come and that are too many at once: they wait until the clocks have agreed "
    "for an hour, or for `coldnotify state removals --confirm`",
    ("what",),
)
for _what in REMOVED:
    REMOVALS_HELD.labels(_what)
RETENTION_NEXT_DUE = Gauge(
    "coldnotify_matcher_retention_next_due_timestamp_seconds",
    "When the first object is to be removed (Unix time), as of the last look at all objects; 0: none is",
)
QUERIES = Gauge(
    "coldnotify_matcher_queries",
    "Queries that have a set, counted by canonical form, in all partitions served; at most 10,000 a partition",
)
QUERY_MEMBERS = Gauge(
    "coldnotify_matcher_query_members",
    "Members of all sets of queries, in all partitions served; with 5,000,000 in a partition no set is added",
)
PARKED = Gauge(
    "coldnotify_matcher_registrations_parked",
    "Registrations whose callbacks raised too often, as their clients say; they wait for the next session or version",
)
LAG_OBJECTS = Gauge(
    "coldnotify_matcher_lag_objects",
    "Offsets of the objects topic not handled yet, by partition served; measured every 5 s",
    ("partition",),
)
LAG_REQUESTS = Gauge(
    "coldnotify_matcher_lag_requests",
    "Offsets of the requests topic not handled yet, by partition served; measured every 5 s",
    ("partition",),
)
LAG_STANDBY = Gauge(
    "coldnotify_matcher_lag_standby",
    "Offsets of the compacted topics not read yet, by partition that is only followed; measured every 5 s",
    ("partition",),
)
PARTITIONS = Gauge("coldnotify_matcher_partitions", "Partitions that all matchers together must serve")
PARTITIONS_OWNED = Gauge("coldnotify_matcher_partitions_owned", "Partitions served by this matcher")
RELOADS = Counter(
    "coldnotify_matcher_reloads_total", "Number of times that all state was dropped and loaded anew after a failure"
)


SET_ASIDE = Counter(
    "coldnotify_matcher_records_set_aside_total",
    "Records set aside to coldnotify.rejected, by topic and by reason: not_understood, or raised (the handler "
    "raised an exception). For the objects topic, and for those of channels, only the latter",
    ("topic", "why"),
)
PARTITION_RELOADS = Counter(
    "coldnotify_matcher_partition_reloads_total",
    "Number of times that one partition was loaded anew after a failure in it",
)
PARTITIONS_WAITING = Gauge(
    "coldnotify_matcher_partitions_waiting",
    "Partitions of this matcher that cannot be served and are tried again after a while",
)


def show_topics(topics: TopicNames) -> None:
    """Show each topic whose records may be set aside, from the beginning with 0."""
    for topic in topics.co_partitioned:
        for why in ("not_understood", "raised"):
            SET_ASIDE.labels(topic, why)


def count(event: str, by: int) -> None:
    """Count an event by the engine's name. With "rejected" and "messages_rejected" comes the field, "rejected:key";
    with "missed" the reason; with an outcome the domain; with "set_aside" the topic and why, "set_aside:topic:why"."""
    name, _, field = event.partition(":")
    if name == "set_aside":
        SET_ASIDE.labels(*field.split(":")).inc(by)
        return
    if name in channel_metrics.EVENTS:
        channel_metrics.EVENTS[name].inc(by)
        return
    if name in OTHER_EVENTS:
        OTHERS.labels(name).inc(by)
        return
    if not field or name in OUTCOMES:
        EVENTS[name].inc(by)
        if field and (row := _row_of(field, name)) is not None:
            DOMAIN_PUBLISHES.labels(row, name).inc(by)
        return
    known = _LABELS.get(name, REJECTED_FIELDS)
    EVENTS[name].labels(field if field in known else UNKNOWN_FIELD).inc(by)


def _row_of(domain: str, outcome: str) -> str | None:
    """Returns the label under which a domain's publishes are counted; None: they are not counted."""
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
