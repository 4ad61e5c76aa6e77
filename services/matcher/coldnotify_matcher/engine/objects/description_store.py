"""The descriptions of a partition's objects. Records merge by the highest timestamp, then by the last offset.

Descriptions have few keys, and values that many of them share. Equal keys and equal values are one string or one number
in memory.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coldnotify_schemas.descriptions import (
    Description,
    Value,
    encode_description_record,
    parse_description_record,
)
from coldnotify_schemas.records import InvalidRecord

NEVER = -1
"""The version and offset of a description without a valid record."""
SHARED_MAX = 65_536
"""Number of keys and values that are looked up to be shared. Above it the table begins empty again, because it has to
save memory. Values that were shared stay shared."""
KEPT_MAX = 4
"""Number of records of one object that wait to be parsed. One of them counts; those below it are needed if it is not a
valid description."""


class StoredDescription:
    """The description of one object, if it has one, and the offsets of its records in the log."""

    __slots__ = ("description", "kept_offset", "last_offset", "offset", "version")

    def __init__(self) -> None:
        self.description: Description | None = None
        self.version = NEVER
        """The timestamp of the record in force, in ms. The removal of a description has one, too."""
        self.offset = NEVER
        """Offset of the record that made the description what it is."""
        self.kept_offset = NEVER
        """Offset of the last record with this description: compaction must keep that one."""
        self.last_offset = NEVER
        """Offset of the last record of this key, whatever its value. Compaction keeps that one."""

    @property
    def needs_repair(self) -> bool:
        """True if compaction would keep a record that is not in force."""
        return self.version != NEVER and self.last_offset > self.kept_offset

    def repair_record(self) -> bytes:
        """Returns the record's value, to be written with `version` as its timestamp."""
        return encode_description_record(self.description)

    def merge(self, description: Description | None, timestamp_ms: int, offset: int) -> bool:
        """Merge one record. Returns true if the description changes."""
        self.last_offset = max(self.last_offset, offset)
        if timestamp_ms < self.version:
            return False
        first = self.version == NEVER
        self.version = timestamp_ms
        self.kept_offset = offset
        if same(self.description, description):
            if first:
                self.offset = offset  # it may have been described before by a record that compaction has removed
            return False
        self.description = description
        self.offset = offset
        return True


class DescriptionChange(NamedTuple):
    """A change of an object's description by a record; None: it has none."""

    before: Description | None
    after: Description | None


class _Kept(NamedTuple):
    timestamp_ms: int
    offset: int
    value: bytes | None


class DescriptionStore:
    """The descriptions of one partition, by group (domain/group) and the object's name."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, StoredDescription]] = {}
        self._kept: dict[tuple[str, str], list[_Kept]] = {}
        """Records that wait to be parsed; the last one counts, if it is a description."""
        self._shared: dict[tuple[type, Value], Value] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def of(self, group: str, name: str) -> StoredDescription | None:
        """Returns the stored description of an object; None: it never had one."""
        return self._groups.get(group, _NOBODY).get(name)

    def of_group(self, group: str) -> Mapping[str, StoredDescription]:
        """Returns the stored descriptions of a group's objects, by their names."""
        return self._groups.get(group, _NOBODY)

    def take(
        self, group: str, name: str, value: bytes | None, timestamp_ms: int, offset: int
    ) -> DescriptionChange | None:
        """Merge one record; None: it changes nothing. Raises InvalidRecord: then the one in force stays."""
        described = self._groups.get(group, _NOBODY).get(name)
        try:
            description = understood(value, timestamp_ms)
        except InvalidRecord:
            if described is not None:
                described.last_offset = max(described.last_offset, offset)
            raise
        if described is None:
            described = self._groups.setdefault(group, {})[name] = StoredDescription()
        before = described.description
        if not described.merge(description, timestamp_ms, offset):
            return None
        if description is not None:
            described.description = self._share(description)
        return DescriptionChange(before, description)

    def keep(self, group: str, name: str, value: bytes | None, timestamp_ms: int, offset: int) -> None:
        """Keep one record of a log that is being loaded. It is parsed in `finish_load`, if it counts by then."""
        kept = self._kept.setdefault((group, name), [])
        record = _Kept(timestamp_ms, offset, value)
        # In the order in which they count, as in `merge`: mostly that of the log.
        place = len(kept)
        while place and kept[place - 1].timestamp_ms > timestamp_ms:
            place -= 1
        kept.insert(place, record)
        if len(kept) > KEPT_MAX:
            self._parse(group, name, kept)

    def groups(self) -> list[str]:
        """Returns the groups with an object that is described, or was."""
        return list(self._groups)

    def settle(self, group: str, name: str) -> None:
        """Parse an object's waiting records, as far as they count. `finish_load` checks it again."""
        kept = self._kept.get((group, name))
        if kept:
            self._parse(group, name, kept)

    def forget(self, group: str, name: str) -> None:
        """Forget it, as if it never had a description."""
        described = self.of(group, name)
        if described is not None:
            described.version = NEVER  # others that still refer to it must not write it again
            del self._groups[group][name]
            if not self._groups[group]:
                del self._groups[group]

    def finish_load(self) -> Iterator[tuple[str, str, StoredDescription]]:
        """Parse the records that count. Yields descriptions that must be written again: group, name and the
        description."""
        kept_of, self._kept = self._kept, {}
        for (group, name), kept in kept_of.items():
            self._parse(group, name, kept)
            described = self.of(group, name)
            if described is not None and described.needs_repair:
                yield group, name, described

    def _parse(self, group: str, name: str, kept: list[_Kept]) -> None:
        """Take the one of these that counts; the others are outdone, or are not descriptions."""
        last_offset = max((record.offset for record in kept), default=NEVER)
        while kept:
            timestamp_ms, offset, value = kept.pop()
            try:
                self.take(group, name, value, timestamp_ms, offset)
            except InvalidRecord:
                continue
            counts = self.of(group, name)
            if kept and counts is not None and counts.kept_offset == offset:
                counts.offset = offset  # an unparsed record may have described it in another way before
            kept.clear()
        described = self.of(group, name)
        if described is not None:
            described.last_offset = max(described.last_offset, last_offset)

    def _share(self, description: Description) -> Description:
        shared = self._shared
        if len(shared) > SHARED_MAX:
            shared.clear()
        share = shared.setdefault
        return {str(share((str, key), key)): share((type(value), value), value) for key, value in description.items()}


_NOBODY: Mapping[str, StoredDescription] = {}


def understood(value: bytes | None, timestamp_ms: int) -> Description | None:
    """Returns the description in a record, whose timestamp is its version. Raises InvalidRecord."""
    if timestamp_ms < 0:
        raise InvalidRecord(f"timestamp: is {timestamp_ms}, and it is the description's version")
    return parse_description_record(value)


def same(one: Description | None, other: Description | None) -> bool:
    """Returns true if both are equal, with values of the same types; None: there is none."""
    if one is None or other is None:
        return one is other
    # For Python true is 1.
    return one == other and all(type(value) is type(other[key]) for key, value in one.items())
