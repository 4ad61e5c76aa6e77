"""The public record of the objects topic: what back-ends write, as JSON."""

from typing import Annotated, Literal, TypeVar

import msgspec

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.priority import check_priority
from coldnotify_schemas.whole_numbers import whole_number

VERSION_MAX = (1 << 63) - 1
PAYLOAD_BYTES_MAX = 4096
"""Of the payload's JSON: it is for a hint, the data itself travels between OU and back-end."""
RECORD_BYTES_MAX = 64 * 1024
"""Of the whole record: far more than the payload and the other fields need."""
MOVED_HEADER = "coldnotify-moved"
"""Header of a record that its owner moved from a wrong partition; its value is `partition@offset` there."""
SINCE_HEADER = "coldnotify-since"
"""Header of a newest version that its owner wrote down again; its value is `epoch/offset` of its first record."""
REASON_HEADER = "coldnotify-reason"
"""Header of a rejected record: what is wrong with it, in words."""
PLACE_HEADER = "coldnotify-place"
"""Header of a rejected record: where it stood, `topic/partition@offset`."""

INCARNATION_MAX = (1 << 31) - 1
"""The highest incarnation of a record that is the first of its partition. Each offset behind it may have one more, so
whatever the newest version is, a reset can outdo it: its record comes later."""
_REASON_CHARS_MAX = 1000

_Record = TypeVar("_Record", bound="PublicRecord")
_Version = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]


class InvalidRecord(ValueError):
    """A public record that cannot be understood; the message names the field and what is wrong with it."""


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
        """The payload's JSON, b"" if there is none."""
        return b"" if isinstance(self.payload, msgspec.UnsetType) else bytes(self.payload)


class PrioritizedRecord(PublicRecord, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A version with its priority, as it is on its way to Kafka. There a header says it, and not the record's value:
    release 0.1.0 refuses fields that it does not know, and passes over headers."""

    priority: Literal["high"] | None = None

    @property
    def is_high(self) -> bool:
        """Whether it is to come before what waits."""
        return self.priority is not None


_decoder = msgspec.json.Decoder(PublicRecord)
_prioritized_decoder = msgspec.json.Decoder(PrioritizedRecord)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def parse_public_record(value: bytes) -> PublicRecord:
    """The record that `value` is. Raises InvalidRecord, whose message begins with the field at fault."""
    return _parse(value, _decoder)


def parse_prioritized_record(value: bytes) -> PublicRecord:
    """As parse_public_record, of what a publisher says to a service: it may say the priority as a field."""
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
    """Whether the record is to come before what waits."""
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
    """The record as JSON, without the fields that say nothing, and without its priority: a header says that."""
    if is_high(record):
        record = msgspec.structs.replace(record, priority=None)
    return _encoder.encode(record)


def check_incarnation(record: PublicRecord, offset: int) -> None:
    """Whether a record at this offset may have its incarnation: it is seen of the record alone, as compaction may leave
    it alone. Raises InvalidRecord."""
    if record.incarnation is not None and record.incarnation > INCARNATION_MAX + offset:
        raise InvalidRecord(f"incarnation: is {record.incarnation} (at most {INCARNATION_MAX + offset} here)")


def since_header(epoch: int, offset: int) -> tuple[str, bytes]:
    """The header that says at which offset of an epoch a version came first."""
    return SINCE_HEADER, b"%08x/%d" % (epoch, offset)


def since_of(value: bytes, epoch: int, offset: int) -> int | None:
    """The offset that a SINCE_HEADER names, of a record at `offset`; None: it is of another epoch, or says nothing."""
    said_epoch, slash, said_offset = value.partition(b"/")
    return whole_number(said_offset, offset) if slash and said_epoch == b"%08x" % epoch else None


def rejected_headers(reason: str, place: str) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Of a rejected record. `reason` begins with the field at fault; it may quote what is no text at all."""
    words = reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[:_REASON_CHARS_MAX]}..."
    return (REASON_HEADER, words.encode(errors="replace")), (PLACE_HEADER, place.encode())


def raw_payload(payload: object) -> msgspec.Raw:
    """`payload`, anything JSON can say, as a record carries it. Raises InvalidRecord."""
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
