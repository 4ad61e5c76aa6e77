"""The usage of one partition's tenants: `PartitionUsage` takes records of the usage topic and computes verdicts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from coldnotify_schemas.tenant_usage import COUNT_MAX, CUMULATIVE, Rates, TenantCounters, UsageRecord, Verdict
from coldnotify_schemas.tenants import UNLIMITED, Agreement

from coldnotify_usage.core.highs import NO_COUNTS, Counts, plus, total
from coldnotify_usage.core.log_clock import LATE_MS_MAX, LogClock, time_of
from coldnotify_usage.core.seen import DAY_MS, HOUR_MS, NO_GAUGES, SeenCounts
from coldnotify_usage.core.verdict_rules import Judge, Measured

NODE_SILENT_MS = 75_000
"""A node reports all its tenants once a minute; after this silence it is gone, and its gauges with it."""
RATE_MS = 2_500
"""How long a rate counts as current: a node that reports no more of a tenant has nothing to report, or is dead."""
INTERVAL_MS_MAX = 5_000
INTERVAL_MS = 1_000
"""A node writes changes once a second. After a longer silence, the whole rise happened in the last second."""
INTERVAL_MS_MIN = 200
"""Two records of one node may have come to the broker at nearly one time."""
CLOSED_AFTER_MS = HOUR_MS
"""A day's counters are forgotten so long behind its end: nothing that is read then is of that day."""
REFRESH_MS = 10_000
"""A verdict that has not changed is written again, while its tenant has limits: before it expires after 20 s."""
SPACING_MS = 1_000
SPACING_UNLIMITED_MS = 5_000
"""Between two verdicts of one tenant; nobody is held to those of a tenant without limits."""

Span = Literal["hour", "day"]
SPANS: tuple[tuple[Span, int], ...] = (("hour", HOUR_MS), ("day", DAY_MS))
Boot = tuple[str, str]
"""A node, and its start."""


class SeenKey(NamedTuple):
    """Identifies a tenant's counters at one node's boot: the key of a stored record."""

    tenant: str
    node: str
    boot: str

    def encode(self) -> bytes:
        """Returns the key to store; "/" is in no name."""
        return "/".join(self).encode()

    @classmethod
    def decode(cls, key: bytes) -> "SeenKey":
        """Parses the result of encode(). Raises ValueError."""
        tenant, node, boot = key.decode().split("/")
        return cls(tenant, node, boot)


class SetAside(NamedTuple):
    """A tenant in a record that could not be counted."""

    tenant: str
    reason: Literal["partition", "room"]
    """The record belongs to another partition, or there are too many counters."""


class Counted(NamedTuple):
    """A tenant's usage in an hour or a day."""

    tenant: str
    span: Span
    start_ms: int
    counts: Counts


@dataclass(slots=True)
class _Tenant:
    """One tenant here."""

    seen: dict[Boot, SeenCounts] = field(default_factory=dict)
    risen: Counts = NO_COUNTS
    """The rise of its counts since the job took the partition over, as far as the time of the rise is known."""
    heard_ms: int = 0
    judge: Judge | None = None
    verdict: Verdict | None = None
    """The verdict that was sent last."""
    quiet: bool = False
    """True if that verdict says that nothing happens, and that nothing exists."""


