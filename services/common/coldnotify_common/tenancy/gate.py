"""Admits or refuses publishes, by each tenant's token buckets at this node and its share of the agreement. Pure."""

from collections.abc import Collection, Mapping
from math import exp
from typing import NamedTuple

from coldnotify_schemas.tenant_usage import VERDICT_S, Rates, Verdict
from coldnotify_schemas.tenants import Agreement, Tenant

from coldnotify_common.tenancy.counting import UsageCounts
from coldnotify_common.tenancy.known_nodes import NODE_SEEN_S, KnownNodes
from coldnotify_common.tenancy.table import TenantTable
from coldnotify_common.tenancy.token_bucket import TokenBucket

PUBLISHES, BYTES = "in_per_s", "in_bytes_per_s"
"""Limits on incoming publishes."""
DELIVERIES, OUT_BYTES = "out_per_s", "out_bytes_per_s"
"""Limits on outgoing deliveries. A publish that would exceed one is refused if the agreement says so (`over:
refuse`)."""
OBJECTS = "objects_max"
"""The limit that refuses a publish of an object that does not exist yet."""
OBJECTS_RETRY_S = 10.0
"""Delay before another publish of a new object is worth a try: meanwhile an object may be deleted, or the agreement
raised."""
_SHARE_MIN = 0.02
"""Minimum share of a node, as a fraction of an equal share, whatever a verdict assigns to it, because publishes refused
here show that this node needs more. All nodes together exceed the agreement by at most this fraction."""
_SHOWN_CHARS_MAX = 80
_MEASURED_OVER_S = 2.0
"""Time constant of the measured rate in a refusal."""


class Admitted(NamedTuple):
    """The publishes are admitted."""

    tenant: str


RETRY_AFTER_S_MAX = 3600.0
"""Upper bound of the retry delay. A rate may be almost 0, and the agreement may be a different one an hour later."""


class GateRefused(NamedTuple):
    """The publishes are refused for now."""

    tenant: str
    limit: str
    """The field of the agreement."""
    allowed: float
    """The agreed value, for the tenant at all nodes together."""
    measured: float
    """The rate that the tenant requests per second: at all nodes if a verdict states it, otherwise at this one."""
    retry_after_s: float
    """Delay after which the same publishes may be admitted, unless others of the tenant come first. At most
    RETRY_AFTER_S_MAX."""

    def for_object(self, missing: str) -> str:
        """Returns the error text if `limit` is OBJECTS. `missing`: the object, or one of many objects, that does not
        exist yet."""
        words = f"there are {self.measured:.0f}, and object {missing[:_SHOWN_CHARS_MAX]} is none of them"
        return f"tenant {self.tenant} is above its agreement: {self.limit} is {self.allowed:.0f}; {words}"


class _Standing(NamedTuple):
    verdict: Verdict
    until_s: float


