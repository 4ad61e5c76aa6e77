"""Tenants: their domains, agreements, usage, and the verdicts on it; records as JSON. Pure.

Four topics: coldnotify.tenants (Tenant), .usage (UsageRecord), .verdicts (Verdict), .usage_history (Counters of an hour
or a day). An operator's records are checked strictly; in services' records unknown fields are skipped, so that services
of two releases run side by side.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.partitioner import murmur2
from coldnotify_schemas.records import name_the_field

DEFAULT_TENANT = "default"
"""The tenant of all domains that no tenant names. It has no domains of its own, and no limits unless they are set."""
DOMAINS_MAX = 1_000
"""Limit on one tenant's domains. A record of the longest names has 70 KB, far below Kafka's limit."""
PRINCIPAL_CHARS_MAX = 249
TENANT_BYTES_MAX = 256 * 1024
"""Limit on a tenant's record."""
USAGE_TENANTS_MAX = 2_000
"""Limit on one usage record: about 400 KB. A node with more tenants in one partition writes several records."""
VERDICT_S = 20
"""How long a verdict counts. The usage job pauses for 3 to 8 s when one of its workers dies."""
COUNT_MAX = (1 << 63) - 1
RATE_MAX = 1e12
"""Far above what a machine does; below it sums and products stay exact enough."""

