"""Names and records as an application gives them, checked before anything is sent. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from coldnotify_schemas.descriptions import Description, Value, check_description
from coldnotify_schemas.names import InvalidName, check_name, object_key
from coldnotify_schemas.records import (
    VERSION_MAX,
    InvalidRecord,
    PublicRecord,
    encode_public_record,
    parse_public_record,
    raw_payload,
)

_FIELDS = frozenset(PublicRecord.__struct_fields__)
Fields = Mapping[str, Any]
"""What publish() takes after the object's name: version, payload, source, expires_at, deleted, incarnation."""
Many = Mapping[str, Fields] | Iterable[tuple[str, Fields]]


class DescriptionRecord(NamedTuple):
    """A record that says what an object is; `None`: that it has no description any more."""

    description: Description | None


def make_description(description: Mapping[str, Value] | None) -> DescriptionRecord:
    """The record that says this. Raises InvalidRecord, whose message begins with "description: "."""
    if description is None:
        return DescriptionRecord(None)
    if not isinstance(description, Mapping):
        raise InvalidRecord(f"description: {description!r} is not a mapping of keys to values")
    for key in description:
        if not isinstance(key, str):
            raise InvalidRecord(f"description: the key {key!r} is not text")
    return DescriptionRecord(check_description(description))


def make_record(
    version: int | None = None,
    payload: object = None,
    *,
    source: str | None = None,
    expires_at: int | None = None,
    deleted: bool = False,
    incarnation: int | None = None,
) -> PublicRecord:
    """The public record that says this. Raises InvalidRecord, whose message begins with the field at fault."""
    for name, number in (("version", version), ("expires_at", expires_at), ("incarnation", incarnation)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise InvalidRecord(f"{name}: {number!r} is not a whole number")
        if number is not None and not 0 <= number <= VERSION_MAX:
            raise InvalidRecord(f"{name}: {number} is not from 0 to {VERSION_MAX}")
    if not isinstance(deleted, bool):
        raise InvalidRecord(f"deleted: {deleted!r} is neither True nor False")
    if source is not None:
        _check_text("source", source)
        check_name("source", source)
    record = PublicRecord(
        version=version,
        source=source,
        payload=msgspec.UNSET if payload is None else raw_payload(payload),
        expires_at=expires_at,
        deleted=deleted,
        incarnation=incarnation,
    )
    # What everybody else will read is what gets checked in full.
    return parse_public_record(encode_public_record(record))


def check_key(domain: str, group: str, object_: str) -> None:
    for field, value in (("domain", domain), ("group", group), ("object", object_)):
        _check_text(field, value)
    object_key(domain, group, object_)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidName(f"{field}: {value!r} is not text")


def checked_records(domain: str, group: str, objects: Many) -> list[tuple[str, PublicRecord]]:
    """Names and records of publish_many, all checked. Raises ValueError naming object and field."""
    pairs = objects.items() if isinstance(objects, Mapping) else objects
    records = []
    for object_, fields in pairs:
        check_key(domain, group, object_)
        if unknown := fields.keys() - _FIELDS:
            raise InvalidRecord(f"{object_}: {min(unknown)}: no record has this field")
        try:
            records.append((object_, make_record(**fields)))
        except ValueError as error:
            raise InvalidRecord(f"{object_}: {error}") from None
    return records
