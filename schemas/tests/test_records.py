"""The public record: what is one, what the error names, and that any bytes give the one or the other."""

import base64
import json
from typing import Any

import msgspec
import pytest
from coldnotify_schemas.priority import priority_header
from coldnotify_schemas.records import (
    PAYLOAD_BYTES_MAX,
    PAYLOAD_HEADER,
    PLACE_HEADER,
    REASON_HEADER,
    RECORD_BYTES_MAX,
    VERSION_MAX,
    InvalidRecord,
    PublicRecord,
    carrying,
    encode_public_record,
    is_high,
    parse_headed_record,
    parse_public_record,
    payload_header,
    payload_of,
    prioritized,
    record_headers,
    rejected_headers,
    says_raw,
)
from hypothesis import example, given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (b"{}", {}),
        (b' {"version" : 7 } ', {"version": 7}),
        (b'{"version":0}', {"version": 0}),
        (b'{"version":%d}' % VERSION_MAX, {"version": VERSION_MAX}),
        (b'{"source":"client-3"}', {"source": "client-3"}),
        (b'{"expires_at":1,"deleted":true,"incarnation":2}', {"expires_at": 1, "deleted": True, "incarnation": 2}),
        (b'{"version":null}', {}),
    ],
)
def test_a_record(value: bytes, fields: dict[str, Any]) -> None:
    assert parse_public_record(value) == PublicRecord(**fields)


@pytest.mark.parametrize("payload", ['{"a": [1, 2.5, null]}', '"text"', "null", "0", '"\\u00e9"'])
def test_a_payload_is_any_json(payload: str) -> None:
    record = parse_public_record(f'{{"payload": {payload}}}'.encode())
    assert json.loads(record.payload_bytes) == json.loads(payload)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "record: "),
        (b"nope", "record: is not JSON"),
        (b"\xff", "record: is not JSON"),
        (b"[]", "record: "),
        (b"7", "record: "),
        (b'{"version":7}x', "record: is not JSON"),
        (b'{"verson":7}', "record: .*verson"),
        (b'{"version":-1}', "version: "),
        (b'{"version":9223372036854775808}', "version: "),
        (b'{"version":1.5}', "version: "),
        (b'{"version":true}', "version: "),
        (b'{"version":"7"}', "version: "),
        (b'{"source":"a b"}', "source: "),
        (b'{"source":7}', "source: "),
        (b'{"expires_at":-1}', "expires_at: "),
        (b'{"deleted":1}', "deleted: "),
        (b'{"incarnation":-1}', "incarnation: "),
        (b'{"payload":"' + b"x" * PAYLOAD_BYTES_MAX + b'"}', "payload: .*4096"),
        (b'{"payload":' + b"[" * 2000 + b"]" * 2000 + b"}", "payload|record"),
        (b"{}" + b" " * RECORD_BYTES_MAX, "record: has .* bytes"),
    ],
)
def test_no_record(value: bytes, words: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^({words})"):
        parse_public_record(value)


def test_a_payload_of_exactly_the_limit_is_valid() -> None:
    payload = b'"' + b"x" * (PAYLOAD_BYTES_MAX - 2) + b'"'
    assert parse_public_record(b'{"payload":' + payload + b"}").payload_bytes == payload


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
RECORDS = st.builds(
    PublicRecord,
    version=st.none() | st.integers(0, VERSION_MAX),
    source=st.none() | st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True),
    payload=JSON.map(payload_of).map(msgspec.Raw),
    expires_at=st.none() | st.integers(0, VERSION_MAX),
    deleted=st.booleans(),
    incarnation=st.none() | st.integers(0, 2**31 - 1),
)


@given(RECORDS)
def test_there_and_back(record: PublicRecord) -> None:
    again = parse_public_record(encode_public_record(record))
    assert again.payload_bytes == record.payload_bytes
    assert encode_public_record(again) == encode_public_record(record)


_FIELDS = st.sampled_from(["version", "source", "payload", "expires_at", "deleted", "incarnation", "x"])


@given(st.binary(max_size=60) | st.dictionaries(_FIELDS, JSON, max_size=4).map(lambda d: json.dumps(d).encode()))
def test_any_bytes_are_a_record_or_an_invalid_one(value: bytes) -> None:
    try:
        record = parse_public_record(value)
    except InvalidRecord as error:
        field = str(error).partition(":")[0]
    else:
        field = "record"
        assert record.version is None or 0 <= record.version <= VERSION_MAX
        json.loads(record.payload_bytes or b"null")
    assert field in {"record", *PublicRecord.__struct_fields__}


