"""The bodies of requests: one public record, or many. Pure."""

from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

import msgspec
from coldnotify_common.http.json_items import InvalidJson, ItemTooLong, JsonItems, TooManyItems, counted, unknown_field
from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, InvalidRecord, PublicRecord, parse_headed_record

Named = tuple[str, PublicRecord]

SINGLE_BODY_BYTES_MAX = 128 * 1024
"""Limit on a request with one record, message or description: twice their own limit, so that the error can name what is
too long.
"""
_PARTS_BEFORE = 7
"""Slashes before the name in /v1/domains/DOMAIN/groups/GROUP/objects/NAME."""


class InvalidObject(BadRequest):
    """One of many objects is wrong; `object` is its name, or its place in the list."""

    def __init__(self, object_: str, error: ValueError) -> None:
        field, _, words = str(error).partition(": ")
        super().__init__(field, words)
        self.object = object_


def end_of_path(raw_path: str) -> str:
    """Returns the part of a path after /v1/domains/DOMAIN/groups/GROUP/objects/, or /channels/. A domain or a group may
    have one of these names, too.
    """
    return raw_path.split("/", _PARTS_BEFORE)[_PARTS_BEFORE]


def object_of_path(raw_path: str) -> str:
    """Returns the object's name at the end of a raw path: "/" may be unescaped or %2F.

    Raises InvalidName. (Strict where URL libraries guess: a %FF is an error here, not a name with percent signs.)
    """
    encoded = end_of_path(raw_path)
    try:
        return check_object(unquote_to_bytes(encoded).decode())
    except UnicodeDecodeError:
        raise InvalidName(f"object: {encoded[:80]!r} is not valid UTF-8") from None


def parse_one(body: bytes, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> PublicRecord:
    """A body with one record, which may have a condition; nothing at all means {}. Raises BadRequest."""
    try:
        return _parse(body if body.strip() else b"{}", payload_bytes_max, conditions=True)
    except InvalidRecord as error:
        raise _bad_request(error) from None


def parse_many(body: bytes, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> Iterator[Named]:
    """{"objects": {name: record, ...}} or [{"object": name, ...record}, ...], one by one. Raises BadRequest.

    They are counted before one is looked at.
    """
    try:
        items = _items(JsonItems(body, SINGLE_BODY_BYTES_MAX))
    except TooManyItems as error:
        raise BadRequest("objects", str(error)) from None
    except (InvalidJson, ItemTooLong) as error:
        raise BadRequest("objects", f"neither {{name: record}} nor a list of records with names: {error}") from None
    if isinstance(items, dict):
        for name, raw in items.items():
            yield name, _record(name, bytes(raw), payload_bytes_max)
        return
    for place, raw in enumerate(items):
        name, record = _named(place, bytes(raw))
        yield name, _record(name, record, payload_bytes_max)


def _items(text: JsonItems) -> dict[str, msgspec.Raw] | list[msgspec.Raw]:
    """Returns records by name, or as a list. Raises InvalidJson, ItemTooLong, TooManyItems."""
    if text.next() == b"[":
        listed = counted(text.elements(), PUBLISHES_PER_REQUEST_MAX)
        text.end()
        return listed
    found: dict[str, msgspec.Raw] | None = None
    for field in text.names():
        if field != "objects":
            raise unknown_field(field)
        found = dict(counted(text.members(), PUBLISHES_PER_REQUEST_MAX))
    text.end()
    if found is None:
        raise InvalidJson("Object missing required field `objects`")
    return found


def _named(place: int, raw: bytes) -> tuple[str, bytes]:
    where = f"objects[{place}]"
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("objects", f"{where} is no record with a name: {error}") from None
    name = fields.pop("object", None)
    if name is None:
        raise InvalidObject(where, ValueError("object: is missing"))
    try:
        return msgspec.json.decode(name, type=str), msgspec.json.encode(fields)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidObject(where, ValueError(f"object: {error}")) from None


def _record(name: str, raw: bytes, payload_bytes_max: int) -> PublicRecord:
    try:
        check_object(name)
        return _parse(raw, payload_bytes_max)
    except (InvalidName, InvalidRecord) as error:
        raise InvalidObject(name, error) from None


def _parse(value: bytes, payload_bytes_max: int, *, conditions: bool = False) -> PublicRecord:
    """Raises InvalidRecord, also where it would begin an object's versions over: nobody could outdo the highest one."""
    record = parse_headed_record(value, payload_bytes_max=payload_bytes_max, conditions=conditions)
    if record.incarnation is not None:
        raise InvalidRecord("incarnation: is not a publisher's to say; `coldnotify object reset` begins versions over")
    return record


def _bad_request(error: InvalidRecord) -> BadRequest:
    field, _, words = str(error).partition(": ")
    return BadRequest(field, words)
