"""The public record of the objects topic: what back-ends write, as JSON.

A payload may be any bytes. It is stored as JSON only if the record gives back the very bytes; otherwise as a text in
base64, and a header says so.
"""

import base64
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

import msgspec

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.priority import check_priority, priority_header
from coldnotify_schemas.protocol import MESSAGE_ID_BYTES_MAX
from coldnotify_schemas.whole_numbers import offset_in_epoch

VERSION_MAX = (1 << 63) - 1
PAYLOAD_BYTES_MAX = 4096
"""Limit on the payload, unless the operator sets a higher one: it is for a hint, the data itself travels between OU and
back-end."""
LARGEST_PAYLOAD_BYTES = 64 * 1024
"""The highest limit on the payload that can be set: as for a channel's message, and as much as a page has."""
RECORD_BYTES_MAX = 64 * 1024
"""Limit on the whole record: far more than the payload and the other fields need."""
MOVED_HEADER = "coldnotify-moved"
"""Header of a record that its owner moved from a wrong partition; its value is `partition@offset` there."""
SINCE_HEADER = "coldnotify-since"
"""Header of a newest version that its owner wrote down again; its value is `epoch/offset` of its first record."""
PAYLOAD_HEADER = "coldnotify-payload"
"""Header of a record whose payload is bytes in base64; its value is BASE64_VALUE. Release 0.1.0 takes the text for the
payload."""
BASE64_VALUE = b"base64"
"""The only value of PAYLOAD_HEADER that has a meaning."""
REASON_HEADER = "coldnotify-reason"
"""Header of a rejected record: the fault, in words."""
PLACE_HEADER = "coldnotify-place"
"""Header of a rejected record: where it stood, `topic/partition@offset`."""

INCARNATION_MAX = (1 << 31) - 1
"""The highest incarnation of a record at the beginning of its partition. Each later offset allows one more, so a reset
can always exceed the newest version: its record comes later.
"""
_REASON_CHARS_MAX = 1000
_WHITE_SPACE = b" \t\n\r"
_CONDITION_BEGINS = b'"if_'
_BASE64_VALUES = (BASE64_VALUE, BASE64_VALUE.decode())

_Record = TypeVar("_Record", bound="PublicRecord")
_Version = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]


class InvalidRecord(ValueError):
    """A public record is invalid; the message names the field and the fault."""


class PublicRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One version of an object, as a back-end publishes it. Every field is optional."""

    version: _Version | None = None
    """None: the Kafka timestamp of the record in ms is its version."""
    source: str | None = None
    """The client that caused this version: it is spared the live notification."""
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """JSON, at most PAYLOAD_BYTES_MAX bytes; with PAYLOAD_HEADER a text, so many bytes in base64."""
    expires_at: _Version | None = None
    """Unix time in ms from which on the payload is not delivered any more (the version is)."""
    deleted: bool = False
    """The object is gone. A version like any other."""
    incarnation: _Version | None = None
    """Begins the versions over: a higher one outdoes every version of a lower one. None: the one in force."""

    def version_at(self, timestamp_ms: int) -> int:
        """Its version, as a record with that timestamp."""
        return timestamp_ms if self.version is None else self.version

    @property
    def payload_bytes(self) -> bytes:
        """Returns the payload, b"" if there is none."""
        return b"" if isinstance(self.payload, msgspec.UnsetType) else bytes(self.payload)

    @property
    def is_raw(self) -> bool:
        """True if the payload is bytes that the record cannot give back as JSON."""
        return False


class HeadedRecord(PublicRecord, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A version with what headers say of it in Kafka, and not the record's value: release 0.1.0 refuses fields that it
    does not know, and ignores headers. Publishers send it to a service in this form.
    """

    priority: Literal["high"] | None = None
    payload_base64: bytes | msgspec.UnsetType = msgspec.UNSET
    """The payload, in base64 as JSON; instead of `payload`."""

    @property
    def is_high(self) -> bool:
        """True if it is to overtake what waits."""
        return self.priority is not None

    @property
    def payload_bytes(self) -> bytes:
        """Returns the payload, b"" if there is none."""
        return super().payload_bytes if isinstance(self.payload_base64, msgspec.UnsetType) else self.payload_base64

    @property
    def is_raw(self) -> bool:
        """True if the payload is bytes that the record cannot give back as JSON."""
        return self.payload_base64 is not msgspec.UNSET


