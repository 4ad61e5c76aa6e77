"""Usage of tenants: records of usage, verdicts and history, there and back; errors name the field."""

import json
import re
from typing import Any

import pytest
from coldnotify_schemas import tenant_usage
from coldnotify_schemas.partitioner import murmur2
from coldnotify_schemas.tenant_usage import (
    HistoryKey,
    Rates,
    TenantCounters,
    UsageRecord,
    Verdict,
    encode_counters,
    encode_usage,
    encode_verdict,
    history_key,
    parse_counters,
    parse_history_key,
    parse_usage,
    parse_verdict,
    usage_partition_of,
)
from coldnotify_schemas.tenants import (
    LIMITS,
    Agreement,
    InvalidTenant,
)


def test_usage_there_and_back() -> None:
    record = UsageRecord(
        node="http-1f3a",
        boot="00ff",
        at_ms=5,
        tenants={"acme": TenantCounters(publishes=3, bytes=900), "b": TenantCounters()},
    )
    value = encode_usage(record)
    assert json.loads(value) == {
        "node": "http-1f3a",
        "boot": "00ff",
        "at_ms": 5,
        "tenants": {"acme": {"publishes": 3, "bytes": 900}, "b": {}},
    }
    assert parse_usage(value) == record
    # A later release may count more.
    assert parse_usage(value.replace(b'"bytes"', b'"later"')).tenants["acme"] == TenantCounters(publishes=3)


def test_every_counter_is_cumulative_or_a_gauge() -> None:
    assert set(TenantCounters.__struct_fields__) == {*tenant_usage.CUMULATIVE, *tenant_usage.GAUGES}
    assert Rates.__struct_fields__ == tenant_usage.CUMULATIVE
    assert set(LIMITS) < set(Agreement.__struct_fields__)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tenants": {"a": {"publishes": -1}}}, "tenants: Expected `int` >= 0"),
        ({"tenants": {"a": {"publishes": 1 << 63}}}, "tenants: "),
        ({"tenants": {"a/b": {}}}, "tenants: 'a/b' is not a name"),
        ({"tenants": {f"t{n}": {} for n in range(2001)}}, "tenants: has 2001 (at most 2000 are allowed)"),
        ({"node": "a b"}, "node: "),
        ({"boot": ""}, "boot: "),
        ({"at_ms": -1}, "at_ms: "),
    ],
)
def test_invalid_usage_is_refused_with_its_field(change: dict[str, Any], words: str) -> None:
    said = {"node": "n", "boot": "b", "at_ms": 1, "tenants": {}, **change}
    with pytest.raises(InvalidTenant, match=re.escape(words)):
        parse_usage(json.dumps(said).encode())


def test_a_verdict_there_and_back() -> None:
    verdict = Verdict(
        at_ms=1,
        until_ms=20_001,
        per_s=Rates(publishes=10.5),
        per_min=Rates(publishes=600),
        gauges=TenantCounters(clients=3),
        shares={"http-1": 0.75, "gateway-2": 0.25},
        exceeded=("in_per_s",),
    )
    assert parse_verdict(encode_verdict(verdict)) == verdict
    assert parse_verdict(b'{"at_ms": 1, "until_ms": 2}') == Verdict(at_ms=1, until_ms=2)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ('"shares": {"n": 1.5}', "shares: "),
        ('"shares": {"n": -0.1}', "shares: "),
        ('"shares": {"a b": 0.1}', "shares: 'a b' is not a name"),
        ('"per_s": {"publishes": -1}', "per_s.publishes: "),
        ('"exceeded": ["burst_s"]', "exceeded: unknown limit 'burst_s', expected one of in_per_s"),
    ],
)
def test_an_invalid_verdict_is_refused_with_its_field(fields: str, words: str) -> None:
    with pytest.raises(InvalidTenant, match=re.escape(words)):
        parse_verdict(b'{"at_ms": 1, "until_ms": 2, %b}' % fields.encode())


def test_the_history_is_by_hours_and_days_in_utc() -> None:
    at_s = 1_795_384_273  # 2026-11-22T21:51:13Z
    assert history_key("acme", "hour", at_s) == "usage:acme:hour:2026-11-22T21"
    assert history_key("acme", "day", at_s) == "usage:acme:day:2026-11-22"
    assert parse_history_key(b"usage:acme:hour:2026-11-22T21") == HistoryKey("acme", "hour", "2026-11-22T21")
    assert parse_counters(encode_counters(TenantCounters(publishes=7))) == TenantCounters(publishes=7)


@pytest.mark.parametrize(
    "key",
    [None, b"", b"acme", b"usage:acme:week:2026-11", b"usage:acme:day:2026-13-01", b"usage:acme:hour:2026-11-22",
     b"usage:a b:day:2026-11-22", b"usage:acme:day:2026-1-1", b"\xff"],
)  # fmt: skip
def test_a_key_that_is_neither_hour_nor_day_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidTenant, match="key: "):
        parse_history_key(key)


def test_a_tenant_stays_in_its_partition() -> None:
    assert usage_partition_of("acme", 8) == (murmur2(b"acme") & 0x7FFFFFFF) % 8
    assert {usage_partition_of(f"t{n}", 8) for n in range(100)} == set(range(8))
