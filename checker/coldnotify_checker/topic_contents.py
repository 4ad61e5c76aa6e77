"""The contents of the topics at the end, merged by rules of this module's own."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coldnotify_schemas.descriptions import KEY_PREFIX, Description, check_description
from coldnotify_schemas.interests import BETWEEN, channel_of
from coldnotify_schemas.matcher_state import GENERATION_KEY
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, InvalidRecord
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, Record, Topic
from coldnotify_checker.object_nulls import KnownRecords, removes
from coldnotify_checker.publishes import Key

_LIMITS = {"version": 1 << 63, "expires_at": 1 << 63, "incarnation": 1 << 31}
"""The numbers of a public record, and what each must be below."""
_TIMES_FROM = 10**12
"""From here on, versions are times in ms."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
_CHECKPOINT = re.compile(r"[0-9a-f]{8}/(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HeldVersion:
    """A version of an object that the topic holds."""

    key: Key
    record: Record


@dataclass(slots=True)
class DumpedTopics:
    """A dump, merged."""

    names: TopicNames
    """The names of the installation's topics."""
    dumped: dict[str, Topic] = field(default_factory=dict)
    newest: dict[str, HeldVersion] = field(default_factory=dict)
    """By domain/group/object: the highest (incarnation, version)."""
    versions: dict[str, list[HeldVersion]] = field(default_factory=dict)
    """All that are still there."""
    described: dict[str, Record] = field(default_factory=dict)
    """By domain/group/object: the description's record with the highest timestamp, the last of equal ones."""
    removed: list[tuple[int, str, bool]] = field(default_factory=list)
    """Removals by nulls that still exist: (Unix time in microseconds, domain/group/object, true if its description)."""
    known: dict[str, KnownRecords] = field(default_factory=dict)
    """By domain/group/object."""
    registered: dict[str, set[str]] = field(default_factory=dict)
    """By domain/group/client: its objects, as domain/group/object."""
    queries: dict[str, set[str]] = field(default_factory=dict)
    """By domain/group/client: the texts of its queries."""
    channels: dict[str, set[str]] = field(default_factory=dict)
    """By domain/group/client: the names of its channels, and the expressions of its patterns."""
    filters: dict[str, set[str]] = field(default_factory=dict)
    """By domain/group/client: the texts of its MQTT filters."""
    buckets: dict[str, list[Record]] = field(default_factory=dict)
    """By client: the records that `registered` was made from."""
    written_for: dict[str, list[Record]] = field(default_factory=dict)
    """By client: all its records of registrations and sessions, by time."""

    def group(self, group: str) -> dict[str, Description]:
        """Returns the objects of a domain/group that are published or described, and not deleted, with their
        descriptions.
        """
        found: dict[str, Description] = {}
        for object_, record in self.described.items():
            if object_.startswith(f"{group}/") and record.value["description"] is not None:
                found[object_[len(group) + 1 :]] = record.value["description"]
        for object_, held in self.newest.items():
            if object_.startswith(f"{group}/"):
                name = object_[len(group) + 1 :]
                if held.record.value.get("deleted", False):
                    found.pop(name, None)
                else:
                    found.setdefault(name, {})
        return found


def merge(events: Iterable[Event], names: TopicNames) -> DumpedTopics:
    """The topics as the history's `record` and `topic` lines tell them."""
    topics = DumpedTopics(names)
    records: dict[str, list[Record]] = {names.objects: [], names.registrations: [], names.sessions: []}
    for event in events:
        if isinstance(event, Topic):
            topics.dumped[event.topic] = event
        elif isinstance(event, Record) and event.topic in records:
            records[event.topic].append(event)
    for of_topic in records.values():
        of_topic.sort(key=lambda record: (record.partition, record.offset))
    _merge_objects(topics, records[names.objects])
    _merge_registrations(topics, records[names.registrations])
    for record in records[names.sessions]:
        if record.key is not None and record.key != GENERATION_KEY:
            topics.written_for.setdefault(record.key, []).append(record)
    for of_client in topics.written_for.values():
        of_client.sort(key=lambda record: record.timestamp)
    return topics


def _merge_objects(topics: DumpedTopics, records: list[Record]) -> None:
    """Merges by the highest (incarnation, version). A record without incarnation has the one in force at its offset."""
    dumped = topics.dumped.get(topics.names.objects)
    partitions = dumped.partitions if dumped else 0
    payload_bytes_max = dumped.payload_bytes_max if dumped else PAYLOAD_BYTES_MAX
    # A stray, in another partition than its own, counts after all that are in their own: it will be moved there.
    for record in sorted(records, key=lambda record: _is_stray(record, partitions)):
        object_ = (record.key or "").removeprefix(KEY_PREFIX)
        describes = object_ != record.key
        known = topics.known.setdefault(object_, KnownRecords())
        if record.removes and _is_removed(topics, object_, record, known, describes=describes):
            continue
        if describes:
            _merge_description(topics, record)
            known.described_last = record.offset
            continue
        known.last = record.offset
        version = _version(record, payload_bytes_max)
        if record.key is None or version is None:
            continue
        newest = topics.newest.get(record.key)
        held = _held(record, version, newest)
        versions = topics.versions.setdefault(record.key, [])
        read_to = _read_to(record)
        if read_to is not None:
            newest = _read_again(versions, held, read_to, payload_bytes_max)
        elif newest is None or held.key > newest.key:
            newest = held
        versions.append(held)
        topics.newest[record.key] = newest


def _held(record: Record, version: int, newest: HeldVersion | None) -> HeldVersion:
    """Returns the record's version. `version`: what it says, or its timestamp."""
    incarnation = record.value.get("incarnation")
    if record.arrival is not None and incarnation is None and record.value.get("version") is None and newest:
        after = min(newest.key[1] + 1, _LIMITS["version"] - 1)
        version = after if newest.key[1] < _TIMES_FROM else max(after, version)
    if incarnation is None:
        incarnation = newest.key[0] if newest else 0
    return HeldVersion((incarnation, version), record)


def _read_to(record: Record) -> int | None:
    """Returns the offset up to which this record's version was the newest; None: its owner does not say it."""
    said = _CHECKPOINT.fullmatch(record.arrival or "")
    if said is None or record.value.get("incarnation") is None or record.value.get("version") is None:
        return None
    read_to = int(said[1])
    return read_to if read_to <= record.offset else None


def _read_again(
    versions: list[HeldVersion], checkpoint: HeldVersion, read_to: int, payload_bytes_max: int
) -> HeldVersion:
    """Reads the records between a checkpoint and the place that it names again: compaction may have removed what those
    by arrival before it counted on. Returns the newest version.
    """
    newest = checkpoint
    for index, one in enumerate(versions):
        if one.record.offset > read_to and (version := _version(one.record, payload_bytes_max)) is not None:
            again = versions[index] = _held(one.record, version, newest)
            newest = max(newest, again, key=lambda held: held.key)
    return newest


def _is_removed(topics: DumpedTopics, object_: str, record: Record, known: KnownRecords, *, describes: bool) -> bool:
    held, description = topics.newest.get(object_), topics.described.get(object_)
    removed = removes(
        record,
        known,
        newest=held.key if held else None,
        deleted=bool(held and held.record.value.get("deleted", False)),
        described=description.timestamp if description else None,
        describes=describes,
    )
    if removed:
        del (topics.described if describes else topics.newest)[object_]
        topics.removed.append((record.timestamp * 1000, object_, describes))
    return removed


def _merge_description(topics: DumpedTopics, record: Record) -> None:
    object_ = (record.key or "").removeprefix(KEY_PREFIX)
    said = record.value.get("description") if isinstance(record.value, dict) else record.value
    if object_.count("/") < 2 or not isinstance(record.value, dict) or record.value.keys() != {"description"}:
        return
    try:
        if said is not None:
            check_description(said)
    except (InvalidRecord, AttributeError, TypeError):
        return
    before = topics.described.get(object_)
    if before is None or record.timestamp >= before.timestamp:
        topics.described[object_] = record


def _is_stray(record: Record, partitions: int) -> bool:
    names = (record.key or "").removeprefix(KEY_PREFIX).split("/", 2)
    return partitions > 0 and len(names) == 3 and partition_of(names[0], names[1], partitions) != record.partition


def _version(record: Record, payload_bytes_max: int) -> int | None:
    """Returns the record's version; None if it is not a public record (the matcher rejects it)."""
    value: Any = record.value
    if not isinstance(value, dict) or not value.keys() <= _LIMITS.keys() | {"source", "payload", "deleted"}:
        return None
    if not isinstance(value.get("deleted", False), bool) or not isinstance(value.get("source") or "", str):
        return None
    size = _payload_bytes(value["payload"], raw=record.raw) if "payload" in value else 0
    if size is None or size > payload_bytes_max:
        return None
    for name, limit in _LIMITS.items():
        number = value.get(name)
        if number is not None and (type(number) is not int or not 0 <= number < limit):
            return None
    version = value.get("version")
    return record.timestamp if version is None else int(version)


def _payload_bytes(payload: Any, *, raw: bool) -> int | None:
    """Returns the payload's size; None if it is not base64, as its header says."""
    if not raw:
        return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())
    if not isinstance(payload, str) or len(payload) % 4 or not _BASE64.fullmatch(payload):
        return None
    return len(payload) // 4 * 3 - payload.count("=")


