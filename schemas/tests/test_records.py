"""The public record: what is one, what the error names, and that any bytes give the one or the other."""

import json
from typing import Any

import msgspec
import pytest
from coldnotify_schemas.records import (
    PAYLOAD_BYTES_MAX,
    PLACE_HEADER,
    REASON_HEADER,
    RECORD_BYTES_MAX,
    VERSION_MAX,
    InvalidRecord,
    PublicRecord,
    encode_public_record,
    json_payload,
    parse_public_record,
    raw_payload,
    rejected_headers,
)
from hypothesis import given
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
    payload=JSON.map(raw_payload),
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


@pytest.mark.parametrize("payload", [object(), "x" * PAYLOAD_BYTES_MAX, float("nan").hex])
def test_a_value_that_json_cannot_express_is_refused_as_payload(payload: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^payload: "):
        raw_payload(payload)


def test_a_reason_may_quote_invalid_text_of_any_length() -> None:
    reason, place = rejected_headers("name: '\ud800' " + "x" * 5000, "coldnotify.requests/3@7")

    assert reason[0] == REASON_HEADER
    assert reason[1].startswith(b"name: '?' x")
    assert len(reason[1]) < 1100
    assert place == (PLACE_HEADER, b"coldnotify.requests/3@7")


@pytest.mark.parametrize("payload", [b"{", b"\xff", b'1, "source": "somebody"', b'"%s"' % (b"x" * PAYLOAD_BYTES_MAX)])
def test_invalid_bytes_are_refused_as_payload(payload: bytes) -> None:
    with pytest.raises(InvalidRecord, match=r"^payload: "):
        json_payload(payload)
    assert json_payload(b" [1] ") == msgspec.Raw(b" [1] ")
