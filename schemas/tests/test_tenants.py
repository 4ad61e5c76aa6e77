"""Tenants: agreements that may be made, and errors that name the field."""

import json
import math
import re
from contextlib import suppress
from typing import Any

import pytest
from coldnotify_schemas.tenant_usage import (
    parse_counters,
    parse_history_key,
    parse_usage,
    parse_verdict,
)
from coldnotify_schemas.tenants import (
    UNLIMITED,
    Agreement,
    InvalidTenant,
    Tenant,
    encode_tenant,
    fields_of,
    parse_tenant,
    parse_tenant_key,
    tenant_of,
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
