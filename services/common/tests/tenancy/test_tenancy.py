"""Tenants in a service: what records of the topics change, what damaged ones do not, and what is counted. No Kafka."""

import json
import time

import pytest
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy import tenancy as module
from coldnotify_common.tenancy.gate import OBJECTS_RETRY_S, Admitted, GateRefused
from coldnotify_common.tenancy.tenancy import PartitionStock, Tenancy, Used
from coldnotify_schemas.tenant_usage import TenantCounters, Verdict, encode_verdict, parse_usage
from coldnotify_testkit.waiting import wait_for

NOWHERE = ServiceSettings(kafka="127.0.0.1:1")


@pytest.fixture
def tenancy() -> Tenancy:
    return Tenancy(NOWHERE, "http")


def record(*domains: str, **agreed: object) -> bytes:
    return json.dumps({"domains": domains, **agreed}).encode()


def test_records_of_the_tenants_topic_say_who_is_limited(tenancy: Tenancy) -> None:
    before = tenancy.not_ready
    assert before is not None
    tenancy.on_load()
    tenancy.on_tenant(b"acme", record("a", in_per_s=1, burst_s=1))
    tenancy.on_loaded(missing=False)
    assert tenancy.not_ready is None
    assert tenancy.admit("a", 1, 10) == Admitted("acme")
    refused = tenancy.admit("a", 1, 10)
    assert isinstance(refused, GateRefused)
    assert (refused.tenant, refused.limit) == ("acme", "in_per_s")
    tenancy.on_tenant(b"acme", record("a", in_per_s=10_000))
    wait_for(lambda: tenancy.admit("a", 1, 10) == Admitted("acme"), "a token came")
    tenancy.on_tenant(b"acme", None)
    assert tenancy.admit("a", 10**6, 10) == Admitted("default")
    assert tenancy.refused["acme", "in_per_s"] >= 1
    assert tenancy.admitted == 2 + 10**6