class Gate:
    """Admits or refuses publishes of all tenants at this node, and counts both. Times are of one clock, in s.

    Each of n nodes begins with 1/n of a rate. A verdict assigns each node its share; without a fresh verdict it is 1/n
    again, where n counts this node and the nodes named by verdicts during the last minute that had verdicts.
    """

    def __init__(self, table: TenantTable, counts: UsageCounts) -> None:
        self._table = table
        self._counts = counts
        self._standings: dict[str, _Standing] = {}
        self._limited: dict[str, _Limited] = {}
        self._doors = KnownNodes(counts.node)
        """Nodes that admit publishes."""
        self._tellers = KnownNodes(counts.node)
        """Matchers that deliver publishes."""
        self._newest_s = float("-inf")

    def admit(self, domain: str, publishes: int, size_bytes: int, now_s: float) -> Admitted | GateRefused:
        """Admits all of `publishes` of one domain, with `size_bytes` together, or none."""
        tenant = self._table.of(domain)
        agreement = tenant.agreement
        counters = self._counts.changing(tenant.name)
        refused: GateRefused | None = None
        if _may_refuse(agreement):
            standing = self._standing(tenant.name, now_s)
            share = self._share(standing)
            limited = self._limited.get(tenant.name)
            if limited is None:
                limited = self._limited[tenant.name] = _Limited(agreement, share, now_s)
            elif limited.agreement is not agreement or limited.share != share:
                limited.change(agreement, share, now_s)
            refused = limited.ask(tenant, publishes, size_bytes, standing, now_s)
        if refused is not None:
            counters.refused += publishes
            return refused
        counters.admitted += publishes
        counters.admitted_bytes += size_bytes
        return Admitted(tenant.name)

    def held_elsewhere(self, tenant: str, here: Collection[str], now_s: float) -> dict[str, tuple[int, int, int]]:
        """Returns the numbers of objects, clients and registrations that the tenant has in each partition other than
        `here`, by its node's name, according to its verdict; nothing without a valid verdict."""
        standing = self._standing(tenant, now_s)
        if standing is None:
            return {}
        return {node: has for node, has in standing.verdict.held.items() if node not in here}

    def full_of_objects(self, domain: str, now_s: float) -> GateRefused | None:
        """Returns a refusal if another object would exceed the limit of the domain's tenant; None if it would not, as
        far as known."""
        tenant = self._table.of(domain)
        most = tenant.agreement.objects_max
        if most is None:
            return None
        standing = self._standing(tenant.name, now_s)
        there_are = 0 if standing is None else standing.verdict.gauges.objects
        return GateRefused(tenant.name, OBJECTS, most, there_are, OBJECTS_RETRY_S) if there_are >= most else None

    def refuse(self, refused: GateRefused, publishes: int) -> None:
        """Counts publishes that were refused for a reason other than their rate."""
        self._counts.changing(refused.tenant).refused += publishes

    def on_verdict(self, tenant: str, verdict: Verdict | None, age_s: float, now_s: float) -> None:
        """Takes the tenant's current verdict, made `age_s` ago; None if it was deleted."""
        if verdict is None or age_s >= VERDICT_S:
            self._standings.pop(tenant, None)
        elif self._table.get(tenant) is not None:
            self._standings[tenant] = _Standing(verdict, now_s + VERDICT_S - max(0.0, age_s))
        if verdict is None or age_s < -NODE_SEEN_S or self._table.get(tenant) is None:
            return  # a verdict for an unknown tenant must not reduce anybody's share
        made_s = now_s - max(0.0, age_s)
        self._doors.on_verdict(verdict.shares, made_s)
        self._tellers.on_verdict(verdict.out_shares, made_s)
        self._newest_s = max(self._newest_s, made_s)

    def on_agreement(self, tenant: Tenant, now_s: float) -> None:
        """Applies the rates of a tenant's new agreement from now on."""
        limited = self._limited.get(tenant.name)
        if limited is not None:
            limited.change(tenant.agreement, limited.share, now_s)

    def forget(self, tenant: str) -> None:
        """Removes a tenant."""
        self._standings.pop(tenant, None)
        self._limited.pop(tenant, None)

    def verdict_of(self, tenant: str, now_s: float) -> Verdict | None:
        """Returns the tenant's verdict if it is still valid, otherwise None."""
        standing = self._standing(tenant, now_s)
        return None if standing is None else standing.verdict

    def verdict_age_s(self, now_s: float) -> float:
        """Returns the age of the newest verdict of any tenant, in s; infinite if there was none."""
        return now_s - self._newest_s

    @property
    def nodes(self) -> int:
        """The number of nodes known to admit publishes, including this one."""
        return len(self._doors)

    def out_share(self, tenant: str, now_s: float) -> float:
        """Returns this node's share of the tenant's outgoing rates, if it delivers publishes."""
        standing = self._standing(tenant, now_s)
        return self._part_of({} if standing is None else standing.verdict.out_shares, len(self._tellers))

    def fullest(self, now_s: float, at_least: float, most: int) -> list[tuple[str, str, float]]:
        """Returns tenant, limit and used fraction of the limits with the highest use, according to valid verdicts."""
        found = []
        for name in self._standings:
            tenant, verdict = self._table.get(name), self.verdict_of(name, now_s)
            if tenant is None or verdict is None:
                continue
            for limit, used in _used(tenant.agreement, verdict):
                if used >= at_least:
                    found.append((name, limit, used))
        return sorted(found, key=lambda one: (-one[2], one))[:most]

    def _standing(self, tenant: str, now_s: float) -> _Standing | None:
        standing = self._standings.get(tenant)
        return standing if standing is not None and now_s < standing.until_s else None

    def _share(self, standing: _Standing | None) -> float:
        return self._part_of({} if standing is None else standing.verdict.shares, self.nodes)

    def _part_of(self, shares: Mapping[str, float], nodes: int) -> float:
        equal = 1 / nodes
        given = shares.get(self._counts.node)
        return equal if given is None else max(given, _SHARE_MIN * equal)