def _number(value: dict[str, Any], field: str) -> int:
    """Returns a field's whole number; 0 if it has another value."""
    said = value.get(field)
    return said if type(said) is int else 0


def _is_bucket(value: Any) -> bool:
    """Returns true if this is a record of registrations, because foreign writers also write other values."""
    if not isinstance(value, dict) or not isinstance(value.get("objects"), list):
        return False
    queries, channels = value.get("queries", []), value.get("channels", [])
    if not isinstance(queries, list) or not isinstance(channels, list):
        return False
    if not all(isinstance(channel, dict) for channel in channels):
        return False
    texts = [*value["objects"], *queries, *(channel.get("text") for channel in channels)]
    numbers = value.get("generation", 0), value.get("applied", 0)
    return all(isinstance(text, str) for text in texts) and all(type(number) is int for number in numbers)


def _merge_registrations(topics: DumpedTopics, records: list[Record]) -> None:
    """Merges by the highest (generation, applied); a record without value removes what precedes it."""
    newest: dict[str, tuple[tuple[int, int], Record]] = {}
    for record in records:
        client, _, bucket = (record.key or "").rpartition("/")
        if client.count("/") != 2 or not bucket.isdigit():
            continue  # also a client's wills, which cost a few records more
        topics.written_for.setdefault(client, []).append(record)
        assert record.key is not None
        if record.value is None:
            newest.pop(record.key, None)
            continue
        if not _is_bucket(record.value):
            continue
        order = (_number(record.value, "generation"), _number(record.value, "applied"))
        if record.key not in newest or order >= newest[record.key][0]:
            newest[record.key] = (order, record)
    for key, (_order, record) in newest.items():
        client = key.rpartition("/")[0]
        scope = client.rpartition("/")[0]
        topics.registered.setdefault(client, set()).update(f"{scope}/{name}" for name in record.value["objects"])
        interests = record.value.get("interests", ())
        texts = (one["text"] for one in interests if one["kind"] == "query")
        topics.queries.setdefault(client, set()).update(texts)
        names = (channel_of(one["text"])[0].lstrip(BETWEEN) for one in interests if one["kind"] == "channel")
        topics.channels.setdefault(client, set()).update(names)
        filters = (one["text"] for one in interests if one["kind"] == "filter")
        topics.filters.setdefault(client, set()).update(filters)
        topics.buckets.setdefault(client, []).append(record)