@pytest.mark.parametrize("value", [b"{", b"\xff\x00", b'{"domains": ["a"], "in_per_s": -5}', b"[]", b"7"])
def test_a_damaged_record_is_skipped_counted_and_told_and_stops_nothing(
    tenancy: Tenancy, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    tenancy.on_load()
    tenancy.on_tenant(b"acme", record("a", in_per_s=1, burst_s=1))
    tenancy.on_tenant(b"acme", value)
    tenancy.on_tenant(b"no/name", record("b"))
    tenancy.on_tenant(None, record("c"))
    tenancy.on_tenant(b"other", record("d", in_per_s=1, burst_s=1))
    tenancy.on_loaded(missing=False)
    assert set(tenancy.damaged) == {"acme", "no/name", ""}
    assert tenancy.admit("a", 1, 1) == Admitted("acme"), "it is as it was before"
    assert tenancy.admit("d", 1, 1) == Admitted("other")
    assert tenancy.admit("b", 1, 1) == Admitted("default")
    tenancy.on_tenant(b"acme", record("a"))
    assert set(tenancy.damaged) == {"no/name", ""}


def test_damaged_records_have_a_bound(tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DAMAGED_MAX", 3)
    for n in range(10):
        tenancy.on_tenant(b"t%d" % n, b"{")
    assert len(tenancy.damaged) == 3


def test_a_domain_of_two_tenants_belongs_to_the_first_and_is_told(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"b", record("x"))
    tenancy.on_tenant(b"a", record("x", "y"))
    assert tenancy.admit("x", 1, 1) == Admitted("a")
    assert tenancy.table.conflicts() == {"x": ("a", "b")}


def test_what_a_topic_that_is_read_anew_does_not_have_is_gone(tenancy: Tenancy) -> None:
    tenancy.on_load()
    tenancy.on_tenant(b"a", record("x"))
    tenancy.on_tenant(b"b", record("y"))
    tenancy.on_loaded(missing=False)
    tenancy.on_loaded(missing=False)
    assert len(tenancy.table) == 2
    tenancy.on_load()
    tenancy.on_tenant(b"b", record("y"))
    tenancy.on_loaded(missing=True)
    tenancy.on_load()
    tenancy.on_tenant(b"b", record("y"))
    tenancy.on_loaded(missing=False)
    assert [tenant.name for tenant in tenancy.table.all()] == ["b"]


def test_without_the_topic_nobody_is_limited_and_the_service_is_ready(tenancy: Tenancy) -> None:
    tenancy.on_loaded(missing=True)
    assert tenancy.not_ready is None
    assert tenancy.admit("a", 10**6, 1) == Admitted("default")


def test_a_verdict_counts_by_its_age(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", in_per_s=1))
    now_ms = int(time.time() * 1000)
    tenancy.on_verdict(b"acme", b'{"at_ms": %d, "until_ms": 1, "shares": {"other": 0.5}}' % (now_ms - 30_000))
    assert tenancy.verdict_of("acme") is None
    tenancy.on_verdict(b"acme", b'{"at_ms": %d, "until_ms": 1, "shares": {"other": 0.5}}' % now_ms)
    tenancy.on_verdict(b"acme", b"{")
    tenancy.on_verdict(b"a/b", b"{}")
    verdict = tenancy.verdict_of("acme")
    assert verdict is not None
    assert verdict.shares == {"other": 0.5}
    assert tenancy.gate.nodes == 2
    tenancy.on_verdict(b"acme", None)
    assert tenancy.verdict_of("acme") is None


def test_tenants_with_a_label_of_their_own_have_a_bound(tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LABELLED_MAX", 2)
    for n in range(5):
        tenancy.on_tenant(b"t%d" % n, record(f"d{n}", in_per_s=0.001))
        tenancy.admit(f"d{n}", 1, 1)
        tenancy.admit(f"d{n}", 2, 1)
    assert tenancy.refused == {("t0", "in_per_s"): 2, ("t1", "in_per_s"): 2, ("(others)", "in_per_s"): 6}


def test_it_ends_also_where_there_is_no_kafka(tenancy: Tenancy) -> None:
    tenancy.start()
    assert tenancy.admit("a", 1, 1) == Admitted("default")
    tenancy.stop()


def test_what_a_matcher_sees_is_counted_for_the_domains_tenants(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", "b"))
    tenancy.used([("a", Used(1, 10, 2, 20, 7)), ("b", Used(1, 10, 0, 0, 0)), ("c", Used(1, 5, 0, 0, 0))])
    assert tenancy.counts.of("acme") == TenantCounters(publishes=2, bytes=20, deliveries=2, out_bytes=20, thinned=7)
    assert tenancy.counts.of("default") == TenantCounters(publishes=1, bytes=5)
    assert tenancy.thinned == {"acme": 7}


def test_which_part_may_be_of_high_priority_and_how_many_were(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", high_priority_share=0.5))
    tenancy.on_tenant(b"other", record("b"))
    assert sorted(tenancy.high_shares()) == [("acme", 0.5), ("other", 0.1)]
    tenancy.used([("a", Used(3, 10, 0, 0, 0, 2))])
    assert tenancy.counts.of("acme") == TenantCounters(high=2, publishes=3, bytes=10)


def test_what_may_go_out_is_the_tenants_part_at_this_node(tenancy: Tenancy) -> None:
    assert tenancy.out_limits() == []
    tenancy.on_tenant(b"acme", record("a", out_per_s=100, burst_s=3))
    tenancy.on_tenant(b"other", record("b", in_per_s=1))
    tenancy.on_tenant(b"default", b'{"out_bytes_per_s": 1000}')
    assert sorted(tenancy.out_limits()) == [("acme", 100, None, 3), ("default", None, 1000, 2)]
    assert [tenancy.tenant_of(domain) for domain in "abc"] == ["acme", "other", "default"]
    verdict = Verdict(
        at_ms=time.time_ns() // 1_000_000, until_ms=0, out_shares={tenancy.counts.node: 0.25, "another": 0.75}
    )
    tenancy.on_verdict(b"acme", encode_verdict(verdict))
    assert sorted(tenancy.out_limits())[0] == ("acme", 25, None, 3)
    tenancy.on_tenant(b"acme", None)
    assert [limit.tenant for limit in tenancy.out_limits()] == ["default"]


def said(tenancy: Tenancy, at_ms: int) -> dict[tuple[str, str], dict[str, TenantCounters]]:
    """What the next records say, by node and boot."""
    records = [parse_usage(value) for _, value in tenancy._records(at_ms, 1)]
    return {(one.node, one.boot): one.tenants for one in records}


def test_what_a_partition_has_is_said_in_its_name_by_its_owner(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", "b"))
    tenancy.holds(
        [
            PartitionStock(0, "7", {"a": (1, 2, 3), "b": (1, 1, 1), "c": (5, 0, 0)}),
            PartitionStock(1, "9", {"a": (1, 0, 0)}),
        ]
    )
    first = {"acme": TenantCounters(objects=2, clients=3, registrations=4), "default": TenantCounters(objects=5)}
    assert said(tenancy, 0) == {("partition-0", "7"): first, ("partition-1", "9"): {"acme": TenantCounters(objects=1)}}
    assert said(tenancy, 500), "once more"
    assert said(tenancy, 1_000) == {}, "nothing has changed"
    # What is gone is said; a partition that another matcher serves now is not spoken of any more.
    tenancy.holds([PartitionStock(0, "7", {"b": (1, 1, 1)})])
    gone = {"acme": TenantCounters(objects=1, clients=1, registrations=1), "default": TenantCounters()}
    assert said(tenancy, 2_000) == {("partition-0", "7"): gone}
    # Lost, and had again: by another generation.
    tenancy.holds([PartitionStock(0, "8", {"b": (1, 1, 1)})])
    assert said(tenancy, 3_000) == {
        ("partition-0", "8"): {"acme": TenantCounters(objects=1, clients=1, registrations=1)}
    }


def test_a_matcher_knows_its_own_partitions_exactly_and_others_by_the_verdict(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", clients_max=10, registrations_max=20))
    tenancy.on_tenant(b"free", record("f", objects_max=5))
    assert tenancy.held_limits() == [("acme", 10, 20, 0, 0, {})]
    held = {"partition-0": (1, 1, 1), "partition-1": (0, 4, 6), "partition-2": (0, 2, 2)}
    verdict = Verdict(at_ms=int(time.time() * 1000), until_ms=0, held=held)
    tenancy.on_verdict(b"acme", encode_verdict(verdict))
    assert tenancy.held_limits() == [("acme", 10, 20, 7, 9, held)]
    tenancy.holds([PartitionStock(0, "7", {"a": (0, 5, 5)}), PartitionStock(3, "7", {"a": (0, 1, 0)})])
    del held["partition-0"]
    assert tenancy.held_limits() == [("acme", 10, 20, 12, 13, held)], "5 are in partition 0 now, and 1 in partition 3"
    tenancy.on_verdict(b"acme", None)
    assert tenancy.held_limits() == [("acme", 10, 20, 6, 5, {})], "without a verdict, what is certain"
    tenancy.on_tenant(b"acme", None)
    assert tenancy.held_limits() == []


def test_sessions_and_registrations_that_were_refused_are_counted(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", clients_max=1))
    tenancy.turned_away([(("a", "clients_max"), 3), (("a", "registrations_max"), 1)])
    assert tenancy.counts.of("acme") == TenantCounters(turned_away=4)
    assert tenancy.refused == {("acme", "clients_max"): 3, ("acme", "registrations_max"): 1}


def test_who_has_as_many_objects_as_were_agreed_is_full(tenancy: Tenancy) -> None:
    tenancy.on_tenant(b"acme", record("a", objects_max=5))
    assert tenancy.full_of_objects("a") is None, "nobody has counted"
    now_ms = int(time.time() * 1000)
    tenancy.on_verdict(b"acme", encode_verdict(Verdict(at_ms=now_ms, until_ms=0, gauges=TenantCounters(objects=4))))
    assert tenancy.full_of_objects("a") is None
    tenancy.on_verdict(b"acme", encode_verdict(Verdict(at_ms=now_ms, until_ms=0, gauges=TenantCounters(objects=7))))
    full = tenancy.full_of_objects("a")
    assert full == GateRefused("acme", "objects_max", 5, 7, OBJECTS_RETRY_S)
    assert tenancy.full_of_objects("b") is None
    tenancy.refuse_objects(full, 2)
    assert tenancy.counts.of("acme") == TenantCounters(refused=2)
    assert tenancy.refused == {("acme", "objects_max"): 2}
    tenancy.on_tenant(b"acme", record("a", objects_max=8))
    assert tenancy.full_of_objects("a") is None, "at once"