_NUMBER_MAX = 1_000_000_000_000
_Rate = Annotated[float, msgspec.Meta(gt=0, le=RATE_MAX)]
_Most = Annotated[int, msgspec.Meta(ge=1, le=_NUMBER_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Measured = Annotated[float, msgspec.Meta(ge=0)]
_HISTORY_KEY = re.compile(r"usage:([A-Za-z0-9._-]{1,64}):(hour|day):([0-9T-]{1,13})", re.ASCII)
_HISTORY_FORMS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}
_SHOWN_CHARS_MAX = 80


class InvalidTenant(ValueError):
    """A record of tenants or usage that cannot be understood; the message begins with the field at fault."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The agreement with a tenant. Absent: no limit."""

    in_per_s: _Rate | None = None
    """Publishes, however they come: versions of objects, descriptions, messages."""
    in_bytes_per_s: _Rate | None = None
    """Bytes of keys and values of these publishes, as in Kafka."""
    out_per_s: _Rate | None = None
    """Deliveries: a publish counts once for each session that is told it."""
    out_bytes_per_s: _Rate | None = None
    burst_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 2.0
    """So many seconds of each rate may come at once, after a quiet time."""
    objects_max: _Most | None = None
    clients_max: _Most | None = None
    """Sessions at a time."""
    registrations_max: _Most | None = None
    high_priority_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """The share of its publishes that may be of high priority."""
    over: Literal["refuse", "conflate"] = "conflate"
    """How deliveries above the agreement are treated. `conflate`: newest versions wait and merge meanwhile, messages of
    channels wait. `refuse`: publishes are refused, too, as many as cause the excess.
    """


UNLIMITED = Agreement()
HELD = ("objects_max", "clients_max", "registrations_max")
"""The limits on what exists, in the order of GAUGES."""
LIMITS = (
    "in_per_s",
    "in_bytes_per_s",
    "out_per_s",
    "out_bytes_per_s",
    "objects_max",
    "clients_max",
    "registrations_max",
)
"""The fields of an agreement that can be exceeded; refusals and verdicts use these names."""


class Tenant(NamedTuple):
    """A tenant: its name is the key of its record, the rest is the value."""

    name: str
    domains: tuple[str, ...] = ()
    agreement: Agreement = UNLIMITED
    principal: str | None = None
    """Kafka's name of its direct publisher (the user of SASL or of a certificate), whose writes Kafka itself limits to
    in_bytes_per_s.
    """


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


class _TenantRecord(Agreement, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    domains: tuple[str, ...] = ()
    principal: str | None = None


_AGREED = Agreement.__struct_fields__
_tenant_decoder = msgspec.json.Decoder(_TenantRecord)
_usage_decoder = msgspec.json.Decoder(UsageRecord)
_verdict_decoder = msgspec.json.Decoder(Verdict)
_counters_decoder = msgspec.json.Decoder(TenantCounters)
_encoder = msgspec.json.Encoder()


def check_tenant_name(name: str) -> str:
    """`name`, if it can be a tenant's. Raises InvalidTenant."""
    try:
        return check_name("tenant", name)
    except InvalidName as error:
        raise InvalidTenant(str(error)) from None


def tenant_of(name: str, fields: Mapping[str, object]) -> Tenant:
    """The tenant of these fields, named as in its record; None: left out. Raises InvalidTenant."""
    said = {field: value for field, value in fields.items() if value is not None}
    for field, value in said.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidTenant(f"{field}: {value} is not a finite number")
    try:
        record = msgspec.convert(said, _TenantRecord)
    except msgspec.ValidationError as error:
        raise InvalidTenant(name_the_field(str(error))) from None
    return _checked(name, record)


def parse_tenant(key: bytes | None, value: bytes) -> Tenant:
    """Returns the tenant in a record of the tenants topic. Raises InvalidTenant."""
    name = parse_tenant_key(key)
    if len(value) > TENANT_BYTES_MAX:
        raise InvalidTenant(f"record: has {len(value)} bytes (at most {TENANT_BYTES_MAX} are allowed)")
    return _checked(name, _decoded(_tenant_decoder, value))


def parse_tenant_key(key: bytes | None) -> str:
    """The name of the tenant of a record of the tenants or of the verdicts topic. Raises InvalidTenant."""
    if key is None:
        raise InvalidTenant("key: is missing (the tenant's name)")
    try:
        return check_tenant_name(key.decode())
    except UnicodeDecodeError:
        raise InvalidTenant("key: is not valid UTF-8") from None


def encode_tenant(tenant: Tenant) -> bytes:
    """The value of its record."""
    return _encoder.encode(fields_of(tenant))


def fields_of(tenant: Tenant) -> dict[str, Any]:
    """Returns its record's fields that have values, as in JSON."""
    agreed: dict[str, Any] = msgspec.to_builtins(tenant.agreement)
    said: dict[str, Any] = {"domains": list(tenant.domains), **agreed}
    return said if tenant.principal is None else {**said, "principal": tenant.principal}


def parse_usage(value: bytes) -> UsageRecord:
    """A record of the usage topic. Raises InvalidTenant."""
    record: UsageRecord = _decoded(_usage_decoder, value)
    if len(record.tenants) > USAGE_TENANTS_MAX:
        raise InvalidTenant(f"tenants: has {len(record.tenants)} (at most {USAGE_TENANTS_MAX} are allowed)")
    _check_names("node", (record.node,))
    _check_names("boot", (record.boot,))
    _check_names("tenants", record.tenants)
    return record


def encode_usage(record: UsageRecord) -> bytes:
    """Returns a record of the usage topic; fields that are 0 are left out."""
    return _encoder.encode(record)


def parse_verdict(value: bytes) -> Verdict:
    """The value of a record of the verdicts topic. Raises InvalidTenant."""
    verdict: Verdict = _decoded(_verdict_decoder, value)
    _check_names("shares", verdict.shares)
    _check_names("out_shares", verdict.out_shares)
    _check_names("held", verdict.held)
    for limit in verdict.exceeded:
        if limit not in LIMITS:
            raise InvalidTenant(
                f"exceeded: unknown limit {limit[:_SHOWN_CHARS_MAX]!r}, expected one of {', '.join(LIMITS)}"
            )
    return verdict


def encode_verdict(verdict: Verdict) -> bytes:
    """The value of a verdict's record; its key is the tenant's name."""
    return _encoder.encode(verdict)


def parse_counters(value: bytes) -> TenantCounters:
    """The value of a record of the usage history. Raises InvalidTenant."""
    counters: TenantCounters = _decoded(_counters_decoder, value)
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
    raise InvalidTenant(f"key: {(key or b'')[:_SHOWN_CHARS_MAX]!r} is not usage:TENANT:hour:YYYY-MM-DDTHH or day")


@lru_cache(maxsize=16_384)
def usage_partition_of(tenant: str, partitions: int) -> int:
    """Returns the partition of the usage topic, out of `partitions`, that holds everything about a tenant."""
    return (murmur2(tenant.encode()) & 0x7FFFFFFF) % partitions


def _decoded(decoder: msgspec.json.Decoder[Any], value: bytes) -> Any:
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise InvalidTenant(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidTenant(f"record: is not JSON: {error}") from None


def _check_names(field: str, names: Iterable[str]) -> None:
    for name in names:
        try:
            check_name(field, name)
        except InvalidName as error:
            raise InvalidTenant(str(error)) from None


def _checked(name: str, record: _TenantRecord) -> Tenant:
    """Checks what JSON's types do not express."""
    check_tenant_name(name)
    if len(record.domains) > DOMAINS_MAX:
        raise InvalidTenant(f"domains: has {len(record.domains)} (at most {DOMAINS_MAX} are allowed)")
    _check_names("domains", record.domains)
    seen: set[str] = set()
    for domain in record.domains:
        if domain in seen:
            raise InvalidTenant(f"domains: {domain} is named twice")
        seen.add(domain)
    if name == DEFAULT_TENANT and record.domains:
        raise InvalidTenant(f"domains: {DEFAULT_TENANT} has all that no other tenant names, and may name none")
    if name != DEFAULT_TENANT and not record.domains:
        raise InvalidTenant("domains: a tenant has at least one")
    agreement = Agreement(**{field: getattr(record, field) for field in _AGREED})
    _check_agreement(agreement)
    return Tenant(name, record.domains, agreement, _check_principal(record.principal))


def _check_agreement(agreement: Agreement) -> None:
    """No limit may make another one pointless: whoever set both meant something else."""
    for rate, bytes_rate in (("in_per_s", "in_bytes_per_s"), ("out_per_s", "out_bytes_per_s")):
        per_s, bytes_per_s = getattr(agreement, rate), getattr(agreement, bytes_rate)
        if per_s is not None and bytes_per_s is not None and bytes_per_s < per_s:
            raise InvalidTenant(
                f"{bytes_rate}: contradicts {rate}: {bytes_per_s:g} bytes/s are less than one for each of {per_s:g}/s"
            )


def _check_principal(principal: str | None) -> str | None:
    if principal is None:
        return None
    if not 1 <= len(principal) <= PRINCIPAL_CHARS_MAX or not principal.isprintable():
        raise InvalidTenant(
            f"principal: {principal[:_SHOWN_CHARS_MAX]!r} is no user of Kafka's "
            f"(1 to {PRINCIPAL_CHARS_MAX} characters that can be printed)"
        )
    return principal
