"""Counts the usage of tenants at one node, and builds the usage records. Pure."""

from collections.abc import Iterator

from coldnotify_schemas.tenant_usage import (
    USAGE_TENANTS_MAX,
    TenantCounters,
    UsageRecord,
    encode_usage,
    usage_partition_of,
)
from coldnotify_schemas.tenants import DEFAULT_TENANT

COUNTED_MAX = 40_000
"""Number of tenants counted: twice as many as may exist at a time, because tenants removed since the start stay."""
_ALL_EVERY_MS = 60_000
"""Interval of records of all tenants, including those without changes, so that a job that lost its table recovers."""


class UsageCounts:
    """One node's counters since its start, by tenant. They only grow: a lost or repeated record does no harm."""

    def __init__(self, node: str, boot: str) -> None:
        self.node = node
        self.boot = boot
        self._counters: dict[str, TenantCounters] = {}
        self._changed: set[str] = set()
        self._said: set[str] = set()
        """Tenants that the last records contained because they had changed. The next records repeat them, so that a
        rate falls to 0 at once."""
        self._all_said_ms: int | None = None

    def changing(self, tenant: str) -> TenantCounters:
        """Returns the counters of a tenant, which the caller changes at once: the next record contains them.

        A tenant beyond COUNTED_MAX is counted as `default`.
        """
        counters = self._counters.get(tenant)
        if counters is None:
            if len(self._counters) >= COUNTED_MAX:
                tenant = DEFAULT_TENANT
            counters = self._counters.setdefault(tenant, TenantCounters())
        self._changed.add(tenant)
        return counters

    def gauges(self, tenant: str, *, objects: int, clients: int, registrations: int) -> None:
        """Sets the current numbers; numbers equal to the former ones cause no record."""
        known = self._counters.get(tenant)
        there = (0, 0, 0) if known is None else (known.objects, known.clients, known.registrations)
        if there != (objects, clients, registrations):
            counters = self.changing(tenant)
            counters.objects, counters.clients, counters.registrations = objects, clients, registrations

    def tenants(self) -> list[str]:
        """Returns all tenants ever counted."""
        return list(self._counters)

    def of(self, tenant: str) -> TenantCounters | None:
        """Returns the tenant's counters, which the caller must not change; None if it was never counted."""
        return self._counters.get(tenant)

    def records(self, at_ms: int, partitions: int) -> Iterator[tuple[int, bytes]]:
        """Yields partition and value of the usage records to write now.

        They contain the tenants that changed since the last call, those that had changed then, and once a minute all.
        """
        names = self._changed | self._said
        if self._all_said_ms is None or at_ms - self._all_said_ms >= _ALL_EVERY_MS:
            names, self._all_said_ms = set(self._counters), at_ms
        self._said, self._changed = self._changed, set()
        by_partition: dict[int, list[str]] = {}
        for name in sorted(names):
            by_partition.setdefault(usage_partition_of(name, partitions), []).append(name)
        for partition, of_it in sorted(by_partition.items()):
            for begin in range(0, len(of_it), USAGE_TENANTS_MAX):
                said = {name: self._counters[name] for name in of_it[begin : begin + USAGE_TENANTS_MAX]}
                record = UsageRecord(node=self.node, boot=self.boot, at_ms=at_ms, tenants=said)
                yield partition, encode_usage(record)
