"""Tenants as a service uses them: the table and the gate, kept up to date, and counters that are written.

    tenancy = Tenancy(settings, "gateway")
    tenancy.start()
    verdict = tenancy.admit(domain, publishes, size_bytes)    # Admitted, or Refused with limit, retry_after_s ...
    tenancy.stop()

Any thread may ask: one lock is held for the microseconds of a look-up or a count, never during a wait.
"""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog
from coldnotify_schemas.tenants import (
    InvalidTenant,
    Verdict,
    parse_tenant,
    parse_tenant_key,
    parse_verdict,
    partition_node,
)

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
"""Damaged records that are remembered; more are counted as so many."""
LABELLED_MAX = 50
"""Tenants that have labels of their own in metrics, those that were refused or thinned first; all others share one."""
OTHERS = "(others)"
_SHOWN_CHARS_MAX = 80
NOT_READ_YET = "the tenants were not read yet"
"""Why a service that has just started is not ready."""
_NOTHING = (0, 0, 0)


class Used(NamedTuple):
    """What a domain used, as a matcher sees it."""

    publishes: int
    bytes: int
    deliveries: int
    out_bytes: int
    thinned: int
    high: int = 0


class OutLimit(NamedTuple):
    """What this node may tell of a tenant's publishes, a second: its part of the agreement. None: no limit."""

    tenant: str
    per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class PartitionStock(NamedTuple):
    """What domains have in one partition of the matchers'."""

    partition: int
    tenure: str
    """Another one for each owner: what an earlier one said counts no more."""
    by_domain: Mapping[str, tuple[int, int, int]]
    """Objects, live clients, registrations; nothing of all others."""


class HeldLimit(NamedTuple):
    """How many sessions and registrations a tenant may have, and has at all nodes as far as this one knows. None: no
    limit."""

    tenant: str
    clients_max: int | None
    registrations_max: int | None
    clients: int
    registrations: int


class Tenancy:
    """See the module's docstring. `start` returns at once; `not_ready` says when the tenants are known."""

    def __init__(self, settings: ServiceSettings, role: str) -> None:
        """`role`: http, gateway ...: the beginning of the node's name in usage records."""
        self.lock = threading.Lock()
        """Held while any of the following is read or changed."""
        self.table = TenantTable()
        # Drawn, not configured: two nodes of one name would each use the share of both.
        self.counts = UsageCounts(f"{role}-{secrets.token_hex(4)}", secrets.token_hex(8))
        self.gate = Gate(self.table, self.counts)
        self.damaged: dict[str, str] = {}
        """What is wrong with a record, by its key. The tenant is as it was before, or unknown."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """Refused publishes, sessions and registrations by tenant and limit; at most LABELLED_MAX tenants."""
        self.thinned: Counter[str] = Counter()
        """By tenant, deliveries that its agreement has spared; at most as many."""
        self.admitted = 0
        self.not_ready: str | None = NOT_READ_YET
        """Why agreements are not known yet; None: they are, or there is no such topic."""
        self._seen: set[str] | None = None
        self._labelled: set[str] = set()
        self._held: dict[int, UsageCounts] = {}
        """By the partitions that this matcher serves."""
        self._here: dict[str, tuple[int, int, int]] = {}
        """By tenant, what it has in them."""
        self._tenants_topic = settings.topics.tenants
        self._reader = TenancyReader(settings, self)
        self.writer = UsageWriter(settings, self._records)

    def start(self) -> None:
        """Begins to read, and to write."""
        self._reader.start()
        self.writer.start()

    def stop(self) -> None:
        """Ends both; the last counts are written. Takes some seconds at most."""
        self.writer.end()
        self._reader.stop()
        self.writer.stop()

    def admit(self, domain: str, publishes: int, size_bytes: int) -> Admitted | GateRefused:
        """As Gate.admit, now."""
        with self.lock:
            answer = self.gate.admit(domain, publishes, size_bytes, time.monotonic())
            if isinstance(answer, GateRefused):
                self.refused[self._label(answer.tenant), answer.limit] += publishes
            else:
                self.admitted += publishes
        return answer

    def used(self, by_domain: Iterable[tuple[str, Used]]) -> None:
        """Counts what domains used: for matchers, through whom all of it goes."""
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
        """What domains have in the partitions that this matcher serves, all of them: of others it says nothing more."""
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
        """By domain and limit of its tenant's agreement, sessions and registrations that this matcher refused."""
        with self.lock:
            for (domain, limit), number in by_limit:
                name = self.table.of(domain).name
                self.counts.changing(name).turned_away += number
                self.refused[self._label(name), limit] += number

    def held_limits(self) -> list[HeldLimit]:
        """Those of all tenants with a limit on clients or registrations, now: for matchers."""
        with self.lock:
            now_s = time.monotonic()
            here = [partition_node(partition) for partition in self._held]
            found = []
            for tenant in self.table.limited_held():
                elsewhere = self.gate.held_elsewhere(tenant.name, here, now_s)
                _, clients, registrations = _plus(elsewhere, self._here.get(tenant.name, _NOTHING))
                agreed = tenant.agreement
                found.append(
                    HeldLimit(tenant.name, agreed.clients_max, agreed.registrations_max, clients, registrations)
                )
            return found

    def full_of_objects(self, domain: str) -> GateRefused | None:
        """Why one object more would be too many for the domain's tenant; None: it would not, as far as is known."""
        with self.lock:
            return self.gate.full_of_objects(domain, time.monotonic())

    def refuse_objects(self, refused: GateRefused, publishes: int) -> None:
        """Publishes were refused, some of which would have made one object more."""
        with self.lock:
            self.gate.refuse(refused, publishes)
            self.refused[self._label(refused.tenant), refused.limit] += publishes

    def tenant_of(self, domain: str) -> str:
        """The name of the tenant that a domain belongs to."""
        with self.lock:
            return self.table.of(domain).name

    def out_limits(self) -> list[OutLimit]:
        """Those of all tenants with a limit on what goes out, now: for matchers."""
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
        """Of each tenant with an agreement, which part of its publishes may be of high priority: for matchers."""
        with self.lock:
            return [(tenant.name, tenant.agreement.high_priority_share) for tenant in self.table.all()]

    def verdict_of(self, tenant: str) -> Verdict | None:
        """The tenant's verdict, if it counts."""
        with self.lock:
            return self.gate.verdict_of(tenant, time.monotonic())

    def on_load(self) -> None:
        """The tenants topic is read from its beginning. From the reader's thread, as all that follows."""
        self._seen = set()

    def on_tenant(self, key: bytes | None, value: bytes | None) -> None:
        """A record of it. A damaged one is skipped, counted and told."""
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
        """The tenants topic was read up to its end."""
        seen, self._seen = self._seen, None
        if seen is not None and not missing:
            with self.lock:
                for tenant in self.table.all():
                    if tenant.name not in seen:
                        self.table.remove(tenant.name)
                        self.gate.forget(tenant.name)
        self.not_ready = None

    def on_verdict(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the verdicts topic. A damaged one is skipped: what it would say does not count for long."""
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
        """A record of either topic that nobody can read, whosever it was."""
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