class _Limited:
    """A tenant that has a limit, at this node."""

    def __init__(self, agreement: Agreement, share: float, now_s: float) -> None:
        self.agreement = agreement
        self.share = share
        self._buckets: dict[str, TokenBucket] = {}
        """Token buckets by limit."""
        self._asked = _Rate(now_s)
        self._asked_bytes = _Rate(now_s)
        self.change(agreement, share, now_s)

    def change(self, agreement: Agreement, share: float, now_s: float) -> None:
        self.agreement, self.share = agreement, share
        before, self._buckets = self._buckets, {}
        for limit in (PUBLISHES, BYTES, *_refused_out(agreement)):
            per_s = getattr(agreement, limit)
            if per_s is not None:
                self._buckets[limit] = _bucket(before.get(limit), per_s, agreement, share, now_s)

    def ask(
        self, tenant: Tenant, publishes: int, size_bytes: int, standing: _Standing | None, now_s: float
    ) -> GateRefused | None:
        self._asked.add(publishes, now_s)
        self._asked_bytes.add(size_bytes, now_s)
        out = _out_of_one(standing)
        costs = {
            PUBLISHES: float(publishes),
            BYTES: float(size_bytes),
            DELIVERIES: publishes * out.deliveries,
            OUT_BYTES: publishes * out.out_bytes,
        }
        waits_s = {limit: bucket.wait_s(costs[limit], now_s) for limit, bucket in self._buckets.items()}
        limit = max(waits_s, key=waits_s.__getitem__)
        if waits_s[limit]:
            after_s = min(waits_s[limit], RETRY_AFTER_S_MAX)
            rates = standing.verdict.per_s if standing is not None else Rates()
            asked = self._asked.value(now_s)
            measured = {
                PUBLISHES: max(asked, rates.publishes + rates.refused),
                BYTES: max(self._asked_bytes.value(now_s), rates.bytes),
                DELIVERIES: max(asked * out.deliveries, rates.deliveries_wanted),
                OUT_BYTES: max(asked * out.out_bytes, rates.out_bytes_wanted),
            }
            return GateRefused(tenant.name, limit, getattr(self.agreement, limit), measured[limit], after_s)
        for one, bucket in self._buckets.items():
            bucket.take(costs[one])
        return None


class _Rate:
    """A rate per second, averaged with the time constant _MEASURED_OVER_S."""

    __slots__ = ("_at_s", "_since_s", "_sum")

    def __init__(self, now_s: float) -> None:
        self._sum = 0.0
        self._at_s = self._since_s = now_s

    def add(self, number: float, now_s: float) -> None:
        self._fade(now_s)
        self._sum += number

    def value(self, now_s: float) -> float:
        self._fade(now_s)
        # Corrects for the short history just after the start; at least 0.1 s, because the first moment gives no rate.
        weight = 1 - exp(-max(now_s - self._since_s, 0.1) / _MEASURED_OVER_S)
        return self._sum / (_MEASURED_OVER_S * weight)

    def _fade(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._sum *= exp((self._at_s - now_s) / _MEASURED_OVER_S)
            self._at_s = now_s


class _OutOfOne(NamedTuple):
    """The average deliveries and bytes that one publish causes."""

    deliveries: float
    out_bytes: float


def _out_of_one(standing: _Standing | None) -> _OutOfOne:
    """Returns the averages of the last minute; zeros without measurements, because this node does not know whom a
    publish would reach."""
    if standing is None or not standing.verdict.per_min.publishes:
        return _OutOfOne(0.0, 0.0)
    counted = standing.verdict.per_min
    return _OutOfOne(counted.deliveries_wanted / counted.publishes, counted.out_bytes_wanted / counted.publishes)


def _refused_out(agreement: Agreement) -> tuple[str, ...]:
    return (DELIVERIES, OUT_BYTES) if agreement.over == "refuse" else ()


def _may_refuse(agreement: Agreement) -> bool:
    if agreement.in_per_s is not None or agreement.in_bytes_per_s is not None:
        return True
    return any(getattr(agreement, limit) is not None for limit in _refused_out(agreement))


def _bucket(before: TokenBucket | None, per_s: float, agreement: Agreement, share: float, now_s: float) -> TokenBucket:
    rate = per_s * share
    capacity = max(1.0, rate * agreement.burst_s)  # with a capacity below 1, no publish would ever pass
    if before is None:
        return TokenBucket(rate, capacity, now_s)
    before.change(rate, capacity, now_s)
    return before


def _used(agreement: Agreement, verdict: Verdict) -> list[tuple[str, float]]:
    """Returns by limit the fraction used in the last minute, or in use now."""
    a, m, g = agreement, verdict.per_min, verdict.gauges
    pairs: tuple[tuple[str, float | None, float], ...] = (
        (PUBLISHES, a.in_per_s, m.publishes / 60),
        (BYTES, a.in_bytes_per_s, m.bytes / 60),
        (DELIVERIES, a.out_per_s, m.deliveries_wanted / 60),
        (OUT_BYTES, a.out_bytes_per_s, m.out_bytes_wanted / 60),
        (OBJECTS, a.objects_max, g.objects),
        ("clients_max", a.clients_max, g.clients),
        ("registrations_max", a.registrations_max, g.registrations),
    )
    return [(limit, used / most) for limit, most, used in pairs if most is not None]
