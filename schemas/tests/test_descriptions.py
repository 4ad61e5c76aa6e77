"""Descriptions: what is one, that errors name the field, that a map has one form as bytes, and what a patch makes."""

import json
import math
import re
from typing import Any

import pytest
from coldnotify_schemas.descriptions import (
    DESCRIPTION_BYTES_MAX,
    KEYS_MAX,
    TEXT_BYTES_MAX,
    Description,
    check_description,
    description_key,
    encode_description,
    encode_description_record,
    merge_patch,
    parse_description,
    parse_description_key,
    parse_description_record,
    parse_patch,
)
from coldnotify_schemas.names import InvalidName, ObjectKey, parse_object_key
from coldnotify_schemas.records import RECORD_BYTES_MAX, InvalidRecord
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_/.-]{0,9}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.booleans() | st.integers() | st.floats()
FINITE = VALUES.filter(lambda value: isinstance(value, str) or (abs(value) < 1e300 and math.isfinite(value)))
DESCRIPTIONS = st.dictionaries(KEYS, FINITE, max_size=6)


def typed(description: Description | None) -> Any:
    """So that == tells true from 1."""
    return description and {key: (type(value), value) for key, value in description.items()}


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (b'{"description": null}', None),
        (b'{"description": {}}', {}),
        (b'{"description": {"Location/Room": 410, "on": true, "Kind": "lamp"}}',
         {"Kind": "lamp", "Location/Room": 410.0, "on": True}),
        (b'{"description": {"a": -0.0, "b": 1e3, "c": 0.5}}', {"a": 0.0, "b": 1000.0, "c": 0.5}),
        (b'{"description": {"d": "\\u00e9"}}', {"d": "é"}),
        (b'{"description": {"a": 123456789012345678901}}', {"a": 123456789012345678901.0}),
    ],
)  # fmt: skip
def test_a_record(value: bytes, description: Description | None) -> None:
    parsed = parse_description_record(value)
    assert typed(parsed) == typed(description)
    assert parsed is None or list(parsed) == sorted(parsed)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "record: is null"),
        (b"", "record: "),
        (b"nope", "record: is not JSON"),
        (b"\xff", "record: is not JSON"),
        (b"[]", "record: "),
        (b"{}", "record: .*description"),
        (b'{"describtion":{}}', "record: .*describtion"),
        (b'{"description":{},"version":7}', "record: .*version"),
        (b'{"description":[]}', "description: "),
        (b'{"description":7}', "description: "),
        (b'{"description":{"a":null}}', "description: the value of 'a' is neither"),
        (b'{"description":{"a":[1]}}', "description: the value of 'a' is neither"),
        (b'{"description":{"a":{"b":1}}}', "description: the value of 'a' is neither"),
        (b'{"description":{"a":1e999}}', "description: Number out of range"),
        (b'{"description":{"a":1' + b"0" * 400 + b"}}", "description: "),
        (b'{"description":{"":1}}', "description: '' is not a key"),
        (b'{"description":{"9a":1}}', "description: '9a' is not a key"),
        (b'{"description":{"a b":1}}', "description: 'a b' is not a key"),
        (b'{"description":{"a\\n":1}}', "description: 'a.*' is not a key"),
        (b'{"description":{"' + b"k" * 129 + b'":1}}', "description: 'k+' is not a key"),
        (b'{"description":{"a":"' + b"x" * 257 + b'"}}', "description: the value of 'a' has 257 bytes"),
        (b'{"description":{"a":"' + "é".encode() * 129 + b'"}}', "description: the value of 'a' has 258 bytes"),
        (b'{"description":{}}' + b" " * RECORD_BYTES_MAX, "record: has .* bytes"),
    ],
)
def test_no_record(value: bytes | None, words: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^({words})"):
        parse_description_record(value)


def test_a_description_at_the_limits_is_valid() -> None:
    long = {"k" * 128: "x" * TEXT_BYTES_MAX}
    assert parse_description_record(encode_description_record(long)) == long
    many: dict[str, object] = {f"k{i}": True for i in range(KEYS_MAX)}
    assert check_description(many) == many
    with pytest.raises(InvalidRecord, match=r"^description: has 65 keys"):
        check_description({**many, "one more": 1})
    big = {f"k{i:02}": "x" * 128 for i in range(59)}
    room = DESCRIPTION_BYTES_MAX - len(encode_description({**big, "z": ""}))
    assert len(encode_description(check_description({**big, "z": "x" * room}))) == DESCRIPTION_BYTES_MAX
    with pytest.raises(InvalidRecord, match=r"^description: has 8193 bytes of JSON"):
        check_description({**big, "z": "x" * (room + 1)})
    with pytest.raises(InvalidRecord, match=r"^description: has 8193 bytes of JSON"):
        parse_description_record(b'{"description":%b}' % json.dumps({**big, "z": "x" * (room + 1)}).encode())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", b"x", None, 10**400])
def test_an_invalid_description_is_refused_as_values_too(value: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^description: the value of 'a' is n"):
        check_description({"a": value})


@settings(deadline=None)
@given(DESCRIPTIONS)
def test_there_and_back(said: dict[str, object]) -> None:
    description = check_description(said)
    record = encode_description_record(description)
    assert typed(parse_description_record(record)) == typed(description)
    assert json.loads(record) == {"description": json.loads(encode_description(description))}


@settings(deadline=None)
@given(DESCRIPTIONS, DESCRIPTIONS, st.randoms())
def test_only_equal_maps_have_equal_bytes(one: dict[str, Any], other: dict[str, Any], random: Any) -> None:
    shuffled = list(one.items())
    random.shuffle(shuffled)
    same, another = check_description(dict(shuffled)), check_description(other)
    assert encode_description(same) == encode_description(check_description(one))
    assert (encode_description(same) == encode_description(another)) == (typed(same) == typed(another))


def test_true_is_not_one() -> None:
    assert encode_description({"a": True}) != encode_description({"a": 1.0})


@settings(deadline=None)
@given(DESCRIPTIONS, st.dictionaries(KEYS, FINITE | st.none(), max_size=6))
def test_a_patch_is_that_of_rfc_7396(said: dict[str, object], patch: dict[str, object]) -> None:
    target: dict[str, object] = dict(said)
    for key, value in patch.items():  # the pseudocode of its section 2, of values that are no objects
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value
    assert typed(merge_patch(check_description(said), patch)) == typed(check_description(target))


def test_a_patch_of_a_missing_description_creates_it() -> None:
    assert merge_patch(None, parse_patch(b'{"a": 1, "b": null}')) == {"a": 1.0}


@pytest.mark.parametrize(
    ("value", "words"),
    [(b"null", "patch: is not an object"), (b"[]", "patch: is not an object"), (b"{", "patch: is not JSON"),
     (b" " * 70_000, "patch: has 70000 bytes")],
)  # fmt: skip
def test_no_patch(value: bytes, words: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^{words}"):
        parse_patch(value)


@pytest.mark.parametrize("patch", [{"9": None}, {"a": {"b": 1}}, {f"k{i}": 1 for i in range(65)}])
def test_a_patch_cannot_create_an_invalid_description(patch: dict[str, object]) -> None:
    with pytest.raises(InvalidRecord, match=r"^description: "):
        merge_patch({"a": 1.0}, patch)


def test_a_key_there_and_back() -> None:
    key = description_key("animal.observer", "region-1", "folder/file/ü")
    assert key == "describe:animal.observer/region-1/folder/file/ü"
    assert parse_description_key(key.encode()) == ObjectKey("animal.observer", "region-1", "folder/file/ü")
    with pytest.raises(InvalidName, match=r"^domain: "):
        parse_object_key(key.encode())


def test_a_key_of_something_else() -> None:
    assert parse_description_key(b"a/b/c") is None
    for key in (b"describe:", b"describe:a/b", b"describe:a b/c/d", b"describe:\xff/a/b"):
        with pytest.raises(InvalidName):
            parse_description_key(key)


def test_a_bare_map_is_parsed_like_a_records() -> None:
    assert encode_description(parse_description(b'{"b": 1.0, "a": true}')) == b'{"a":true,"b":1}'
    for wrong, words in (
        (b"[1]", "description: is not an object of keys and their values"),
        (b"{", "description: is not JSON"),
        (b'{"a":null}', "description: the value of 'a'"),
        (b"{" + b" " * RECORD_BYTES_MAX + b"}", "description: has 65538 bytes"),
    ):
        with pytest.raises(InvalidRecord, match=re.escape(words)):
            parse_description(wrong)
