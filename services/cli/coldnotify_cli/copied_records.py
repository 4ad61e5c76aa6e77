"""The records of one installation as they are written under another prefix, with another number of partitions. Pure.

What depends on the old partitions is left behind: offsets that clients, matchers and channels had there, and what
matchers wrote about their own takeovers. Versions, incarnations, ids and timestamps stay.
"""

from typing import NamedTuple

import msgspec
from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER, arrival_header, arrival_of, is_by_arrival
from coldnotify_schemas.atomic_sets import DECIDED_SET_HEADER, SET_PREFIX
from coldnotify_schemas.decisions import DECIDED_HEADER
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import (
    FORMAT_WITH_SHARES,
    GENERATION_KEY,
    RegistrationsRecord,
    SessionRecord,
    WillRecord,
    is_wills_key,
)
from coldnotify_schemas.message_places import MESSAGE_HEADER
from coldnotify_schemas.mqtt.kept_properties import PREFIX as PROPERTY_PREFIX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import (
    INCARNATION_MAX,
    LARGEST_PAYLOAD_BYTES,
    MOVED_HEADER,
    SINCE_HEADER,
    ConditionalRecord,
    InvalidRecord,
    encode_public_record,
    parse_objects_record,
    parse_public_record,
    payload_header,
    says_raw,
)
from coldnotify_schemas.topics import TopicNames

Headers = list[tuple[str, str | bytes | None]]

STRAYS, NOT_UNDERSTOOD, LOWERED, UNREADABLE = "strays", "not_understood", "lowered", "unreadable"
"""Counts: of records in a wrong partition; of keys and state that a matcher would set aside, too; of incarnations that
are lowered to the highest that any offset allows; of offsets that Kafka's client cannot read."""

_DESCRIBE = KEY_PREFIX.encode()
_SET = SET_PREFIX.encode()
_NO_GATEWAY = "0" * 16
_NOWHERE = -1
_registrations = msgspec.json.Decoder(RegistrationsRecord)
_session = msgspec.json.Decoder(SessionRecord)
_wills = msgspec.json.Decoder(WillRecord)
_Reader = (
    msgspec.json.Decoder[RegistrationsRecord] | msgspec.json.Decoder[SessionRecord] | msgspec.json.Decoder[WillRecord]
)


class SourceRecord(NamedTuple):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    """None: a name in them is not UTF-8."""
    timestamp_ms: int


