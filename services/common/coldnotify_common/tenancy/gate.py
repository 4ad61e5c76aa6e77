"""Whether a publish may be let in: each tenant's token buckets at this node, and its share of the agreement. Pure."""

from collections.abc import Iterable, Mapping
from math import exp
from typing import NamedTuple

from coldnotify_schemas.tenants import VERDICT_S, Agreement, Rates, Tenant, Verdict

from coldnotify_common.tenancy.counting import UsageCounts
from coldnotify_common.tenancy.known_nodes import NODE_SEEN_S, KnownNodes
from coldnotify_common.tenancy.table import TenantTable
from coldnotify_common.tenancy.token_bucket import TokenBucket

PUBLISHES, BYTES = "in_per_s", "in_bytes_per_s"
"""The limits that what comes in is refused by."""
DELIVERIES, OUT_BYTES = "out_per_s", "out_bytes_per_s"
"""The limits that a publish is refused by if the agreement says so (`over: refuse`), for what it would lead to."""
OBJECTS = "objects_max"
"""The limit that a publish of an object is refused by that is not there yet."""
OBJECTS_RETRY_S = 10.0
"""After that who wants to publish one object more may ask again: one may have been deleted, or more agreed."""
_SHARE_MIN = 0.02
"""Of an equal share, what a node may let in whatever a verdict gives it: what it is asked for shows that it needs more.
All nodes together exceed the agreement by at most so much."""
_SHOWN_CHARS_MAX = 80
_MEASURED_OVER_S = 2.0
"""Time constant of the rate that a refusal names."""


class Admitted(NamedTuple):
    """It may be published."""

    tenant: str


RETRY_AFTER_S_MAX = 3600.0
"""An agreement may be of next to nothing, and may be another one an hour later."""


class GateRefused(NamedTuple):
    """It may not, now."""

    tenant: str
    limit: str
    """The field of the agreement."""
    allowed: float
    """Its value: for the tenant at all nodes together."""
    measured: float
    """What the tenant asks for per second: over all nodes where a verdict says so, else here."""
    retry_after_s: float
    """After that the same may be let in, unless others of the tenant come first. At most RETRY_AFTER_S_MAX."""

    def for_object(self, missing: str) -> str:
        """In words, if `limit` is OBJECTS: the publish was of `missing`, or of many and of this one among them."""
        words = f"there are {self.measured:.0f}, and object {missing[:_SHOWN_CHARS_MAX]} is none of them"
        return f"tenant {self.tenant} is above its agreement: {self.limit} is {self.allowed:.0f}; {words}"


class _Standing(NamedTuple):
    verdict: Verdict
    until_s: float


