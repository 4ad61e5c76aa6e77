"""The public record of the objects topic: what back-ends write, as JSON."""

from typing import Annotated, Literal, TypeVar

import msgspec

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.priority import check_priority
from coldnotify_schemas.whole_numbers import offset_in_epoch

VERSION_MAX = (1 << 63) - 1
PAYLOAD_BYTES_MAX = 4096
"""Limit on the payload's JSON: it is for a hint, the data itself travels between OU and back-end."""
RECORD_BYTES_MAX = 64 * 1024
"""Limit on the whole record: far more than the payload and the other fields need."""
MOVED_HEADER = "coldnotify-moved"
"""Header of a record that its owner moved from a wrong partition; its value is `partition@offset` there."""
SINCE_HEADER = "coldnotify-since"
"""Header of a newest version that its owner wrote down again; its value is `epoch/offset` of its first record."""
REASON_HEADER = "coldnotify-reason"
"""Header of a rejected record: the fault, in words."""
PLACE_HEADER = "coldnotify-place"
"""Header of a rejected record: where it stood, `topic/partition@offset`."""

INCARNATION_MAX = (1 << 31) - 1
"""The highest incarnation of a record at the beginning of its partition. Each later offset allows one more, so a reset
can always exceed the newest version: its record comes later.
"""
_REASON_CHARS_MAX = 1000

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
    """JSON, at most PAYLOAD_BYTES_MAX bytes."""
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
        """Returns the payload's JSON, b"" if there is none."""
        return b"" if isinstance(self.payload, msgspec.UnsetType) else bytes(self.payload)


class PrioritizedRecord(PublicRecord, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A version with its priority, on its way to Kafka. There a header carries it, and not the record's value: release
    0.1.0 refuses fields that it does not know, and ignores headers.
    """

    priority: Literal["high"] | None = None

    @property
    def is_high(self) -> bool:
        """True if it is to overtake what waits."""
        return self.priority is not None


_decoder = msgspec.json.Decoder(PublicRecord)
_prioritized_decoder = msgspec.json.Decoder(PrioritizedRecord)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def parse_public_record(value: bytes) -> PublicRecord:
    """The record that `value` is. Raises InvalidRecord, whose message begins with the field at fault."""
    return _parse(value, _decoder)


def parse_prioritized_record(value: bytes) -> PublicRecord:
    """Parses a record as parse_public_record does, but with priority as a field, as publishers send it to a service."""
    record = _parse(value, _prioritized_decoder)
    if record.is_high:
        return record
    return PublicRecord(**{name: getattr(record, name) for name in PublicRecord.__struct_fields__})


def prioritized(record: PublicRecord, priority: object) -> PublicRecord:
    """The record with this priority; None: as it is. Raises InvalidRecord."""
    try:
        high = check_priority(priority)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
    if not high:
        return record
    return PrioritizedRecord(**msgspec.structs.asdict(record), priority="high")


def is_high(record: PublicRecord) -> bool:
    """Returns true if the record is to overtake what waits."""
    return isinstance(record, PrioritizedRecord) and record.is_high


def _parse(value: bytes, decoder: "msgspec.json.Decoder[_Record]") -> "_Record":
    if len(value) > RECORD_BYTES_MAX:
        raise InvalidRecord(f"record: has {len(value)} bytes (at most {RECORD_BYTES_MAX} are allowed)")
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
    if record.payload is not msgspec.UNSET:
        # As long as the whole record at most.
        if len(value) > PAYLOAD_BYTES_MAX and (size := len(record.payload_bytes)) > PAYLOAD_BYTES_MAX:
            raise InvalidRecord(f"payload: has {size} bytes of JSON (at most {PAYLOAD_BYTES_MAX} are allowed)")
        # Raw fields are skipped over, not checked: what is delivered must be JSON.
        try:
            _any_decoder.decode(record.payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRecord(f"payload: is not JSON: {error}") from None
    return record


def encode_public_record(record: PublicRecord) -> bytes:
    """Returns the record as JSON, without empty fields, and without its priority, which a header carries."""
    if is_high(record):
        record = msgspec.structs.replace(record, priority=None)
    return _encoder.encode(record)


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


def raw_payload(payload: object) -> msgspec.Raw:
    """Returns `payload`, any JSON value, in a record's form. Raises InvalidRecord."""
    try:
        encoded = _encoder.encode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRecord(f"payload: cannot be written as JSON: {error}") from None
    if len(encoded) > PAYLOAD_BYTES_MAX:
        raise InvalidRecord(f"payload: has {len(encoded)} bytes of JSON (at most {PAYLOAD_BYTES_MAX} are allowed)")
    return msgspec.Raw(encoded)


def json_payload(payload: bytes) -> msgspec.Raw:
    """`payload`, if it is JSON, as a record carries it. Raises InvalidRecord."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InvalidRecord(f"payload: has {len(payload)} bytes of JSON (at most {PAYLOAD_BYTES_MAX} are allowed)")
    try:
        _any_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"payload: is not JSON: {error}") from None
    return msgspec.Raw(payload)


def name_the_field(error: str) -> str:
    """The words of InvalidRecord: `version: Expected ...` out of msgspec's "Expected ... - at `$.version`"."""
    words, _, path = error.partition(" - at `$.")
    field = path.rstrip("`").partition("[")[0]
    return f"{field}: {words}" if field else f"record: {words}"