class CopiedRecord(NamedTuple):
    """A record as it is to be written."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class CopiedRecords:
    """Makes them, and counts what is not copied as it is."""

    def __init__(
        self, source: TopicNames, target: TopicNames, *, source_partitions: int, target_partitions: int
    ) -> None:
        self._source_partitions, self._target_partitions = source_partitions, target_partitions
        self._renamed = dict(zip(source.all, target.all, strict=True))
        self._prefix = source.prefix.encode()
        self._objects, self._channels = source.objects, frozenset(source.channels)
        self._registrations, self._sessions = source.registrations, source.sessions
        self._by_group = frozenset((source.objects, source.registrations, source.sessions, *source.channels))
        self.counts = dict.fromkeys((STRAYS, NOT_UNDERSTOOD, LOWERED, UNREADABLE), 0)

    def note_unreadable(self) -> None:
        """Counts offsets that Kafka's client cannot read."""
        self.counts[UNREADABLE] += 1

    def of(self, record: SourceRecord) -> CopiedRecord | None:
        """Returns the copy of a record; None: it has none. A stray has been moved, or is left for `of_stray`."""
        return self._copied(record, strays=False)

    def of_stray(self, record: SourceRecord) -> CopiedRecord | None:
        """Returns the copy of a record that no matcher has moved to its own partition; None: it is no such record."""
        moved = any(name == MOVED_HEADER for name, _ in record.headers or ())
        if record.value is None or moved or (record.topic != self._objects and record.topic not in self._channels):
            return None
        return self._copied(record, strays=True)

    def _copied(self, record: SourceRecord, *, strays: bool) -> CopiedRecord | None:
        if record.topic not in self._by_group:
            if strays:
                return None
            return self._to(record, record.partition, record.value, record.headers or [])
        if record.topic == self._objects and (record.key or b"").startswith(_SET):
            return None  # the records behind it say what it became
        group = self._group_of(record)
        if group is None or record.headers is None:
            self.counts[NOT_UNDERSTOOD] += not strays
            return None
        is_stray = partition_of(*group, self._source_partitions) != record.partition
        if is_stray is not strays:
            self.counts[STRAYS] += is_stray
            return None
        partition = partition_of(*group, self._target_partitions)
        if record.topic in self._channels:
            return self._to(record, partition, record.value, self._placed(record, record.headers))
        value = record.value
        if value is None and any(name in _DECIDED for name, _ in record.headers):
            return None
        if value is not None and record.topic == self._objects:
            raw = says_raw(record.headers)
            if self._is_conditional(value, raw=raw):
                return None  # the record behind it says what it became
            if arrival_of(record.headers) is not None and self._is_by_arrival(value, raw=raw):
                # What was not moved yet gets its version in its new partition; others have one by now (CopiedArrivals).
                kept = [one for one in record.headers if one[0].startswith(PROPERTY_PREFIX)]
                headers = [arrival_header(), *([payload_header()] if raw else ()), *kept]
                return self._to(record, partition, value, headers) if strays else None
            value = self._object(value, raw=raw)
        elif value is not None:
            value = self._state(record.topic, (record.key or b"").decode(errors="replace"), value)
            if value is None:
                return None
        return self._to(record, partition, value, [one for one in record.headers if one[0] not in _OF_PLACES])

    def _placed(self, record: SourceRecord, headers: Headers) -> Headers:
        """Returns the headers with the message's first place in the old topics, which is no place in the new ones.

        A matcher that moves it while it is copied says the same place: the second one is a repeat.
        """
        place: str | bytes | None = f"{record.partition}@{record.offset}"
        others = []
        for name, value in headers:
            if name == MOVED_HEADER:
                place = value
            else:
                others.append((name, value))
        said = place.encode() if isinstance(place, str) else place or b""
        return [*others, (MOVED_HEADER, self._prefix + said)]

    def _to(self, record: SourceRecord, partition: int, value: bytes | None, headers: Headers) -> CopiedRecord:
        return CopiedRecord(
            self._renamed[record.topic], partition, record.key, value, headers, max(record.timestamp_ms, 1)
        )

    def _group_of(self, record: SourceRecord) -> tuple[str, str] | None:
        key = record.key or b""
        if record.topic == self._objects and key.startswith(_DESCRIBE):
            key = key[len(_DESCRIBE) :]
        parts = key.split(b"/", 2)
        if len(parts) < 3 or record.key == GENERATION_KEY.encode():
            return None
        try:
            return parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            return None

    @staticmethod
    def _is_conditional(value: bytes, *, raw: bool) -> bool:
        try:
            said = parse_objects_record(value, raw=raw, payload_bytes_max=LARGEST_PAYLOAD_BYTES)
        except InvalidRecord:
            return False
        return isinstance(said, ConditionalRecord)

    @staticmethod
    def _is_by_arrival(value: bytes, *, raw: bool) -> bool:
        try:
            return is_by_arrival(parse_public_record(value, raw=raw, payload_bytes_max=LARGEST_PAYLOAD_BYTES), b"")
        except InvalidRecord:
            return False

    def _object(self, value: bytes, *, raw: bool) -> bytes:
        """Returns an object's version with an incarnation that is allowed at every offset."""
        if b"incarnation" not in value:
            return value
        try:
            said = parse_public_record(value, raw=raw, payload_bytes_max=LARGEST_PAYLOAD_BYTES)
        except InvalidRecord:
            return value
        if said.incarnation is None or said.incarnation <= INCARNATION_MAX:
            return value
        self.counts[LOWERED] += 1
        return encode_public_record(msgspec.structs.replace(said, incarnation=INCARNATION_MAX))

    def _state(self, topic: str, key: str, value: bytes) -> bytes | None:
        reader: _Reader = _session if topic == self._sessions else _wills if is_wills_key(key) else _registrations
        try:
            said = reader.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.counts[NOT_UNDERSTOOD] += 1
            return None
        if said.format > FORMAT_WITH_SHARES:
            return value  # a later release's: matchers of this one do not serve its partition
        if isinstance(said, SessionRecord):
            # Its session is one of the old installation's gateways.
            said = msgspec.structs.replace(said, online=False, gateway=_NO_GATEWAY, inbox=0, session=0)
        elif isinstance(said, WillRecord):
            # It waits for a client whose session is over, as after a gateway was stopped.
            return value
        else:
            # Channels' positions have the epoch of their log, and say nothing of another one.
            unsettled = said.unsettled and [msgspec.structs.replace(one, position=_NOWHERE) for one in said.unsettled]
            said = msgspec.structs.replace(said, unsettled=unsettled)
        return msgspec.json.encode(said)


_DECIDED = (DECIDED_HEADER, DECIDED_SET_HEADER)
_OF_PLACES = (MOVED_HEADER, SINCE_HEADER, ARRIVAL_HEADER, MESSAGE_HEADER, *_DECIDED)
"""Headers about offsets of the old topics. A channel's record keeps its place there, by which repeats are known."""
