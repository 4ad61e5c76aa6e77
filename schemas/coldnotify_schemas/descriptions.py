"""Descriptions of objects, as maps of key to value, and their records, as JSON."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from coldnotify_schemas.names import ObjectKey, object_key, parse_object_key
from coldnotify_schemas.records import RECORD_BYTES_MAX, InvalidRecord, name_the_field

KEY_PREFIX = "describe:"
"""Begins the key of a description's records. ":" cannot be in a domain's name, so no object has such a key."""
KEYS_MAX = 64
KEY_CHARS_MAX = 128
TEXT_BYTES_MAX = 256
"""Limit on a value that is a text, as UTF-8."""
DESCRIPTION_BYTES_MAX = 8192
"""Limit on the whole map as compact JSON. The longest keys and texts would need three times as much."""

Value = str | float | bool
Description = Mapping[str, Value]
"""At most KEYS_MAX keys, in order. Two descriptions are equal if `encode_description` returns the same for both: for
Python, 1 and True are equal.
"""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_/.-]{0,127}", re.ASCII)
_WHOLE_MAX = 1 << 53
"""Below it every whole number is a double, and is written without a fraction."""
_NUMBER_CHARS_MAX = 24
_SHOWN_CHARS_MAX = 80


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    description: dict[str, Any] | None


_decoder = msgspec.json.Decoder(_Record)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def description_key(domain: str, group: str, object_: str) -> str:
    """The key of a description's records, checked: describe:domain/group/object. Raises InvalidName."""
    return KEY_PREFIX + object_key(domain, group, object_)


def parse_description_key(key: bytes) -> ObjectKey | None:
    """Domain, group and object of the key of a description's record; None: it is another's. Raises InvalidName."""
    prefix = KEY_PREFIX.encode()
    return parse_object_key(key[len(prefix) :]) if key.startswith(prefix) else None


@lru_cache(maxsize=4096)
def is_description_name(key: str) -> bool:
    """Returns true if this can be the name of one of a description's values."""
    return _KEY.fullmatch(key) is not None


def parse_description_record(value: bytes | None) -> Description | None:
    """Returns the description in a record; None if the record removes it. Raises InvalidRecord,
    which names the field.
    """
    if value is None:
        raise InvalidRecord('record: is null; publish {"description": null} to remove the description')
    if len(value) > RECORD_BYTES_MAX:
        raise InvalidRecord(f"record: has {len(value)} bytes (at most {RECORD_BYTES_MAX} are allowed)")
    try:
        said = _decoder.decode(value).description
    except msgspec.ValidationError as error:
        raise InvalidRecord(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"record: is not JSON: {error}") from None
    return None if said is None else check_description(said, json_bytes=len(value))


def encode_description_record(description: Description | None) -> bytes:
    """Returns the record of a description; None removes it."""
    return b'{"description":%b}' % (b"null" if description is None else encode_description(description))


def encode_description(description: Description) -> bytes:
    """Returns compact JSON, the keys in order, whole numbers without a fraction: the same bytes for the same map."""
    return _encoder.encode({key: _shortest(description[key]) for key in sorted(description)})


def check_description(said: Mapping[str, object], *, json_bytes: int | None = None) -> Description:
    """Returns the description, if it is valid: its numbers as doubles, its keys in order. Raises InvalidRecord.

    `json_bytes`: the length of its JSON, if it was JSON.
    """
    if len(said) > KEYS_MAX:
        raise InvalidRecord(f"description: has {len(said)} keys (at most {KEYS_MAX} are allowed)")
    checked = {key: _check_value(_check_key(key), said[key]) for key in sorted(said)}
    # In other words it is longer only by its numbers. Writing it takes as long as all the rest.
    if json_bytes is None or json_bytes + _NUMBER_CHARS_MAX * len(said) > DESCRIPTION_BYTES_MAX:
        size = len(encode_description(checked))
        if size > DESCRIPTION_BYTES_MAX:
            raise InvalidRecord(f"description: has {size} bytes of JSON (at most {DESCRIPTION_BYTES_MAX} are allowed)")
    return checked


def parse_patch(value: bytes) -> dict[str, object]:
    """A JSON merge patch (RFC 7396) of a description; a null in it removes its key. Raises InvalidRecord."""
    return _parse_map("patch", value, "an object of keys and their values; a null removes its key")


def parse_description(value: bytes) -> Description:
    """The map alone, as JSON. Raises InvalidRecord."""
    said = _parse_map("description", value, "an object of keys and their values")
    return check_description(said, json_bytes=len(value))


def _parse_map(field: str, value: bytes, expected: str) -> dict[str, object]:
    if len(value) > RECORD_BYTES_MAX:
        raise InvalidRecord(f"{field}: has {len(value)} bytes (at most {RECORD_BYTES_MAX} are allowed)")
    try:
        said = _any_decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"{field}: is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise InvalidRecord(f"{field}: is not {expected}")
    return said


def merge_patch(description: Description | None, patch: Mapping[str, object]) -> Description:
    """The description that a patch makes of this one, or of none. Raises InvalidRecord, which names the field."""
    for key in patch:
        _check_key(key)
    merged: dict[str, object] = {**(description or {}), **patch}
    return check_description({key: value for key, value in merged.items() if value is not None})


def _check_key(key: str) -> str:
    if not is_description_name(key):
        raise InvalidRecord(
            f"description: {key[:_SHOWN_CHARS_MAX]!r} is not a key (1 to {KEY_CHARS_MAX} of A-Z a-z 0-9 _ / . -, "
            "the first a letter or _)"
        )
    return key


def _check_value(key: str, value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise InvalidRecord(f"description: the value of {key!r} is not valid UTF-8") from None
        if size > TEXT_BYTES_MAX:
            raise InvalidRecord(
                f"description: the value of {key!r} has {size} bytes of UTF-8 (at most {TEXT_BYTES_MAX} are allowed)"
            )
        return value
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise InvalidRecord(f"description: the value of {key!r} is not a finite number")
        return number or 0.0  # there is one zero
    raise InvalidRecord(f"description: the value of {key!r} is neither a text, a number, true nor false")


def _shortest(value: Value) -> Value:
    """Returns the value in its shortest JSON form."""
    if type(value) is float and value.is_integer() and abs(value) < _WHOLE_MAX:
        return int(value)
    return value
