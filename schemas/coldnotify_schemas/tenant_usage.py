"""Usage of tenants: counters, verdicts, and their history; records as JSON. Pure.

Three topics: coldnotify.usage (UsageRecord), .verdicts (Verdict), .usage_history (TenantCounters of an hour or a day).
Unknown fields of these records are skipped, so that services of two releases run side by side.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import msgspec

from coldnotify_schemas.partitioner import murmur2
from coldnotify_schemas.tenants import LIMITS, SHOWN_CHARS_MAX, InvalidTenant, check_names, decoded

USAGE_TENANTS_MAX = 2_000
"""Limit on one usage record: about 400 KB. A node with more tenants in one partition writes several records."""
VERDICT_S = 20
"""Time for which a verdict counts. The usage job pauses for 3 to 8 s when one of its workers dies."""
COUNT_MAX = (1 << 63) - 1
_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Measured = Annotated[float, msgspec.Meta(ge=0)]
_HISTORY_KEY = re.compile(r"usage:([A-Za-z0-9._-]{1,64}):(hour|day):([0-9T-]{1,13})", re.ASCII)
_HISTORY_FORMS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}


class TenantCounters(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One node's counts for one tenant since its start, followed by gauges of what exists now.

    Only one kind of node counts each field, so that sums over nodes count nothing twice: `publishes`, `bytes`, `high`
    and everything about deliveries and state by matchers, who see what is in the log, however it came there;
    `admitted`, `admitted_bytes` and `refused` by those who let publishes in (HTTP services and gateways): their demand,
    from which shares are made.
    """

    publishes: _Count = 0
    bytes: _Count = 0
    deliveries: _Count = 0
    out_bytes: _Count = 0
    refused: _Count = 0
    """Publishes that were not let in."""
    high: _Count = 0
    """Publishes of high priority, which `publishes` counts, too."""
    admitted: _Count = 0
    """Publishes that this node let in. They are counted again, in `publishes`, by who reads them from the log."""
    admitted_bytes: _Count = 0
    thinned: _Count = 0
    """Deliveries that were not made: a newer version came while the object waited, since the tenant was above out_per_s
    or out_bytes_per_s. Deliveries and these together are what its publishes asked for."""
    turned_away: _Count = 0
    """Sessions and registrations that were refused: one more would have been above clients_max or registrations_max."""
    objects: _Count = 0
    """Published, and not deleted. This and the following belong to one of the matchers' partitions, not to a matcher:
    its owner reports them in the partition's name (`partition_node`), so that none counts twice while it moves.
    """
    clients: _Count = 0
    """Sessions that are live."""
    registrations: _Count = 0


CUMULATIVE = (
    "publishes",
    "bytes",
    "deliveries",
    "out_bytes",
    "refused",
    "high",
    "admitted",
    "admitted_bytes",
    "thinned",
    "turned_away",
)
"""The fields of Counters that only grow, from a node's start to its end."""


GAUGES = ("objects", "clients", "registrations")
"""The fields of Counters that are gauges."""


def partition_node(partition: int) -> str:
    """Returns the node name under which a matchers' partition's gauges are reported."""
    return f"partition-{partition}"


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A node's report, once a second, on the tenants of one partition of the usage topic whose counts changed."""

    node: str
    boot: str
    """Drawn at the node's start: with another one, its counters have begun at 0 again."""
    at_ms: _Count
    tenants: dict[str, TenantCounters]


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of Counters, per second or within a minute."""

    publishes: _Measured = 0.0
    bytes: _Measured = 0.0
    deliveries: _Measured = 0.0
    out_bytes: _Measured = 0.0
    refused: _Measured = 0.0
    high: _Measured = 0.0
    admitted: _Measured = 0.0
    admitted_bytes: _Measured = 0.0
    thinned: _Measured = 0.0
    turned_away: _Measured = 0.0

    @property
    def deliveries_wanted(self) -> float:
        """Deliveries that publishes asked for, made or spared."""
        return self.deliveries + self.thinned

    @property
    def out_bytes_wanted(self) -> float:
        """Bytes of these deliveries, by the average of those that were made, because spared ones were never encoded."""
        return self.out_bytes * self.deliveries_wanted / self.deliveries if self.deliveries else self.out_bytes


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tenant's usage, measured over all nodes, and its consequences for each of them."""

    at_ms: _Count
    until_ms: _Count
    """From then on it does not count: at_ms + 1000 VERDICT_S."""
    per_s: Rates = Rates()
    """Per second, over the last few seconds."""
    per_min: Rates = Rates()
    """Counts of the last minute."""
    gauges: TenantCounters = msgspec.field(default_factory=TenantCounters)
    """Only its GAUGES are set."""
    shares: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]] = msgspec.field(default_factory=dict)
    """Node by node, the part of the agreement's in-rates that it may let in; together at most 1."""
    out_shares: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]] = msgspec.field(default_factory=dict)
    """Matcher by matcher, the part of the agreement's out-rates that it may tell; together at most 1."""
    exceeded: tuple[str, ...] = ()
    """Those of LIMITS that the tenant exceeds."""
    held: dict[str, tuple[_Count, _Count, _Count]] = msgspec.field(default_factory=dict)
    """Partition by partition (`partition_node`), the parts of `gauges`, in the order of GAUGES: a matcher that knows
    its own partitions better takes those of others from here. Only where the agreement has such a limit."""


