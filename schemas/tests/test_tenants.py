"""Tenants: what may be agreed, that errors name the field, and the records of usage and verdicts, there and back."""

import json
import math
import re
from contextlib import suppress
from typing import Any

import pytest
from coldnotify_schemas import tenants
from coldnotify_schemas.partitioner import murmur2
from coldnotify_schemas.tenants import (
    UNLIMITED,
    Agreement,
    HistoryKey,
    InvalidTenant,
    Rates,
    Tenant,
    TenantCounters,
    UsageRecord,
    Verdict,
    encode_counters,
    encode_tenant,
    encode_usage,
    encode_verdict,
    fields_of,
    history_key,
    parse_counters,
    parse_history_key,
    parse_tenant,
    parse_tenant_key,
    parse_usage,
    parse_verdict,
    tenant_of,
    usage_partition_of,
)
from hypothesis import given
from hypothesis import strategies as st

RATES = st.none() | st.floats(1, 1e6)
MOSTS = st.none() | st.integers(1, 10**12)
AGREEMENTS = st.builds(
    Agreement,
    in_per_s=RATES,
    out_per_s=RATES,
    in_bytes_per_s=st.none() | st.floats(1e6, 1e12),
    out_bytes_per_s=st.none() | st.floats(1e6, 1e12),
    burst_s=st.floats(0.1, 600),
    objects_max=MOSTS,
    clients_max=MOSTS,
    registrations_max=MOSTS,
    high_priority_share=st.floats(0, 1),
    over=st.sampled_from(["refuse", "conflate"]),
)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name != "default")


@given(NAMES, st.lists(NAMES, min_size=1, max_size=5, unique=True), AGREEMENTS, st.none() | st.just("user-7"))
def test_a_tenant_there_and_back(name: str, domains: list[str], agreement: Agreement, principal: str | None) -> None:
    tenant = Tenant(name, tuple(domains), agreement, principal)
    assert parse_tenant(name.encode(), encode_tenant(tenant)) == tenant
    assert tenant_of(name, fields_of(tenant)) == tenant


def test_a_tenants_record_contains_only_what_was_agreed() -> None:
    assert json.loads(encode_tenant(Tenant("acme", ("a.b",), Agreement(in_per_s=5)))) == {
        "domains": ["a.b"],
        "in_per_s": 5,
    }
    assert parse_tenant(b"default", b"{}") == Tenant("default", (), UNLIMITED)
    assert tenant_of("acme", {"domains": ["a"], "in_per_s": None}).agreement == UNLIMITED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"in_per_s": -1}, "in_per_s: Expected `float` > 0"),
        ({"in_per_s": 0}, "in_per_s: Expected `float` > 0"),
        ({"in_bytes_per_s": -0.5}, "in_bytes_per_s: "),
        ({"out_per_s": "many"}, "out_per_s: "),
        ({"out_bytes_per_s": 1e13}, "out_bytes_per_s: "),
        ({"burst_s": 0}, "burst_s: "),
        ({"burst_s": 3600}, "burst_s: "),
        ({"objects_max": 0}, "objects_max: "),
        ({"objects_max": 10**13}, "objects_max: "),
        ({"clients_max": 1.5}, "clients_max: "),
        ({"registrations_max": True}, "registrations_max: "),
        ({"high_priority_share": 1.1}, "high_priority_share: "),
        ({"over": "drop"}, "over: "),
        ({"in_per_sec": 5}, "record: Object contains unknown field `in_per_sec`"),
        ({"domains": []}, "domains: a tenant has at least one"),
        ({"domains": ["a", "a"]}, "domains: a is named twice"),
        ({"domains": ["a/b"]}, "domains: 'a/b' is not a name"),
        ({"domains": "a"}, "domains: "),
        ({"domains": [str(n) for n in range(1001)]}, "domains: has 1001 (at most 1000 are allowed)"),
        ({"in_per_s": 10, "in_bytes_per_s": 9}, "in_bytes_per_s: contradicts in_per_s"),
        ({"out_per_s": 10, "out_bytes_per_s": 9}, "out_bytes_per_s: contradicts out_per_s"),
        ({"principal": ""}, "principal: "),
        ({"principal": "a\nb"}, "principal: "),
    ],
)
def test_an_invalid_agreement_is_refused_with_its_field(fields: dict[str, Any], words: str) -> None:
    said = {"domains": ["a"], **fields}
    for make in (lambda: tenant_of("acme", said), lambda: parse_tenant(b"acme", json.dumps(said).encode())):
        with pytest.raises(InvalidTenant, match=re.escape(words)):
            make()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_rate_is_a_finite_number(value: float) -> None:
    with pytest.raises(InvalidTenant, match=r"in_per_s: .* is not a finite number"):
        tenant_of("acme", {"domains": ["a"], "in_per_s": value})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (None, b"{}", "key: is missing"),
        (b"\xff", b"{}", "key: is not valid UTF-8"),
        (b"a/b", b"{}", "tenant: 'a/b' is not a name"),
        (b"a", b"{", "record: is not JSON"),
        (b"a", b"\xff", "record: is not JSON"),
        (b"a", b"[" * 100_000, "record: "),
        (b"a", b"7", "record: "),
        (b"a", b" " * (256 * 1024 + 1), "record: has 262145 bytes"),
        (b"default", b'{"domains": ["a"]}', "domains: default has all that no other tenant names"),
    ],
)
def test_an_invalid_tenant_is_refused(key: bytes | None, value: bytes, words: str) -> None:
    with pytest.raises(InvalidTenant, match=re.escape(words)):
        parse_tenant(key, value)
    assert parse_tenant_key(b"acme") == "acme"


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_any_bytes_are_a_record_or_raise_invalid_tenant(key: bytes, value: bytes) -> None:
    for parse in (lambda: parse_tenant(key, value), lambda: parse_usage(value), lambda: parse_verdict(value),
                  lambda: parse_counters(value), lambda: parse_history_key(key)):  # fmt: skip
        with suppress(InvalidTenant):
            parse()


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
    assert set(TenantCounters.__struct_fields__) == {*tenants.CUMULATIVE, *tenants.GAUGES}
    assert Rates.__struct_fields__ == tenants.CUMULATIVE
    assert set(tenants.LIMITS) < set(Agreement.__struct_fields__)


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
