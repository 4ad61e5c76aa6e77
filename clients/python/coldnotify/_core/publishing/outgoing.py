"""An application's publishes, checked and complete: a version of an object, or a message of a channel."""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_text, check_attributes
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.priority import HIGH, check_priority
from coldnotify_schemas.protocol import (
    CLIENT_FRAME_BYTES_MAX,
    FRAME_LENGTH_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGE_ID_BYTES_MAX,
    MESSAGE_KEY_BYTES_MAX,
)
from coldnotify_schemas.share_names import check_no_dead_letters

from coldnotify._core.publishing.patches import Patch, composed, encode_patch

VERSION_MAX = (1 << 63) - 1
PAYLOAD_BYTES_MAX = 4096
"""Limit on a version's payload unless services are set to a higher one, the same as in coldnotify_schemas.records,
which needs an extra."""
LARGEST_PAYLOAD_BYTES = 64 * 1024
"""The highest limit that services can have."""
Fields = Mapping[str, Any]
"""The arguments of publish() after the object's name, by name: payload, version, source ..."""
Many = Mapping[str, Fields] | Iterable[tuple[str, Fields]]
"""Those of publish_many()."""
_FIELDS = frozenset(("version", "payload", "deleted", "expires_at", "source", "priority"))
_VERSION_BYTES, _CLOCK_BYTES = 11, 11
"""Limit on fields that are set later."""


class Outgoing(NamedTuple):
    """One version or message. Every repeat is equal."""

    domain: str
    group: str
    name: str
    """The object's, or the channel's."""
    is_message: bool = False
    payload: bytes | None = None
    """Any bytes; None: a version without one."""
    version: int | None = None
    """None until it is accepted, which gives it one; a message has none."""
    incarnation: int | None = None
    """Only for a version published by Kafka; no service accepts one."""
    deleted: bool = False
    id: str = ""
    """A message's, by which its repeats are known."""
    to: tuple[str, ...] = ()
    expires_at: int | None = None
    source: str | None = None
    time_ms: int | None = None
    """When a message was sent, by the publisher's clock."""
    traceparent: str | None = None
    priority: str | None = None
    """HIGH, or None."""
    clock_ms: int | None = None
    """Its version, if that comes from this machine's clock; else when it was accepted, if it expires; else None."""
    describe: str = ""
    """A merge patch of the object's description, as JSON; "": none."""
    only_describe: bool = False
    """It is such a patch alone, and no version."""
    order_key: str = ""
    """A message's: shares hand out those with one such key in their order; "": it has none."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The object, if it is a version."""
        return self.domain, self.group, self.name

    @property
    def is_version(self) -> bool:
        """True if it is a version of an object."""
        return not self.is_message and not self.only_describe

    @property
    def clocked(self) -> bool:
        """True if its version comes from this machine's clock."""
        return self.version is not None and self.version == self.clock_ms

    def outdoes(self, other: "Outgoing") -> bool:
        """Returns true if `other`, an earlier publish of the same object, is no longer needed.

        It is still needed if it has the higher version or another incarnation, because then it may count, and if it
        alone is of high priority.
        """
        return (
            self.incarnation == other.incarnation
            and self.version is not None
            and other.version is not None
            and self.version >= other.version
            and (self.priority is not None or other.priority is None)
        )


def version_of(
    domain: str,
    group: str,
    name: str,
    version: int | None = None,
    payload: object = None,
    *,
    deleted: bool = False,
    expires_at: int | None = None,
    source: str | None = None,
    traceparent: str | None = None,
    priority: str | None = None,
    description: Patch | None = None,
    payload_bytes_max: int = LARGEST_PAYLOAD_BYTES,
) -> Outgoing:
    """Returns the version of these arguments. Raises ValueError, whose message begins with the field at fault.

    Bytes are a payload as they are, anything else is one as JSON. None and no bytes are none at all: the version is
    told without one.
    """
    _check_names(domain, group)
    check_object(_text("object", name))
    if not isinstance(deleted, bool):
        raise ValueError(f"deleted: {deleted!r} is neither True nor False")
    data = None if payload is None else _bytes(payload)
    if data is not None and len(data) > payload_bytes_max:
        raise ValueError(f"payload: has {len(data)} bytes (at most {payload_bytes_max} are allowed)")
    return Outgoing(
        domain,
        group,
        name,
        payload=data or None,
        version=_number("version", version),
        deleted=deleted,
        expires_at=_number("expires_at", expires_at),
        source=None if source is None else check_name("source", _text("source", source)),
        traceparent=traceparent,
        priority=HIGH if check_priority(priority) else None,
        describe="" if description is None else encode_patch(description),
    )


def patch_of(domain: str, group: str, name: str, description: Patch) -> Outgoing:
    """Returns the patch of an object's description alone. Raises ValueError in the same way."""
    _check_names(domain, group)
    check_object(_text("object", name))
    return Outgoing(domain, group, name, describe=encode_patch(description), only_describe=True)


def after_another(earlier: Outgoing, later: Outgoing) -> Outgoing | None:
    """Returns `later` with the patch of `earlier` in front of its own; None: the two are too long for one."""
    patch = composed(earlier.describe, later.describe)
    if patch is None:
        return None
    both = later._replace(describe=patch)
    try:
        check_frame(both)
    except ValueError:
        return None
    return both


def check_payload_bytes_max(bytes_max: int) -> int:
    """Returns a limit on versions' payloads that services can have. Raises ValueError for others."""
    if not PAYLOAD_BYTES_MAX <= bytes_max <= LARGEST_PAYLOAD_BYTES:
        words = f"is not from {PAYLOAD_BYTES_MAX} to {LARGEST_PAYLOAD_BYTES}"
        raise ValueError(f"object_payload_bytes_max: {bytes_max!r} {words}")
    return bytes_max