class PartitionUsage:
    """The counters of a partition's tenants. It has no clock: each call passes the time."""

    def __init__(self, belongs: Callable[[str], bool], has_room: Callable[[], bool]) -> None:
        """`belongs`: whether a tenant's usage is in this partition. `has_room`: for one more counter."""
        self._belongs = belongs
        self._has_room = has_room
        self._tenants: dict[str, _Tenant] = {}
        self._nodes: dict[str, tuple[str, int]] = {}
        """By node: the newest boot, and when its last record came, by the broker's clock."""
        self._said: dict[Boot, tuple[int, int | None]] = {}
        """The time of its newest record, by its own clock, and the interval before that."""
        self._changed: set[SeenKey] = set()
        self._counted: set[tuple[str, Span, int]] = set()
        self._swept: Iterator[SeenKey] = iter(())
        self.clock = LogClock()
        self.seen_count = 0
        """Number of counters, by tenant, node and boot."""

    @property
    def tenants(self) -> int:
        """The number of known tenants."""
        return len(self._tenants)

    def load(self, key: SeenKey, seen: SeenCounts) -> None:
        """Loads a stored counter. All of them are loaded before the first record."""
        tenant = self._tenants.setdefault(key.tenant, _Tenant())
        tenant.seen[key.node, key.boot] = seen
        tenant.heard_ms = max(tenant.heard_ms, seen.at_ms)
        self.seen_count += 1
        boot = (key.node, key.boot)
        if seen.at_ms >= self._said.get(boot, (0, None))[0]:
            self._said[boot] = (seen.at_ms, None)
        self._hear(*boot, seen.at_ms)
        # What was told of these last is not known, also of an hour that was over when it was stored: it is told again.
        for (span, ms), highs in zip(SPANS, (seen.hours, seen.days), strict=True):
            self._counted.update((key.tenant, span, window * ms) for window in highs.windows)

    def on_record(self, record: UsageRecord, broker_ms: int, now_ms: int) -> list[SetAside]:
        """A record, which the broker had at `broker_ms`. Those of its tenants that could not be counted, and why."""
        broker_ms = min(broker_ms, now_ms + LATE_MS_MAX)
        self.clock.on_record(broker_ms, now_ms)
        at_ms = time_of(record.at_ms, broker_ms)
        boot = (record.node, record.boot)
        interval_ms = self._interval(boot, record.at_ms)
        set_aside = []
        for name, counters in record.tenants.items():
            tenant = self._tenants.get(name)
            seen = tenant.seen.get(boot) if tenant is not None else None
            if seen is None:
                if not self._belongs(name):
                    set_aside.append(SetAside(name, "partition"))
                    continue
                if not self._has_room():
                    set_aside.append(SetAside(name, "room"))
                    continue
                if tenant is None:
                    tenant = self._tenants[name] = _Tenant()
                seen = tenant.seen[boot] = SeenCounts()
                self.seen_count += 1
            assert tenant is not None
            rise, changed = seen.add(at_ms, counters, interval_ms, broker_ms)
            tenant.heard_ms = max(tenant.heard_ms, broker_ms)
            if tenant.judge is None:
                tenant.judge = Judge(at_ms - (interval_ms or INTERVAL_MS), NO_COUNTS)
            if interval_ms is not None and any(rise):
                tenant.risen = plus(tenant.risen, rise)
            if changed:
                self._changed.add(SeenKey(name, *boot))
                self._counted.update((name, span, at_ms - at_ms % ms) for span, ms in SPANS)
        if len(set_aside) < len(record.tenants):
            if record.at_ms > self._said.get(boot, (-1, None))[0] or interval_ms is None:
                self._said[boot] = (record.at_ms, interval_ms)
            self._hear(*boot, broker_ms)
        return set_aside

    def take_changed(self) -> Iterator[tuple[SeenKey, SeenCounts | None]]:
        """Yields what must be stored since the last call; None: it must be removed."""
        changed, self._changed = self._changed, set()
        for key in changed:
            tenant = self._tenants.get(key.tenant)
            yield key, tenant.seen.get((key.node, key.boot)) if tenant is not None else None

    def take_counted(self) -> Iterator[Counted]:
        """The hours and days whose counts may have changed since the last time."""
        counted, self._counted = self._counted, set()
        for name, span, start_ms in counted:
            tenant = self._tenants.get(name)
            if tenant is None:
                continue
            window = start_ms // dict(SPANS)[span]
            highs = (seen.hours if span == "hour" else seen.days for seen in tenant.seen.values())
            counts = total(one.counted(window) for one in highs)
            yield Counted(name, span, start_ms, tuple(min(one, COUNT_MAX) for one in counts))

    def verdicts(self, now_ms: int, agreement_of: Callable[[str], Agreement | None]) -> Iterator[tuple[str, Verdict]]:
        """Yields the verdicts to send now; none before a record was read, because the present usage is unknown then."""
        at_ms = self.clock.read(now_ms)
        if at_ms is None:
            return
        for name, tenant in self._tenants.items():
            agreement = agreement_of(name)
            last = tenant.verdict
            if last is not None:
                age_ms = at_ms - last.at_ms
                if age_ms < (SPACING_UNLIMITED_MS if agreement is None else SPACING_MS):
                    continue
                if tenant.quiet and tenant.heard_ms <= last.at_ms and (agreement is None or age_ms < REFRESH_MS):
                    continue
            elif agreement is None and tenant.heard_ms < at_ms - NODE_SILENT_MS:
                continue  # nothing happens, and nobody is limited
            verdict = self._judge(tenant, at_ms, agreement or UNLIMITED)
            if last is None or (agreement is not None and age_ms >= REFRESH_MS) or not _says_the_same(verdict, last):
                tenant.verdict = verdict
                tenant.quiet = _is_quiet(verdict)
                yield name, verdict

    def forget(self, now_ms: int, at_most: int) -> None:
        """Checks some counters and forgets those of closed days; take_changed() returns them."""
        at_ms = self.clock.read(now_ms)
        if at_ms is None:
            return
        for _ in range(at_most):
            key = next(self._swept, None)
            if key is None:
                self._swept = iter(
                    [SeenKey(name, *boot) for name, tenant in self._tenants.items() for boot in tenant.seen]
                )
                return
            tenant = self._tenants.get(key.tenant)
            seen = tenant.seen.get((key.node, key.boot)) if tenant is not None else None
            if tenant is None or seen is None or not _is_closed(seen.at_ms, at_ms):
                continue
            del tenant.seen[key.node, key.boot]
            self.seen_count -= 1
            self._changed.add(key)
            if not tenant.seen:
                del self._tenants[key.tenant]
            self._forget_node(key.node, key.boot, at_ms)

    def _interval(self, boot: Boot, at_ms: int) -> int | None:
        """Returns the time in which a new record's counts have risen, by the node's clock; None if that is unknown."""
        if boot not in self._said:
            return None
        last_ms, interval_ms = self._said[boot]
        passed_ms = at_ms - last_ms
        if passed_ms == 0:
            return interval_ms  # one more record of the same second: a node may have many tenants
        if passed_ms < 0:
            return None  # an old record, or its clock was set back
        return INTERVAL_MS if passed_ms > INTERVAL_MS_MAX else max(passed_ms, INTERVAL_MS_MIN)

    def _hear(self, node: str, boot: str, broker_ms: int) -> None:
        if broker_ms >= self._nodes.get(node, ("", 0))[1]:
            self._nodes[node] = (boot, broker_ms)

    def _forget_node(self, node: str, boot: str, at_ms: int) -> None:
        """One of its counters was forgotten; without any that is not closed the node's start is, too."""
        said = self._said.get((node, boot))
        if said is not None and _is_closed(said[0], at_ms):
            del self._said[node, boot]
        newest, heard_ms = self._nodes.get(node, ("", 0))
        if newest == boot and _is_closed(heard_ms, at_ms):
            del self._nodes[node]

    def _judge(self, tenant: _Tenant, at_ms: int, agreement: Agreement) -> Verdict:
        if tenant.judge is None:
            tenant.judge = Judge(at_ms, tenant.risen)
        return tenant.judge.judge(at_ms, self._measure(tenant, at_ms), agreement)

    def _measure(self, tenant: _Tenant, at_ms: int) -> Measured:
        per_s = [0.0] * len(NO_COUNTS)
        gauges = [0] * len(NO_GAUGES)
        doors: dict[str, tuple[float, ...]] = {}
        tellers: dict[str, tuple[float, ...]] = {}
        held: dict[str, tuple[int, ...]] = {}
        for (node, boot), seen in tenant.seen.items():
            newest, heard_ms = self._nodes.get(node, ("", 0))
            if newest != boot or heard_ms < at_ms - NODE_SILENT_MS:
                continue
            for number, gauge in enumerate(seen.gauges):
                gauges[number] += gauge
            if any(seen.gauges):
                held[node] = seen.gauges
            rate = seen.rate if seen.rate_at_ms >= at_ms - RATE_MS else None
            for number, one in enumerate(rate or ()):
                per_s[number] += one
            if any(seen.top[number] for number in _DOOR):
                doors[node] = rate or _NO_RATE
            if any(seen.top[number] for number in _TELLER):
                tellers[node] = rate or _NO_RATE
        return Measured(tenant.risen, tuple(per_s), tuple(gauges), doors, tellers, held)


_DOOR = tuple(CUMULATIVE.index(name) for name in ("admitted", "refused"))
_TELLER = tuple(CUMULATIVE.index(name) for name in ("publishes", "deliveries", "thinned"))
_NO_RATE = (0.0,) * len(CUMULATIVE)


def _says_the_same(one: Verdict, other: Verdict) -> bool:
    """All but the time."""
    return _says(one) == _says(other)


def _says(verdict: Verdict) -> tuple[object, ...]:
    return (
        verdict.per_s,
        verdict.per_min,
        verdict.gauges,
        verdict.shares,
        verdict.out_shares,
        verdict.exceeded,
        verdict.held,
    )


def _is_quiet(verdict: Verdict) -> bool:
    return (verdict.per_s, verdict.per_min, verdict.gauges) == (Rates(), Rates(), TenantCounters())


def _is_closed(day_of_ms: int, at_ms: int) -> bool:
    """Returns true if the day of a time is closed for good."""
    return (at_ms - CLOSED_AFTER_MS) // DAY_MS > day_of_ms // DAY_MS
