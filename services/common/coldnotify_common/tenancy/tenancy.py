"""Tenancy of a service: keeps the table and the gate up to date, and writes usage counters.

    tenancy = Tenancy(settings, "gateway")
    tenancy.start()
    verdict = tenancy.admit(domain, publishes, size_bytes)    # Admitted, or Refused with limit, retry_after_s ...
    tenancy.stop()

Safe to call from any thread: one lock is held for the microseconds of a look-up or a count, never during a wait.
"""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import structlog
from coldnotify_schemas.tenant_usage import Verdict, parse_verdict, partition_node
from coldnotify_schemas.tenants import InvalidTenant, parse_tenant, parse_tenant_key

from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.counting import UsageCounts
from coldnotify_common.tenancy.gate import Admitted, Gate, GateRefused
from coldnotify_common.tenancy.reader import TenancyReader
from coldnotify_common.tenancy.table import TableFull, TenantTable
from coldnotify_common.tenancy.usage_writer import UsageWriter

log = structlog.get_logger()
_paced = Paced(log)

DAMAGED_MAX = 1_000
"""Maximum number of damaged records kept; the metric counts no further ones."""
LABELLED_MAX = 50
"""Number of tenants with labels of their own in metrics: the first that were refused or thinned; all others share one
label."""
OTHERS = "(others)"
_SHOWN_CHARS_MAX = 80
NOT_READ_YET = "the tenants were not read yet"
"""The reason why a service that has just started is not ready."""
_NOTHING = (0, 0, 0)


class Used(NamedTuple):
    """Usage of a domain, as a matcher counts it."""

    publishes: int
    bytes: int
    deliveries: int
    out_bytes: int
    thinned: int
    high: int = 0


class OutLimit(NamedTuple):
    """This node's share of a tenant's outgoing rates, per second. None: no limit."""

    tenant: str
    per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class PartitionStock(NamedTuple):
    """Objects, clients and registrations of each domain in one partition of the matchers."""

    partition: int
    tenure: str
    """Differs for each owner of the partition: the numbers of an earlier owner no longer count."""
    by_domain: Mapping[str, tuple[int, int, int]]
    """Objects, live clients and registrations; domains without any are absent."""


class HeldLimit(NamedTuple):
    """Limits of a tenant on sessions and registrations, and its current numbers at all nodes, as far as this node
    knows. None: no limit."""

    tenant: str
    clients_max: int | None
    registrations_max: int | None
    clients: int
    registrations: int
    elsewhere: Mapping[str, tuple[int, int, int]]
    """Those among them that other nodes serve: objects, clients and registrations by the partition's node."""