def versions_of(domain: str, group: str, objects: Many, payload_bytes_max: int) -> list[Outgoing]:
    """Returns the versions of publish_many(), in order. Raises ValueError, whose message begins with the place of the
    one at fault, as in "objects[3]: version: ".
    """
    _check_names(domain, group)
    versions = []
    for place, pair in enumerate(objects.items() if isinstance(objects, Mapping) else objects):
        try:
            versions.append(_version_of_pair(domain, group, pair, payload_bytes_max))
        except ValueError as error:
            raise ValueError(f"objects[{place}]: {error}") from None
    return versions


def _version_of_pair(domain: str, group: str, pair: Any, payload_bytes_max: int) -> Outgoing:
    match pair:
        case (name, Mapping() as fields):
            if unknown := sorted(map(str, fields.keys() - _FIELDS)):
                raise ValueError(f"{unknown[0]}: no version has this field")
            return version_of(domain, group, name, **fields, payload_bytes_max=payload_bytes_max)
    raise ValueError(f"{pair!r:.80} is not a name with its fields")


def message_of(
    domain: str,
    group: str,
    name: str,
    payload: object,
    *,
    id: str,  # noqa: A002  (the field's name)
    to: Iterable[str] = (),
    expires_at: int | None = None,
    source: str | None = None,
    time_ms: int | None = None,
    traceparent: str | None = None,
    priority: str | None = None,
    key: str | None = None,
) -> Outgoing:
    """Returns the message of these arguments: bytes unchanged, anything else as JSON. Raises ValueError in the same
    way.
    """
    _check_names(domain, group)
    channel_text(check_no_dead_letters(_text("channel", name)))
    if isinstance(to, str):
        raise ValueError(f"to: {to!r} is text, and not several attributes")
    data = _bytes(payload)
    if len(data) > MESSAGE_BYTES_MAX:
        raise ValueError(f"payload: has {len(data)} bytes (at most {MESSAGE_BYTES_MAX} are allowed)")
    if not 1 <= len(_text("id", id).encode(errors="replace")) <= MESSAGE_ID_BYTES_MAX:
        raise ValueError(f"id: {id[:80]!r} has not 1 to {MESSAGE_ID_BYTES_MAX} bytes")
    if key is not None and len(_text("key", key).encode(errors="replace")) > MESSAGE_KEY_BYTES_MAX:
        raise ValueError(f"key: {key[:80]!r} has more than {MESSAGE_KEY_BYTES_MAX} bytes")
    return Outgoing(
        domain,
        group,
        name,
        is_message=True,
        payload=data,
        id=id,
        to=tuple(check_attributes("to", [_text("to", attribute) for attribute in to])),
        expires_at=_number("expires_at", expires_at),
        source=None if source is None else check_name("source", _text("source", source)),
        time_ms=time_ms,
        traceparent=traceparent,
        priority=HIGH if check_priority(priority) else None,
        order_key=key or "",
    )


def publish_of(outgoing: Outgoing, request: int) -> wire.Publish:
    """Returns it as a Publish frame."""
    publish = wire.Publish(
        request=request,
        payload=outgoing.payload or b"",
        expires_at=outgoing.expires_at or 0,
        describe=outgoing.describe.encode(),
        only_describe=outgoing.only_describe,
    )
    if outgoing.is_message:
        publish.channel, publish.id = outgoing.name, outgoing.id
        publish.to.extend(outgoing.to)
        publish.key = outgoing.order_key
    else:
        publish.object = outgoing.name
        if outgoing.version is not None:
            publish.version = outgoing.version
        publish.incarnation, publish.deleted = outgoing.incarnation or 0, outgoing.deleted
    publish.clock_ms = outgoing.clock_ms or 0
    if outgoing.priority is not None:
        publish.priority = wire.PRIORITY_HIGH
    return publish


def check_frame(outgoing: Outgoing) -> None:
    """Raises ValueError where it is too large for a session."""
    size = FRAME_LENGTH_BYTES_MAX + wire.ClientFrame(publish=publish_of(outgoing, (1 << 32) - 1)).ByteSize()
    size += _CLOCK_BYTES + (_VERSION_BYTES if outgoing.version is None and outgoing.is_version else 0)
    if size > CLIENT_FRAME_BYTES_MAX:
        raise ValueError(f"payload: with all fields has {size} bytes (at most {CLIENT_FRAME_BYTES_MAX} fit a frame)")


def _check_names(domain: str, group: str) -> None:
    check_name("domain", _text("domain", domain))
    check_name("group", _text("group", group))


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidName(f"{field}: {value!r} is not text")
    return value


def _number(field: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{field}: {value!r} is not a whole number")
    if not 0 <= value <= VERSION_MAX:
        raise ValueError(f"{field}: {value} is not from 0 to {VERSION_MAX}")
    return value


def payload_fields(payload: bytes) -> dict[str, Any]:
    """Returns the payload as a field of a request to a service: as JSON, if `compact_json` of it is the very bytes."""
    try:
        value = json.loads(payload.decode())
        if compact_json(value) == payload:
            return {"payload": value}
    except (ValueError, RecursionError):
        pass
    return {"payload_base64": base64.b64encode(payload).decode()}


def said_payload(payload: object) -> dict[str, Any]:
    """Returns an application's payload as a field of a request to a service; none for None."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return {"payload_base64": base64.b64encode(payload).decode()}
    return {} if payload is None else {"payload": payload}


def _bytes(payload: object) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    return compact_json(payload)


def compact_json(payload: object) -> bytes:
    """Returns a value as JSON. Raises ValueError, whose message begins with "payload: "."""
    try:
        return json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise ValueError(f"payload: cannot be written as JSON: {error}") from None
