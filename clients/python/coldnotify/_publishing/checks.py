"""Names and records as an application gives them, checked before anything is sent. Pure."""

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coldnotify_schemas.channels import MessageHeaders, check_id, check_message, check_message_key
from coldnotify_schemas.descriptions import Description, Value, check_description
from coldnotify_schemas.interests import channel_text, check_attributes
from coldnotify_schemas.names import InvalidName, check_name, object_key
from coldnotify_schemas.priority import HIGH, check_priority
from coldnotify_schemas.records import (
    PAYLOAD_BYTES_MAX,
    VERSION_MAX,
    ConditionalRecord,
    InvalidRecord,
    PublicRecord,
    carrying,
    conditional,
    encode_public_record,
    is_high,
    parse_public_record,
    payload_of,
    prioritized,
)
from coldnotify_schemas.share_names import check_no_dead_letters

from coldnotify._core.publishing.outgoing import Many, Outgoing

_ID_BYTES = 12
"""Random: no two messages of a channel have the same by chance."""
_FIELDS = frozenset((*PublicRecord.__struct_fields__, "priority"))


class DescriptionRecord(NamedTuple):
    """A record with an object's description; `None` removes it."""

    description: Description | None


def make_description(description: Mapping[str, Value] | None) -> DescriptionRecord:
    """Returns the record of a description. Raises InvalidRecord, whose message begins with "description: "."""
    if description is None:
        return DescriptionRecord(None)
    if not isinstance(description, Mapping):
        raise InvalidRecord(f"description: {description!r} is not a mapping of keys to values")
    for key in description:
        if not isinstance(key, str):
            raise InvalidRecord(f"description: the key {key!r} is not text")
    return DescriptionRecord(check_description(description))


class CheckedMessage(NamedTuple):
    """A message of a channel."""

    payload: bytes
    said: MessageHeaders


def make_message(
    payload: object,
    *,
    id: str | None = None,  # noqa: A002  (the field's name)
    to: Iterable[str] = (),
    expires_at: int | None = None,
    source: str | None = None,
    priority: str | None = None,
    key: str | None = None,
) -> CheckedMessage:
    """Returns the record of a message: bytes unchanged, anything else as JSON. Raises InvalidRecord and InvalidName."""
    if isinstance(to, str):
        raise InvalidRecord(f"to: {to!r} is text, and not several attributes")
    if expires_at is not None and (not isinstance(expires_at, int) or isinstance(expires_at, bool)):
        raise InvalidRecord(f"expires_at: {expires_at!r} is not a whole number")
    if expires_at is not None and not 0 <= expires_at <= VERSION_MAX:
        raise InvalidRecord(f"expires_at: {expires_at} is not from 0 to {VERSION_MAX}")
    if source is not None:
        _check_text("source", source)
        check_name("source", source)
    if id is not None:
        _check_text("id", id)
    if key is not None:
        _check_text("key", key)
    try:
        high = check_priority(priority)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
    attributes = list(to)
    for attribute in attributes:
        _check_text("to", attribute)
    value = payload_of(payload)
    headers = MessageHeaders(
        id=secrets.token_hex(_ID_BYTES) if id is None else check_id(id),
        to=tuple(check_attributes("to", attributes)),
        expires_at=expires_at,
        high_priority=high,
        source=source,
        time_ms=time.time_ns() // 1_000_000,
        key=check_message_key(key or ""),
    )
    return CheckedMessage(check_message(value), headers)


def check_channel(domain: str, group: str, channel: str) -> None:
    """Raises InvalidName."""
    for field, value in (("domain", domain), ("group", group), ("channel", channel)):
        _check_text(field, value)
    check_name("domain", domain)
    check_name("group", group)
    channel_text(check_no_dead_letters(channel))


def make_record(
    version: int | None = None,
    payload: object = None,
    *,
    source: str | None = None,
    expires_at: int | None = None,
    deleted: bool = False,
    incarnation: int | None = None,
    priority: str | None = None,
    if_version: int | None = None,
    if_absent: bool = False,
    if_changed: bool = False,
    id: str | None = None,  # noqa: A002  (the field's name)
    payload_bytes_max: int = PAYLOAD_BYTES_MAX,
) -> PublicRecord:
    """Returns the public record of a version. `if_version` ...: a ConditionalRecord, whose acknowledgement says nothing
    about its condition. Raises InvalidRecord, whose message begins with the field at fault."""
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
        expires_at=expires_at,
        deleted=deleted,
        incarnation=incarnation,
    )
    if payload is not None:
        record = carrying(record, payload_of(payload), payload_bytes_max=payload_bytes_max)
    # What everybody else will read is what gets checked in full.
    checked = parse_public_record(encode_public_record(record), raw=record.is_raw, payload_bytes_max=payload_bytes_max)
    return conditional(
        prioritized(checked, priority), if_version=if_version, if_absent=if_absent, if_changed=if_changed, id=id
    )


def check_key(domain: str, group: str, object_: str) -> None:
    for field, value in (("domain", domain), ("group", group), ("object", object_)):
        _check_text(field, value)
    object_key(domain, group, object_)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidName(f"{field}: {value!r} is not text")


def checked_many(
    domain: str, group: str, objects: Many, payload_bytes_max: int
) -> tuple[list[tuple[str, PublicRecord]], list[tuple[str, DescriptionRecord]]]:
    """Names and records of publish_many, all checked, and those of descriptions. Raises ValueError naming object and
    field."""
    pairs = objects.items() if isinstance(objects, Mapping) else objects
    records, descriptions = [], []
    for object_, fields in pairs:
        check_key(domain, group, object_)
        description = fields.get("description")
        fields = {name: field for name, field in fields.items() if name != "description"}
        if unknown := fields.keys() - _FIELDS:
            raise InvalidRecord(f"{object_}: {min(unknown)}: no record has this field")
        try:
            records.append((object_, make_record(**fields, payload_bytes_max=payload_bytes_max)))
            if description is not None:
                descriptions.append((object_, make_description(description)))
        except ValueError as error:
            raise InvalidRecord(f"{object_}: {error}") from None
    return records, descriptions


def outgoing_version(domain: str, group: str, object_: str, record: PublicRecord, trace: str | None) -> Outgoing:
    """The record as an outbox keeps it. Raises InvalidRecord if it has a condition."""
    if isinstance(record, ConditionalRecord):
        raise InvalidRecord(
            f"{record.condition}: does not go through the outbox, whose publishes nobody decides in time"
        )
    return Outgoing(
        domain,
        group,
        object_,
        payload=record.payload_bytes or None,
        version=record.version,
        incarnation=record.incarnation,
        deleted=record.deleted,
        expires_at=record.expires_at,
        source=record.source,
        traceparent=trace,
        priority=HIGH if is_high(record) else None,
    )


def outgoing_message(domain: str, group: str, channel: str, record: CheckedMessage, trace: str | None) -> Outgoing:
    """Likewise."""
    said = record.said
    return Outgoing(
        domain,
        group,
        channel,
        is_message=True,
        payload=record.payload,
        id=said.id,
        to=said.to,
        expires_at=said.expires_at,
        source=said.source,
        time_ms=said.time_ms,
        traceparent=trace,
        priority=HIGH if said.high_priority else None,
        order_key=said.key,
    )