class Tenancy:
    """Tenants of a service; see the module's docstring. `start` returns at once; `not_ready` is None once the tenants
    are known."""

    def __init__(self, settings: ServiceSettings, role: str) -> None:
        """`role`: the kind of service (http, gateway ...), the first part of the node's name in usage records."""
        self.lock = threading.Lock()
        """Held while any of the following is read or changed."""
        self.table = TenantTable()
        # Drawn at random, not configured: two nodes of the same name would each use the share of both.
        self.counts = UsageCounts(f"{role}-{secrets.token_hex(4)}", secrets.token_hex(8))
        self.gate = Gate(self.table, self.counts)
        self.damaged: dict[str, str] = {}
        """Damaged records: the error by key. The tenant keeps its former agreement, or is unknown."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """Refused publishes, sessions and registrations by tenant and limit; at most LABELLED_MAX tenants."""
        self.thinned: Counter[str] = Counter()
        """Deliveries saved by thinning, by tenant; at most LABELLED_MAX tenants."""
        self.admitted = 0
        self.not_ready: str | None = NOT_READ_YET
        """The reason why agreements are not known yet; None once they are, or if the topic does not exist."""
        self._seen: set[str] | None = None
        self._labelled: set[str] = set()
        self._held: dict[int, UsageCounts] = {}
        """Usage counts by partition, for the partitions that this matcher serves."""
        self._here: dict[str, tuple[int, int, int]] = {}
        """Objects, clients and registrations of each tenant in those partitions."""
        self._tenants_topic = settings.topics.tenants
        self._reader = TenancyReader(settings, self)
        self.writer = UsageWriter(settings, self._records)

    def start(self) -> None:
        """Starts reading and writing."""
        self._reader.start()
        self.writer.start()

    def stop(self) -> None:
        """Stops both, after writing the last counts. Takes some seconds at most."""
        self.writer.end()
        self._reader.stop()
        self.writer.stop()

    def admit(self, domain: str, publishes: int, size_bytes: int) -> Admitted | GateRefused:
        """Admits or refuses publishes at the current time, as Gate.admit does."""
        with self.lock:
            answer = self.gate.admit(domain, publishes, size_bytes, time.monotonic())
            if isinstance(answer, GateRefused):
                self.refused[self._label(answer.tenant), answer.limit] += publishes
            else:
                self.admitted += publishes
        return answer

    def used(self, by_domain: Iterable[tuple[str, Used]]) -> None:
        """Counts the usage of domains: for matchers, because all publishes pass through them."""
        with self.lock:
            for domain, use in by_domain:
                counted = self.table.of(domain)
                counters = self.counts.changing(counted.name)
                counters.publishes += use.publishes
                counters.bytes += use.bytes
                counters.deliveries += use.deliveries
                counters.out_bytes += use.out_bytes
                counters.thinned += use.thinned
                counters.high += use.high
                if use.thinned:
                    self.thinned[self._label(counted.name)] += use.thinned

    def holds(self, stocks: Iterable[PartitionStock]) -> None:
        """Takes the numbers of all partitions that this matcher serves; partitions that are not in `stocks` are
        dropped."""
        with self.lock:
            before, self._held, self._here = self._held, {}, {}
            for partition, tenure, by_domain in stocks:
                counts = before.get(partition)
                if counts is None or counts.boot != tenure:
                    counts = UsageCounts(partition_node(partition), tenure)
                self._held[partition] = counts
                sums: dict[str, tuple[int, int, int]] = {}
                for domain, has in by_domain.items():
                    name = self.table.of(domain).name
                    sums[name] = _plus(sums.get(name, _NOTHING), has)
                for name in {*counts.tenants(), *sums}:
                    objects, clients, registrations = sums.get(name, _NOTHING)
                    counts.gauges(name, objects=objects, clients=clients, registrations=registrations)
                for name, has in sums.items():
                    self._here[name] = _plus(self._here.get(name, _NOTHING), has)

    def turned_away(self, by_limit: Iterable[tuple[tuple[str, str], int]]) -> None:
        """Counts sessions and registrations that this matcher refused, by domain and limit of its tenant's
        agreement."""
        with self.lock:
            for (domain, limit), number in by_limit:
                name = self.table.of(domain).name
                self.counts.changing(name).turned_away += number
                self.refused[self._label(name), limit] += number

    def held_limits(self) -> list[HeldLimit]:
        """Returns the limits of all tenants with a limit on clients or registrations: for matchers."""
        with self.lock:
            now_s = time.monotonic()
            here = {partition_node(partition) for partition in self._held}
            found = []
            for tenant in self.table.limited_held():
                elsewhere = self.gate.held_elsewhere(tenant.name, here, now_s)
                _, clients, registrations = reduce(_plus, elsewhere.values(), self._here.get(tenant.name, _NOTHING))
                most = tenant.agreement.clients_max, tenant.agreement.registrations_max
                found.append(HeldLimit(tenant.name, *most, clients, registrations, elsewhere))
            return found

    def full_of_objects(self, domain: str) -> GateRefused | None:
        """Returns a refusal if another object would exceed the limit of the domain's tenant; None if it would not, as
        far as known."""
        with self.lock:
            return self.gate.full_of_objects(domain, time.monotonic())

    def refuse_objects(self, refused: GateRefused, publishes: int) -> None:
        """Counts publishes that were refused because some of them would have created another object."""
        with self.lock:
            self.gate.refuse(refused, publishes)
            self.refused[self._label(refused.tenant), refused.limit] += publishes

    def tenant_of(self, domain: str) -> str:
        """Returns the name of the tenant that a domain belongs to."""
        with self.lock:
            return self.table.of(domain).name

    def out_limits(self) -> list[OutLimit]:
        """Returns the limits of all tenants with a limit on outgoing deliveries: for matchers."""
        with self.lock:
            now_s = time.monotonic()
            found = []
            for tenant in self.table.limited_out():
                agreement, share = tenant.agreement, self.gate.out_share(tenant.name, now_s)
                per_s, bytes_per_s = (
                    None if rate is None else rate * share for rate in (agreement.out_per_s, agreement.out_bytes_per_s)
                )
                found.append(OutLimit(tenant.name, per_s, bytes_per_s, agreement.burst_s))
            return found

    def high_shares(self) -> list[tuple[str, float]]:
        """Returns for each tenant the share of its publishes that may be of high priority: for matchers."""
        with self.lock:
            return [(tenant.name, tenant.agreement.high_priority_share) for tenant in self.table.all()]

    def verdict_of(self, tenant: str) -> Verdict | None:
        """Returns the tenant's verdict if it is still valid, otherwise None."""
        with self.lock:
            return self.gate.verdict_of(tenant, time.monotonic())

    def on_load(self) -> None:
        """Begins a read of the tenants topic from its beginning. The reader's thread calls this and the methods
        below."""
        self._seen = set()

    def on_tenant(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a record of the tenants topic. A damaged one is skipped, kept in `damaged` and logged."""
        shown = (key or b"").decode(errors="replace")[:_SHOWN_CHARS_MAX]
        try:
            name = parse_tenant_key(key)
            if self._seen is not None:
                self._seen.add(name)
            tenant = None if value is None else parse_tenant(key, value)
        except InvalidTenant as error:
            self._on_damaged(shown, str(error))
            return
        with self.lock:
            self.damaged.pop(shown, None)
            if tenant is None:
                self.table.remove(name)
                self.gate.forget(name)
                return
            try:
                self.table.put(tenant)
            except TableFull as error:
                full = str(error)
            else:
                self.gate.on_agreement(tenant, time.monotonic())
                conflicts = self.table.conflicts()
                clash = next((domain for domain in tenant.domains if domain in conflicts), None)
                if clash is not None:
                    words = "a domain is in several tenants; it belongs to the first of them"
                    _paced.log(words, level="warning", domain=clash, tenants=list(conflicts[clash]))
                return
        self._on_damaged(shown, full)

    def on_loaded(self, *, missing: bool) -> None:
        """The tenants topic was read up to its end: removes tenants that were not in it."""
        seen, self._seen = self._seen, None
        if seen is not None and not missing:
            with self.lock:
                for tenant in self.table.all():
                    if tenant.name not in seen:
                        self.table.remove(tenant.name)
                        self.gate.forget(tenant.name)
        self.not_ready = None

    def on_verdict(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a record of the verdicts topic. A damaged one is skipped, because a verdict is valid only for a short
        time."""
        try:
            name = parse_tenant_key(key)
            verdict = None if value is None else parse_verdict(value)
        except InvalidTenant as error:
            _paced.log("a verdict cannot be read", level="warning", reason=str(error))
            return
        age_s = 0.0 if verdict is None else time.time() - verdict.at_ms / 1000
        with self.lock:
            self.gate.on_verdict(name, verdict, age_s, time.monotonic())

    def on_unreadable(self, topic: str, offset: int, reason: str) -> None:
        """Reports an unreadable record of either topic; its tenant is not known."""
        if topic == self._tenants_topic:
            self._on_damaged(f"@{offset}", reason)
        else:
            _paced.log("a verdict cannot be read", level="warning", offset=offset, reason=reason)

    def _on_damaged(self, key: str, reason: str) -> None:
        _paced.log("a tenant's record cannot be read, and is skipped", level="warning", key=key, reason=reason)
        with self.lock:
            if key in self.damaged or len(self.damaged) < DAMAGED_MAX:
                self.damaged[key] = reason

    def _label(self, tenant: str) -> str:
        if tenant not in self._labelled:
            if len(self._labelled) >= LABELLED_MAX:
                return OTHERS
            self._labelled.add(tenant)
        return tenant

    def _records(self, at_ms: int, partitions: int) -> Iterator[tuple[int, bytes]]:
        with self.lock:
            records = list(self.counts.records(at_ms, partitions))
            for counts in self._held.values():
                records += counts.records(at_ms, partitions)
        yield from records


def _plus(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
