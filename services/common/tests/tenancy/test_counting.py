"""What a node counts: records say what changes, in its tenant's partition, and once a minute everything."""

import pytest
from coldnotify_common.tenancy import counting
from coldnotify_common.tenancy.counting import UsageCounts
from coldnotify_schemas.tenant_usage import (
    USAGE_TENANTS_MAX,
    TenantCounters,
    UsageRecord,
    parse_usage,
    usage_partition_of,
)


def said(counts: UsageCounts, at_ms: int) -> dict[str, TenantCounters]:
    found: dict[str, TenantCounters] = {}
    for partition, value in counts.records(at_ms, 8):
        record = parse_usage(value)
        assert (record.node, record.boot, record.at_ms) == ("http-1", "b", at_ms)
        assert {usage_partition_of(name, 8) for name in record.tenants} == {partition}
        found.update(record.tenants)
    return found


def test_what_has_changed_is_said_as_it_stands() -> None:
    counts = UsageCounts("http-1", "b")
    assert said(counts, 0) == {}
    counts.changing("acme").admitted += 3
    counts.changing("other").refused += 1
    assert said(counts, 1000) == {"acme": TenantCounters(admitted=3), "other": TenantCounters(refused=1)}
    counts.changing("acme").admitted += 1
    assert said(counts, 2000) == {"acme": TenantCounters(admitted=4), "other": TenantCounters(refused=1)}, (
        "once more: no rate"
    )
    assert said(counts, 3000) == {"acme": TenantCounters(admitted=4)}
    assert said(counts, 4000) == {}
    assert said(counts, 60_000) == {"acme": TenantCounters(admitted=4), "other": TenantCounters(refused=1)}
    assert counts.of("nobody") is None


def test_a_gauge_is_said_when_it_changes_and_when_it_is_zero_again() -> None:
    counts = UsageCounts("http-1", "b")
    said(counts, 0)
    counts.gauges("acme", objects=0, clients=0, registrations=0)
    assert counts.tenants() == []
    counts.gauges("acme", objects=2, clients=1, registrations=5)
    assert said(counts, 1) == {"acme": TenantCounters(objects=2, clients=1, registrations=5)}
    counts.gauges("acme", objects=2, clients=1, registrations=5)
    assert said(counts, 2) == {"acme": TenantCounters(objects=2, clients=1, registrations=5)}
    assert said(counts, 3) == {}
    counts.gauges("acme", objects=0, clients=0, registrations=0)
    assert said(counts, 4) == {"acme": TenantCounters()}


def test_a_record_has_a_bound_and_so_have_the_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = UsageCounts("http-1", "b")
    names = [f"t{n}" for n in range(USAGE_TENANTS_MAX + 1)]
    for name in names:
        counts.changing(name).publishes += 1
    records: list[UsageRecord] = [parse_usage(value) for _, value in counts.records(0, 1)]
    assert [len(record.tenants) for record in records] == [USAGE_TENANTS_MAX, 1]
    monkeypatch.setattr(counting, "COUNTED_MAX", len(names))
    counts.changing("one-more").publishes += 7
    counts.changing("and-another").publishes += 1
    assert counts.of("one-more") is None
    list(counts.records(1, 1))
    (_, value), *_ = counts.records(2, 1)
    assert parse_usage(value).tenants == {"default": TenantCounters(publishes=8)}
