"""What a node counts for tenants, and the usage records that say so. Pure."""

from collections.abc import Iterator

from coldnotify_schemas.tenants import (
    DEFAULT_TENANT,
    USAGE_TENANTS_MAX,
    TenantCounters,
    UsageRecord,
    encode_usage,
    usage_partition_of,
)

COUNTED_MAX = 40_000
"""Tenants that are counted: twice as many as there may be at a time, for those that were removed since the start."""
_ALL_EVERY_MS = 60_000
"""How often all tenants are said, also those for whom nothing has changed: a job that lost its table has them again."""


class UsageCounts:
    """One node's counters since its start, by tenant. They only grow: a record that is lost or repeated harms none."""

    def __init__(self, node: str, boot: str) -> None:
        self.node = node
        self.boot = boot
        self._counters: dict[str, TenantCounters] = {}
        self._changed: set[str] = set()
        self._said: set[str] = set()
        """What the last records said because it had changed: they are said once more, so that a rate ends at once."""
        self._all_said_ms: int | None = None

    def changing(self, tenant: str) -> TenantCounters:
        """The counters of a tenant, which the caller changes at once: they stand in the next record.

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
        """How many there are now; nothing is said where that is as before."""
        known = self._counters.get(tenant)
        there = (0, 0, 0) if known is None else (known.objects, known.clients, known.registrations)
        if there != (objects, clients, registrations):
            counters = self.changing(tenant)
            counters.objects, counters.clients, counters.registrations = objects, clients, registrations

    def tenants(self) -> list[str]:
        """All that were ever counted."""
        return list(self._counters)

    def of(self, tenant: str) -> TenantCounters | None:
        """As they stand; not to be changed."""
        return self._counters.get(tenant)

    def records(self, at_ms: int, partitions: int) -> Iterator[tuple[int, bytes]]:
        """Partition and value of what is to be written now.

        That is what has changed since the last time, what had changed then, and once a minute all.
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