class HistoryKey(NamedTuple):
    """The key of a record of the usage history: a tenant's hour or day, in UTC."""

    tenant: str
    span: Literal["hour", "day"]
    when: str
    """2026-11-22T21, or 2026-11-22."""


_encoder = msgspec.json.Encoder()
_usage_decoder = msgspec.json.Decoder(UsageRecord)
_verdict_decoder = msgspec.json.Decoder(Verdict)
_counters_decoder = msgspec.json.Decoder(TenantCounters)


def parse_usage(value: bytes) -> UsageRecord:
    """A record of the usage topic. Raises InvalidTenant."""
    record: UsageRecord = decoded(_usage_decoder, value)
    if len(record.tenants) > USAGE_TENANTS_MAX:
        raise InvalidTenant(f"tenants: has {len(record.tenants)} (at most {USAGE_TENANTS_MAX} are allowed)")
    check_names("node", (record.node,))
    check_names("boot", (record.boot,))
    check_names("tenants", record.tenants)
    return record


def encode_usage(record: UsageRecord) -> bytes:
    """Returns a record of the usage topic; fields that are 0 are left out."""
    return _encoder.encode(record)


def parse_verdict(value: bytes) -> Verdict:
    """The value of a record of the verdicts topic. Raises InvalidTenant."""
    verdict: Verdict = decoded(_verdict_decoder, value)
    check_names("shares", verdict.shares)
    check_names("out_shares", verdict.out_shares)
    check_names("held", verdict.held)
    for limit in verdict.exceeded:
        if limit not in LIMITS:
            raise InvalidTenant(
                f"exceeded: unknown limit {limit[:SHOWN_CHARS_MAX]!r}, expected one of {', '.join(LIMITS)}"
            )
    return verdict


def encode_verdict(verdict: Verdict) -> bytes:
    """The value of a verdict's record; its key is the tenant's name."""
    return _encoder.encode(verdict)


def parse_counters(value: bytes) -> TenantCounters:
    """The value of a record of the usage history. Raises InvalidTenant."""
    counters: TenantCounters = decoded(_counters_decoder, value)
    return counters


def encode_counters(counters: TenantCounters) -> bytes:
    """The value of a record of the usage history."""
    return _encoder.encode(counters)


def history_key(tenant: str, span: Literal["hour", "day"], at_s: float) -> str:
    """The key of the record of the hour or day in which this Unix time lies: usage:TENANT:hour:2026-11-22T21."""
    return f"usage:{tenant}:{span}:{datetime.fromtimestamp(at_s, UTC).strftime(_HISTORY_FORMS[span])}"


def parse_history_key(key: bytes | None) -> HistoryKey:
    """Parses the key of a record of the usage history. Raises InvalidTenant."""
    try:
        found = _HISTORY_KEY.fullmatch((key or b"").decode())
        if found is not None:
            tenant, span, when = found.groups()
            if datetime.strptime(when, _HISTORY_FORMS[span]).strftime(_HISTORY_FORMS[span]) == when:
                return HistoryKey(tenant, "hour" if span == "hour" else "day", when)
    except ValueError:  # neither UTF-8 nor a date
        pass
    raise InvalidTenant(f"key: {(key or b'')[:SHOWN_CHARS_MAX]!r} is not usage:TENANT:hour:YYYY-MM-DDTHH or day")


@lru_cache(maxsize=16_384)
def usage_partition_of(tenant: str, partitions: int) -> int:
    """Returns the partition of the usage topic, out of `partitions`, that holds everything about a tenant."""
    return (murmur2(tenant.encode()) & 0x7FFFFFFF) % partitions
