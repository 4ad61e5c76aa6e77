"""The client's durable state as JSON.

    {"format": 1, "domain": ..., "group": ..., "client": ...,
     "epoch": 7 or null, "cursor": 1234 or null,
     "wanted": ["camera-config"], "pending": {"camera-config": "register"},
     "applied": {"camera-config": [incarnation, version]},
     "check": CRC-32 of the JSON of all the other fields}

The check is there because worn-out flash flips bits: a damaged cursor that still parses would lose notifications
without anybody noticing. A file without a check is taken as it is.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import STATE_FORMAT

from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify.errors import StateDamaged, StateMismatch

_U64 = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class Document:
    """What must survive a power cut."""

    identity: Identity
    wanted: frozenset[str] = frozenset()
    pending: Mapping[str, Kind] = field(default_factory=dict)
    applied: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    epoch: int | None = None
    cursor: int | None = None


def encode(document: Document) -> bytes:
    """The document as JSON, one line."""
    fields = {
        "format": STATE_FORMAT,
        "domain": document.identity.domain,
        "group": document.identity.group,
        "client": document.identity.client,
        "epoch": document.epoch,
        "cursor": document.cursor,
        "wanted": sorted(document.wanted),
        "pending": {name: kind.value for name, kind in document.pending.items()},
        "applied": {name: list(floor) for name, floor in document.applied.items()},
    }
    fields["check"] = _check(fields)
    return _dump(fields) + b"\n"


def decode(data: bytes, identity: Identity) -> Document:
    """The document that `data` is, of this client. Raises StateDamaged, StateMismatch."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise StateDamaged("is not a JSON object")
    if isinstance(fields.get("format"), int) and fields["format"] > STATE_FORMAT:
        raise StateMismatch(f"format: is {fields['format']}, this library reads {STATE_FORMAT}")
    check = fields.pop("check", None)
    if check is not None and check != _check(fields):
        raise StateDamaged("check: does not fit the rest")
    try:
        document = _document(fields)
    except _Wrong as error:
        raise StateDamaged(str(error)) from None
    if document.identity != identity:
        ours, theirs = ("/".join((i.domain, i.group, i.client)) for i in (identity, document.identity))
        raise StateMismatch(f"belongs to {theirs}, not to {ours}")
    return document


class _Wrong(Exception):
    pass


def _document(fields: dict[str, Any]) -> Document:
    if fields.get("format") != STATE_FORMAT:
        raise _Wrong("format: is missing or unknown")
    identity = Identity(*(_text(fields, name) for name in ("domain", "group", "client")))
    epoch, cursor = _number(fields, "epoch", (1 << 32) - 1), _number(fields, "cursor", _U64)
    if cursor is not None and epoch is None:
        raise _Wrong("cursor: is there without an epoch")
    wanted = fields.get("wanted")
    if not isinstance(wanted, list):
        raise _Wrong("wanted: is not a list")
    names = frozenset(_object("wanted", name) for name in wanted)
    pending: dict[str, Kind] = {}
    for name, kind in _table(fields, "pending"):
        if kind not in (Kind.REGISTER.value, Kind.UNREGISTER.value):
            raise _Wrong(f"pending: {kind!r} is no operation")
        pending[name] = Kind(kind)
        if (pending[name] is Kind.REGISTER) != (name in names):
            raise _Wrong(f"pending: {name!r} contradicts wanted")
    applied: dict[str, tuple[int, int]] = {}
    for name, floor in _table(fields, "applied"):
        if not (isinstance(floor, list) and len(floor) == 2 and all(_is_number(n, _U64) for n in floor)):
            raise _Wrong(f"applied: {name!r} has no [incarnation, version]")
        applied[name] = (floor[0], floor[1])
    return Document(identity=identity, wanted=names, pending=pending, applied=applied, epoch=epoch, cursor=cursor)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _Wrong(f"{name}: is no text")
    return value


def _number(fields: dict[str, Any], name: str, maximum: int) -> int | None:
    value = fields.get(name)
    if value is not None and not _is_number(value, maximum):
        raise _Wrong(f"{name}: is no number from 0 to {maximum}")
    return value


def _table(fields: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise _Wrong(f"{name}: is no object")
    return [(_object(name, key), entry) for key, entry in value.items()]


def _object(field_: str, name: object) -> str:
    try:
        return check_object(name if isinstance(name, str) else "")
    except InvalidName as error:
        raise _Wrong(f"{field_}: {error}") from None


def _is_number(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def _check(fields: dict[str, Any]) -> int:
    return zlib.crc32(_dump(fields))


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