@pytest.mark.parametrize("payload", [object(), float("nan").hex, {1j: 2}])
def test_a_value_that_json_cannot_express_is_refused_as_payload(payload: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^payload: "):
        payload_of(payload)


def test_a_reason_may_quote_invalid_text_of_any_length() -> None:
    reason, place = rejected_headers("name: '\ud800' " + "x" * 5000, "coldnotify.requests/3@7")

    assert reason[0] == REASON_HEADER
    assert reason[1].startswith(b"name: '?' x")
    assert len(reason[1]) < 1100
    assert place == (PLACE_HEADER, b"coldnotify.requests/3@7")


@given(st.binary(min_size=1, max_size=60) | JSON.map(payload_of))
@example(b'1, "source": "somebody"')
@example(b" [1] ")
@example(b'"\xff"')
@example(b"NaN")
@example(b'{"a": 1, "a": 2}')
@example(b"1" * PAYLOAD_BYTES_MAX)
@example(b"x" * PAYLOAD_BYTES_MAX)
def test_a_payload_of_any_bytes_comes_back_as_it_was(payload: bytes) -> None:
    plain = PublicRecord(version=7, source="unit")
    for record in (carrying(plain, payload), carrying(prioritized(plain, "high"), payload)):
        headers = record_headers(record)
        raw = says_raw(headers)
        again = parse_public_record(encode_public_record(record), raw=raw)
        assert (again.payload_bytes, again.is_raw, again.version, again.source) == (payload, raw, 7, "unit")
        assert encode_public_record(again) == encode_public_record(record)
        assert is_high(record) == (priority_header() in headers)
    older = msgspec.json.decode(encode_public_record(record))["payload"]
    assert older == (base64.b64encode(payload).decode() if raw else msgspec.json.decode(payload))


def test_json_is_stored_as_json_and_no_bytes_are_no_payload() -> None:
    assert carrying(PublicRecord(), b'{"a": [1]}') == PublicRecord(payload=msgspec.Raw(b'{"a": [1]}'))
    assert carrying(PublicRecord(payload=msgspec.Raw(b"1")), b"") == PublicRecord()
    assert parse_public_record(b'{"payload":""}', raw=True) == PublicRecord()
    assert parse_public_record(b'{"version":1}', raw=True) == PublicRecord(version=1)


def test_a_payload_is_at_most_as_long_as_the_limit_however_it_is_stored() -> None:
    for payload in (b"1" * (PAYLOAD_BYTES_MAX + 1), b"x" * (PAYLOAD_BYTES_MAX + 1)):
        with pytest.raises(InvalidRecord, match=r"^payload: has 4097 bytes"):
            carrying(PublicRecord(), payload)
        larger = carrying(PublicRecord(), payload, payload_bytes_max=PAYLOAD_BYTES_MAX + 1)
        with pytest.raises(InvalidRecord, match=r"^payload: has 4097 bytes"):
            parse_public_record(encode_public_record(larger), raw=larger.is_raw)
    largest = carrying(PublicRecord(), bytes(65_536), payload_bytes_max=65_536)
    value = encode_public_record(largest)
    assert parse_public_record(value, raw=True, payload_bytes_max=65_536).payload_bytes == bytes(65_536)


@pytest.mark.parametrize("payload", [b"5", b'"x"', b'"A-_="', b'{"a":1}', b"null"])
def test_a_record_whose_header_says_base64_has_a_text_in_base64(payload: bytes) -> None:
    with pytest.raises(InvalidRecord, match=r"^payload: is not base64"):
        parse_public_record(b'{"payload":%b}' % payload, raw=True)


@pytest.mark.parametrize(
    ("headers", "raw"),
    [
        ([payload_header()], True),
        ([("x", b"y"), (PAYLOAD_HEADER, "base64")], True),
        ([(PAYLOAD_HEADER, None), (PAYLOAD_HEADER, b"base32"), ("payload", b"base64")], False),
    ],
)
def test_only_the_header_says_that_a_payload_is_in_base64(
    headers: list[tuple[str, str | bytes | None]], raw: bool
) -> None:
    assert says_raw(headers) is raw


def test_a_publish_to_a_service_may_have_its_payload_in_base64() -> None:
    assert parse_headed_record(b'{"payload_base64":"AP8="}').payload_bytes == b"\x00\xff"
    assert parse_headed_record(b'{"payload_base64":"AP8=","priority":"high"}').is_raw
    assert parse_headed_record(b'{"payload_base64":"WzFd"}') == PublicRecord(payload=msgspec.Raw(b"[1]"))
    for body, field in (
        (b'{"payload_base64":"x"}', "payload_base64"),
        (b'{"payload_base64":1}', "payload_base64"),
        (b'{"payload_base64":"AP8=","payload":1}', "payload"),
    ):
        with pytest.raises(InvalidRecord, match=f"^{field}: "):
            parse_headed_record(body)
    with pytest.raises(InvalidRecord, match="payload_base64"):
        parse_public_record(b'{"payload_base64":"AP8="}')