class ConditionalRecord(HeadedRecord, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A version that becomes the newest only if a condition holds at its record's place in the log.

    Its conditions are in the value, so that matchers of earlier releases, which cannot judge them, refuse the record.
    The owner of the partition decides, and writes a plain record behind it (`decisions`).
    """

    if_version: _Version | None = None
    """The object's newest version has this number."""
    if_absent: bool = False
    """The object has no version, or its newest one says that it is deleted."""
    if_changed: bool = False
    """The object's newest version says something else, whatever its number."""
    id: str | None = None
    """Recognises repeats, at most MESSAGE_ID_BYTES_MAX bytes; None: it is not repeated."""

    @property
    def condition(self) -> str:
        """The name of its condition's field."""
        return "if_absent" if self.if_absent else "if_changed" if self.if_changed else "if_version"

    def as_version(self, version: int, incarnation: int) -> PublicRecord:
        """Returns the version that it becomes, with these numbers."""
        fields = {name: getattr(self, name) for name in HeadedRecord.__struct_fields__}
        numbers = {"version": version, "incarnation": incarnation}
        if self.is_raw or self.is_high:
            return HeadedRecord(**fields | numbers)
        return PublicRecord(**{name: fields[name] for name in PublicRecord.__struct_fields__} | numbers)


CONDITIONS = ("if_version", "if_absent", "if_changed")


class _StoredCondition(PublicRecord, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The value in Kafka of a record with a condition."""

    if_version: _Version | None = None
    if_absent: bool = False
    if_changed: bool = False
    id: str | None = None


_decoder = msgspec.json.Decoder(PublicRecord)
_headed_decoder = msgspec.json.Decoder(HeadedRecord)
_stored_condition_decoder = msgspec.json.Decoder(_StoredCondition)
_conditional_decoder = msgspec.json.Decoder(ConditionalRecord)
_any_decoder = msgspec.json.Decoder()
_base64_decoder = msgspec.json.Decoder(bytes)
_encoder = msgspec.json.Encoder()


def parse_public_record(value: bytes, *, raw: bool = False, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> PublicRecord:
    """The record that `value` is. `raw`: its PAYLOAD_HEADER says base64. Raises InvalidRecord, whose message begins
    with the field at fault."""
    # In base64 a payload is longer; the check of its bytes follows.
    record = _parse(value, _decoder, payload_bytes_max, raw=raw)
    if not raw or isinstance(record.payload, msgspec.UnsetType):
        return record
    try:
        payload = _base64_decoder.decode(record.payload)
    except msgspec.MsgspecError:
        raise InvalidRecord(f"payload: is not base64, as the header {PAYLOAD_HEADER} says") from None
    return _with_payload(record, _check_size(payload, payload_bytes_max), raw=bool(payload))


def parse_objects_record(
    value: bytes, *, raw: bool = False, payload_bytes_max: int = PAYLOAD_BYTES_MAX
) -> PublicRecord:
    """Returns the record that `value` is: a ConditionalRecord, if it has a condition, else as parse_public_record
    does. Raises InvalidRecord."""
    if _CONDITION_BEGINS not in value:
        return parse_public_record(value, raw=raw, payload_bytes_max=payload_bytes_max)
    stored = _parse(value, _stored_condition_decoder, payload_bytes_max, raw=raw)
    fields = {name: getattr(stored, name) for name in _StoredCondition.__struct_fields__}
    record = ConditionalRecord(**fields)
    if not _has_condition(record):
        return parse_public_record(value, raw=raw, payload_bytes_max=payload_bytes_max)
    check_condition(record)
    if not raw or isinstance(record.payload, msgspec.UnsetType):
        return record
    try:
        payload = _base64_decoder.decode(record.payload)
    except msgspec.MsgspecError:
        raise InvalidRecord(f"payload: is not base64, as the header {PAYLOAD_HEADER} says") from None
    return _with_payload(record, _check_size(payload, payload_bytes_max), raw=bool(payload))


def _has_condition(record: ConditionalRecord) -> bool:
    return record.if_version is not None or record.if_absent or record.if_changed


def check_condition(record: ConditionalRecord) -> None:
    """Checks the condition, and what a record with one may say. Raises InvalidRecord, which names the field."""
    said = [name for name in CONDITIONS if (value := getattr(record, name)) is not None and value is not False]
    if len(said) != 1:
        raise InvalidRecord(f"{said[1]}: cannot be combined with {said[0]}" if said else "id: is without a condition")
    if record.incarnation is not None:
        raise InvalidRecord(f"incarnation: cannot be combined with {said[0]}")
    if record.id is not None:
        size = len(record.id.encode(errors="replace"))
        if not 0 < size <= MESSAGE_ID_BYTES_MAX:
            raise InvalidRecord(f"id: has {size} bytes (from 1 to {MESSAGE_ID_BYTES_MAX} are allowed)")


def conditional(record: PublicRecord, **conditions: object) -> PublicRecord:
    """Returns the record with these conditions and `id`, if any is said. Raises InvalidRecord."""
    said = {name: value for name, value in conditions.items() if value is not None and value is not False}
    if not said:
        return record
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    try:
        checked = msgspec.convert(said, _Conditions)
    except msgspec.ValidationError as error:
        raise InvalidRecord(name_the_field(str(error))) from None
    built = ConditionalRecord(**fields | msgspec.structs.asdict(checked))
    check_condition(built)
    return built


class _Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    if_version: _Version | None = None
    if_absent: bool = False
    if_changed: bool = False
    id: str | None = None


def parse_headed_record(
    value: bytes, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX, conditions: bool = False
) -> PublicRecord:
    """Parses a record as parse_public_record does, but with what headers say as fields, as publishers send it to a
    service. `conditions`: it may be a ConditionalRecord."""
    record: HeadedRecord
    if conditions:
        record = _parse(value, _conditional_decoder, payload_bytes_max)
    else:
        record = _parse(value, _headed_decoder, payload_bytes_max)
    if isinstance(record, ConditionalRecord):
        if _has_condition(record) or record.id is not None:
            check_condition(record)
        else:
            record = HeadedRecord(**{name: getattr(record, name) for name in HeadedRecord.__struct_fields__})
    if isinstance(record.payload_base64, bytes):
        if record.payload is not msgspec.UNSET:
            raise InvalidRecord("payload: either payload or payload_base64 may be there")
        return carrying(record, record.payload_base64, payload_bytes_max=payload_bytes_max)
    return record if record.is_high or isinstance(record, ConditionalRecord) else _plain(record)


def carrying(record: PublicRecord, payload: bytes, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> PublicRecord:
    """Returns the record with this payload; b"": without one. It is raw if JSON would not give back the very bytes.

    Raises InvalidRecord if it is too large.
    """
    _check_size(payload, payload_bytes_max)
    return _with_payload(record, payload, raw=not _is_json(payload))


def _is_json(payload: bytes) -> bool:
    """Returns true for JSON that a record gives back: readers drop the white space around a value."""
    if payload.strip(_WHITE_SPACE) != payload:
        return False
    try:
        _any_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _check_size(payload: bytes, payload_bytes_max: int) -> bytes:
    if len(payload) > payload_bytes_max:
        raise InvalidRecord(f"payload: has {len(payload)} bytes (at most {payload_bytes_max} are allowed)")
    return payload


def _with_payload(record: PublicRecord, payload: bytes, *, raw: bool) -> PublicRecord:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    if isinstance(record, ConditionalRecord):
        said = msgspec.Raw(payload) if payload and not raw else msgspec.UNSET
        return ConditionalRecord(
            **fields | {"payload": said, "payload_base64": payload if payload and raw else msgspec.UNSET}
        )
    if payload and raw:
        return HeadedRecord(**fields | {"payload": msgspec.UNSET, "payload_base64": payload})
    fields |= {"payload": msgspec.Raw(payload) if payload else msgspec.UNSET}
    if not is_high(record):
        return PublicRecord(**{name: fields[name] for name in PublicRecord.__struct_fields__})
    return HeadedRecord(**fields | {"payload_base64": msgspec.UNSET})


def _plain(record: PublicRecord) -> PublicRecord:
    """Returns the record as Kafka has its value: without what headers say."""
    fields = {name: getattr(record, name) for name in PublicRecord.__struct_fields__}
    if record.is_raw:
        fields["payload"] = msgspec.Raw(b'"%b"' % base64.b64encode(record.payload_bytes))
    return PublicRecord(**fields)


def prioritized(record: PublicRecord, priority: object) -> PublicRecord:
    """The record with this priority; None: as it is. Raises InvalidRecord."""
    try:
        high = check_priority(priority)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
    if not high:
        return record
    kind = ConditionalRecord if isinstance(record, ConditionalRecord) else HeadedRecord
    return kind(**msgspec.structs.asdict(record) | {"priority": "high"})


def is_high(record: PublicRecord) -> bool:
    """Returns true if the record is to overtake what waits."""
    return isinstance(record, HeadedRecord) and record.is_high


def record_bytes_max(payload_bytes_max: int) -> int:
    """Returns the limit on a whole record: room for the payload in base64, and for the other fields."""
    return max(RECORD_BYTES_MAX, 2 * payload_bytes_max)


def _parse(
    value: bytes, decoder: "msgspec.json.Decoder[_Record]", payload_bytes_max: int, *, raw: bool = False
) -> "_Record":
    bytes_max = record_bytes_max(payload_bytes_max)
    if len(value) > bytes_max:
        raise InvalidRecord(f"record: has {len(value)} bytes (at most {bytes_max} are allowed)")
    try:
        record = decoder.decode(value)
    except msgspec.ValidationError as error:
        raise InvalidRecord(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"record: is not JSON: {error}") from None
    if record.source is not None:
        try:
            check_name("source", record.source)
        except InvalidName as error:
            raise InvalidRecord(str(error)) from None
    if record.payload is not msgspec.UNSET and not raw:
        # As long as the whole record at most.
        if len(value) > payload_bytes_max and (size := len(bytes(record.payload))) > payload_bytes_max:
            raise InvalidRecord(f"payload: has {size} bytes of JSON (at most {payload_bytes_max} are allowed)")
        # Raw fields are skipped over, not checked: what is delivered must be JSON.
        try:
            _any_decoder.decode(record.payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRecord(f"payload: is not JSON: {error}") from None
    return record


def encode_public_record(record: PublicRecord) -> bytes:
    """Returns the record as JSON, without empty fields, and without what headers say (`record_headers`)."""
    if isinstance(record, ConditionalRecord):
        conditions = {name: getattr(record, name) for name in (*CONDITIONS, "id")}
        plain = _plain(record)
        fields = {name: getattr(plain, name) for name in PublicRecord.__struct_fields__}
        return _encoder.encode(_StoredCondition(**fields, **conditions))
    return _encoder.encode(_plain(record) if isinstance(record, HeadedRecord) else record)


def record_headers(record: PublicRecord) -> list[tuple[str, bytes]]:
    """Returns the headers without which the record's value would say less: of its priority, and of a raw payload."""
    return [
        *([priority_header()] if is_high(record) else ()),
        *([payload_header()] if record.is_raw else ()),
    ]


def payload_header() -> tuple[str, bytes]:
    """The header of a record whose payload is in base64."""
    return PAYLOAD_HEADER, BASE64_VALUE


def says_raw(headers: Iterable[tuple[str, str | bytes | None]]) -> bool:
    """Returns true if a record's headers say that its payload is in base64."""
    return any(name == PAYLOAD_HEADER and value in _BASE64_VALUES for name, value in headers)


def check_incarnation(record: PublicRecord, offset: int) -> None:
    """Checks that a record at this offset may have its incarnation. Depends on the record alone, because compaction may
    remove all others. Raises InvalidRecord.
    """
    if record.incarnation is not None and record.incarnation > INCARNATION_MAX + offset:
        raise InvalidRecord(f"incarnation: is {record.incarnation} (at most {INCARNATION_MAX + offset} here)")


def since_header(epoch: int, offset: int) -> tuple[str, bytes]:
    """Returns the header with the offset, in an epoch, at which a version first came."""
    return SINCE_HEADER, b"%08x/%d" % (epoch, offset)


def since_of(value: bytes, epoch: int, offset: int) -> int | None:
    """Returns the offset in a SINCE_HEADER of a record at `offset`; None if it is of another epoch, or invalid."""
    return offset_in_epoch(value, epoch, offset)


def rejected_headers(reason: str, place: str) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Returns the headers of a rejected record. `reason` begins with the field at fault; it may quote bytes that are
    not text.
    """
    words = reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[:_REASON_CHARS_MAX]}..."
    return (REASON_HEADER, words.encode(errors="replace")), (PLACE_HEADER, place.encode())


def payload_of(payload: object) -> bytes:
    """Returns the bytes of a publisher's payload: bytes as they are, any other value as JSON. Raises InvalidRecord."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    try:
        return _encoder.encode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRecord(f"payload: cannot be written as JSON: {error}") from None


def name_the_field(error: str) -> str:
    """The words of InvalidRecord: `version: Expected ...` out of msgspec's "Expected ... - at `$.version`"."""
    words, _, path = error.partition(" - at `$.")
    field = path.rstrip("`").partition("[")[0]
    return f"{field}: {words}" if field else f"record: {words}"
