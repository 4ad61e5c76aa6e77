"""Every metric of the matcher."""

from coldnotify_schemas.topics import TopicNames
from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = ("published", "repeated", "altered", "stale")
"""Outcomes of publishes, as the engine's history names them; their events come with the domain."""
EVENTS = {
    "published": Counter("coldnotify_matcher_publishes_total", "Records that brought a newer version of an object"),
    "repeated": Counter("coldnotify_matcher_publishes_repeated_total", "Records that repeat the newest version"),
    "conflated": Counter(
        "coldnotify_matcher_publishes_conflated_total", "Publishes held back, then replaced by a newer one"
    ),
    "stale": Counter("coldnotify_matcher_publishes_stale_total", "Records with a version below the newest"),
    "repaired": Counter(
        "coldnotify_matcher_objects_repaired_total",
        "Newest versions written again, because compaction would have kept another record",
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
    "forgotten": Counter(
        "coldnotify_matcher_clients_forgotten_total", "Clients forgotten, because they were not seen for too long"
    ),
    "pages": Counter("coldnotify_matcher_pages_total", "Catch-up pages made for sessions"),
    "paged": Counter("coldnotify_matcher_paged_total", "Objects in catch-up pages"),
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
MESSAGES = Counter(
    "coldnotify_matcher_messages_total",
    "Records of channels, by outcome: followed (a message), repeated (told to nobody, because their id or `moved` "
    "header was on an earlier one), rejected (not understood: their copy in coldnotify.rejected names the field)",
    ("outcome",),
)
MESSAGE_OUTCOMES = {"messages": "followed", "messages_repeated": "repeated", "messages_rejected": "rejected"}
"""Labels by the engine's name of the event."""
MESSAGES_TOLD = Counter(
    "coldnotify_matcher_messages_told_total",
    "Messages of channels addressed to sessions, counted per session: live (as they came), page (in catch-up pages)",
    ("way",),
)
MESSAGE_WAYS = {"messages_told": "live", "messages_paged": "page"}
"""Labels by the engine's name of the event."""
MISSED = Counter(
    "coldnotify_matcher_missed_total",
    "Sessions told that messages of a channel may be missing, by the reason",
    ("reason",),
)
OTHER_EVENTS = {
    "altered": (
        "Records with the newest version's number but other content, of which clients that have this version are not "
        "told"
    ),
    "urgent": (
        "Newer versions of high priority, which are not held back, and are told also to sessions that are sent pages"
    ),
    "urgent_above_share": (
        "Newer versions marked high priority that were told like all others, because their tenant has "
        "published more of these than its high_priority_share"
    ),
    "messages_urgent": "Messages of high priority, whose channels come before others",
    "messages_urgent_above_share": (
        "Messages marked high priority that were told like all others, because their tenant has "
        "published more of these than its high_priority_share"
    ),
    "removed": (
        "Objects removed, because they were neither published nor described for as long as --matcher-retention says, "
        "or were deleted long ago"
    ),
    "nulls_void": (
        "Nulls under an object's key that removed nothing, because they named no version, or one that was published "
        "again since; the version in force is written again"
    ),
    "decided": "Publishes with a condition that held, so that they are versions",
    "decided_in_vain": "Publishes with a condition that are no versions: it did not hold, or they were repeats",
    "sets_decided": "Sets of objects published as one",
    "sets_decided_in_vain": "Sets of objects that bring no version: a condition did not hold, or they were repeats",
    "forgotten_by_operators": "Clients forgotten, because an operator asked for it",
    "disconnected": "Sessions ended, because an operator asked for it",
    "evaluated": "Queries evaluated because a change might concern them",
    "queries_held": "Registrations by query answered without a member, because the client held the same members",
    "sets_digests": "Sessions told a digest of their members, because not all changes since their cursor were known",
    "channel_sessions_put_off": (
        "Sessions whose live channels come in pages for a while, because their tenant's messages are above its "
        "agreement"
    ),
    "blocks_read": "Blocks of channels' topics that were read again, for sessions that are behind",
    "blocks_unreadable": (
        "Blocks that could not be read, because what Kafka has there is damaged or cannot be handled; clients are "
        "told that they may have missed messages"
    ),
    "block_bytes": "Bytes of payloads in these blocks (a count of bytes, not of blocks)",
    "blocks_served": "Sessions that waited for a block of a log of channels when it came",
    "partition_reloads": "Loads of one partition after a failure in it",
    "urgent_deliveries": "Sessions addressed by live notifications of high priority",
    "messages_ahead": (
        "Messages told before a waiting page because one has high priority; each comes again in the next page"
    ),
    "descriptions_removed": "Descriptions removed with their objects",
    "doubted": "Sessions to be announced again after a load, because their registrations differ from their last record",
    "never_announced": (
        "Sessions ended because their gateway, whose Beats had disagreed for long, did not announce them"
    ),
    "queries_registered": "Registrations by query added",
    "queries_unregistered": "Registrations by query removed",
    "queries_refused": "Registrations by query refused: not a query, or too many queries or members",
    "queries_answered": "Registrations by query answered with all members",
    "filters_registered": "Registrations by filter added",
    "filters_unregistered": "Registrations by filter removed",
    "filters_refused": "Registrations by filter refused: not a filter, too many, or a set that is not kept",
    "filters_answered": "Registrations by filter answered with all that they fit",
    "properties_passed_over": "Headers for MQTT devices that say nothing, or name no message, and are passed over",
    "unsayable": "Newer versions of objects that filters cannot fit, because of their names",
    "sets_computed": "Sets of queries computed from all objects",
    "entered": "Objects that became members of a set",
    "left": "Objects that ceased to be members of a set",
    "differences": "Sessions addressed by live notifications of sets that have changed",
    "redescribed": "Sessions addressed by live notifications of members that are described in another way",
    "announced_anew": (
        "Sessions of clients with queries to be caught up after a takeover, because their sets are computed again"
    ),
    "wills_published": "Wills published, because their sessions ended otherwise than by their clients' word",
    "wills_not_published": "Wills dropped: their channels' topic is missing, or they are larger than is allowed by now",
    "messages_moved": "Records of channels moved out of a wrong partition",
    "channel_pages": "Catch-up pages of channels made for sessions",
    "channels_registered": "Registrations of channels added",
    "channels_unregistered": "Registrations of channels removed",
    "channels_refused": "Registrations of channels refused: the name, attributes, or limit",
    "channels_forgotten": "Channels forgotten, because retention has removed all their messages",
    "shares_registered": "Members of shares added",
    "shares_unregistered": "Members of shares removed",
    "shares_refused": "Members of shares refused: the name, another definition than the first member's, or a limit",
    "shares_forgotten": "Shares forgotten, because they had no members for 180 days",
    "shares_begun_anew": "Shares begun anew, because the log of their channel was made anew: what was in hands is lost",
    "handed_out": "Messages of shares, and notices of what is missing, sent to one member each",
    "leases_lost": "Leases of shares that a member named and does not have any more",
    "dead_letters": "Messages of shares that became dead letters",
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
    "description", "timestamp", "if_version", "if_absent", "if_changed", "id",
)  # fmt: skip
UNKNOWN_FIELD = "unknown_field"
"""Replaces a name that the publisher made up: their number has no bound."""
for _field in (*REJECTED_FIELDS, UNKNOWN_FIELD):
    EVENTS["rejected"].labels(_field)  # so that a rate is known before the first
for _outcome in MESSAGE_OUTCOMES.values():
    MESSAGES.labels(_outcome)
for _way in MESSAGE_WAYS.values():
    MESSAGES_TOLD.labels(_way)
for _reason in ("retention", "expired", "lost", "unreadable"):
    MISSED.labels(_reason)

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
LAG_CHANNELS = Gauge(
    "coldnotify_matcher_lag_channels",
    "Offsets of a topic of channels not read yet, by topic and partition served; measured every 5 s",
    ("topic", "partition"),
)
BLOCKS_WANTED = Gauge(
    "coldnotify_matcher_blocks_wanted",
    "Blocks of channels' topics that sessions wait for, in all partitions served; they are read one after the other",
)
SHARE_MESSAGES = Gauge(
    "coldnotify_matcher_share_messages",
    "Messages of shares that are not settled, in all partitions served: held by a member, or waiting, as far as shares "
    "have looked ahead",
    ("state",),
)
for _state in ("held", "waiting"):
    SHARE_MESSAGES.labels(_state)
SHARE_OLDEST_SECONDS = Gauge(
    "coldnotify_matcher_share_oldest_seconds",
    "Age of the oldest message of a share that is not settled, among all shares of all partitions served",
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
    name, _, detail = event.partition(":")
    if name in OUTCOMES and detail and (row := _row_of(detail, name)) is not None:
        DOMAIN_PUBLISHES.labels(row, name).inc(by)
    if name in OTHER_EVENTS:
        OTHERS.labels(name).inc(by)
    elif name == "set_aside":
        SET_ASIDE.labels(*detail.split(":")).inc(by)
    elif name == "missed":
        MISSED.labels(detail).inc(by)
    elif name in MESSAGE_OUTCOMES:
        MESSAGES.labels(MESSAGE_OUTCOMES[name]).inc(by)
    elif name in MESSAGE_WAYS:
        MESSAGES_TOLD.labels(MESSAGE_WAYS[name]).inc(by)
    elif name == "rejected":
        EVENTS[name].labels(detail if detail in REJECTED_FIELDS else UNKNOWN_FIELD).inc(by)
    else:
        EVENTS[name].inc(by)


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