class Gate:
    """Lets publishes in, or refuses them, for all tenants at this node, and counts both. Times are of one clock, in s.

    Of n nodes each begins with 1/n of a rate. A verdict gives each its share; without a fresh one it is 1/n again,
    where n counts the nodes that verdicts named in the last minute in which there were any, and this one.
    """

    def __init__(self, table: TenantTable, counts: UsageCounts) -> None:
        self._table = table
        self._counts = counts
        self._standings: dict[str, _Standing] = {}
        self._limited: dict[str, _Limited] = {}
        self._doors = KnownNodes(counts.node)
        """Nodes that let publishes in."""
        self._tellers = KnownNodes(counts.node)
        """Matchers that tell others of publishes."""
        self._newest_s = float("-inf")

    def admit(self, domain: str, publishes: int, size_bytes: int, now_s: float) -> Admitted | GateRefused:
        """Asked for `publishes` of one domain that have `size_bytes` together: all of them are let in, or none."""
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

    def held_elsewhere(self, tenant: str, here: Iterable[str], now_s: float) -> tuple[int, int, int]:
        """How many objects, clients and registrations the tenant has in partitions that are not among `here`, as the
        verdict says; none of each without a verdict that counts."""
        standing = self._standing(tenant, now_s)
        found = [0, 0, 0]
        if standing is not None:
            not_here = standing.verdict.held.keys() - set(here)
            for node in not_here:
                found = [a + b for a, b in zip(found, standing.verdict.held[node], strict=True)]
        return found[0], found[1], found[2]

    def full_of_objects(self, domain: str, now_s: float) -> GateRefused | None:
        """Why one object more would be too many for the domain's tenant; None: it would not, as far as is known."""
        tenant = self._table.of(domain)
        most = tenant.agreement.objects_max
        if most is None:
            return None
        standing = self._standing(tenant.name, now_s)
        there_are = 0 if standing is None else standing.verdict.gauges.objects
        return GateRefused(tenant.name, OBJECTS, most, there_are, OBJECTS_RETRY_S) if there_are >= most else None

    def refuse(self, refused: GateRefused, publishes: int) -> None:
        """These were refused for another reason than their rate."""
        self._counts.changing(refused.tenant).refused += publishes

    def on_verdict(self, tenant: str, verdict: Verdict | None, age_s: float, now_s: float) -> None:
        """There is this verdict now, made `age_s` ago; None: none any more."""
        if verdict is None or age_s >= VERDICT_S:
            self._standings.pop(tenant, None)
        elif self._table.get(tenant) is not None:
            self._standings[tenant] = _Standing(verdict, now_s + VERDICT_S - max(0.0, age_s))
        if verdict is None or age_s < -NODE_SEEN_S or self._table.get(tenant) is None:
            return  # of who is no tenant, nobody's share is to become smaller
        made_s = now_s - max(0.0, age_s)
        self._doors.on_verdict(verdict.shares, made_s)
        self._tellers.on_verdict(verdict.out_shares, made_s)
        self._newest_s = max(self._newest_s, made_s)

    def on_agreement(self, tenant: Tenant, now_s: float) -> None:
        """The table has this tenant now: what comes in from now on comes in at its rates."""
        limited = self._limited.get(tenant.name)
        if limited is not None:
            limited.change(tenant.agreement, limited.share, now_s)

    def forget(self, tenant: str) -> None:
        """There is no such tenant any more."""
        self._standings.pop(tenant, None)
        self._limited.pop(tenant, None)

    def verdict_of(self, tenant: str, now_s: float) -> Verdict | None:
        """The tenant's verdict, if it counts."""
        standing = self._standing(tenant, now_s)
        return None if standing is None else standing.verdict

    def verdict_age_s(self, now_s: float) -> float:
        """How old the newest verdict is, of whatever tenant; infinite: there was none."""
        return now_s - self._newest_s

    @property
    def nodes(self) -> int:
        """How many nodes there are that let publishes in, as far as is known, this one among them."""
        return len(self._doors)

    def out_share(self, tenant: str, now_s: float) -> float:
        """Which part of the tenant's out-rates is this node's, if it tells others of publishes."""
        standing = self._standing(tenant, now_s)
        return self._part_of({} if standing is None else standing.verdict.out_shares, len(self._tellers))

    def fullest(self, now_s: float, at_least: float, most: int) -> list[tuple[str, str, float]]:
        """Tenant, limit and the part of it that is used, of those that use most; by verdicts that count."""
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
    """A tenant with a limit at this node."""

    def __init__(self, agreement: Agreement, share: float, now_s: float) -> None:
        self.agreement = agreement
        self.share = share
        self._buckets: dict[str, TokenBucket] = {}
        """By limit."""
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
    """A rate per second that forgets with _MEASURED_OVER_S."""

    __slots__ = ("_at_s", "_since_s", "_sum")

    def __init__(self, now_s: float) -> None:
        self._sum = 0.0
        self._at_s = self._since_s = now_s

    def add(self, number: float, now_s: float) -> None:
        self._fade(now_s)
        self._sum += number

    def value(self, now_s: float) -> float:
        self._fade(now_s)
        # Shortly after the beginning there is less to be remembered than later; of the first moment nothing is known.
        weight = 1 - exp(-max(now_s - self._since_s, 0.1) / _MEASURED_OVER_S)
        return self._sum / (_MEASURED_OVER_S * weight)

    def _fade(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._sum *= exp((self._at_s - now_s) / _MEASURED_OVER_S)
            self._at_s = now_s


class _OutOfOne(NamedTuple):
    """What one publish leads to, on the average."""

    deliveries: float
    out_bytes: float


def _out_of_one(standing: _Standing | None) -> _OutOfOne:
    """As in the last minute; nothing, where nobody has measured it. Whom a publish would reach is not known here."""
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
    capacity = max(1.0, rate * agreement.burst_s)  # of less than one, none would ever pass
    if before is None:
        return TokenBucket(rate, capacity, now_s)
    before.change(rate, capacity, now_s)
    return before


def _used(agreement: Agreement, verdict: Verdict) -> list[tuple[str, float]]:
    """By limit, the part of it that was used in the last minute, or is there now."""
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
