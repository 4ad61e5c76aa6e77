"""The descriptions of a partition's objects, and how their records merge: by the highest timestamp, then by the last.

Descriptions have few keys, and values that many of them share. Each key and each value that is the same is one string
or one number in memory.
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
"""The version and offset of a description of which there was no record that counts."""
SHARED_MAX = 65_536
"""Keys and values that are looked up to be shared. With more the table begins anew, for it is to save memory. What was
shared stays so."""
KEPT_MAX = 4
"""Records of one object that wait to be parsed. One of them counts; those below it are needed where it turns out to be
no description."""


class StoredDescription:
    """The description of one object, if it has one, and what stands in the log of it."""

    __slots__ = ("description", "kept_offset", "last_offset", "offset", "version")

    def __init__(self) -> None:
        self.description: Description | None = None
        self.version = NEVER
        """The timestamp of the record in force, in ms. That there is none any more has one, too."""
        self.offset = NEVER
        """Of the record that made the description what it is."""
        self.kept_offset = NEVER
        """Of the last record that says so: what compaction is to keep."""
        self.last_offset = NEVER
        """Of the last record of this key, whatever it says. Compaction keeps that one."""

    @property
    def needs_repair(self) -> bool:
        """Compaction would keep a record that is not in force."""
        return self.version != NEVER and self.last_offset > self.kept_offset

    def repair_record(self) -> bytes:
        """The value that says it, to be written with `version` as its timestamp."""
        return encode_description_record(self.description)

    def merge(self, description: Description | None, timestamp_ms: int, offset: int) -> bool:
        """Take in one record. True: the object is described in another way than before."""
        self.last_offset = max(self.last_offset, offset)
        if timestamp_ms < self.version:
            return False
        first = self.version == NEVER
        self.version = timestamp_ms
        self.kept_offset = offset
        if same(self.description, description):
            if first:
                self.offset = offset  # it may have been described before what compaction has left
            return False
        self.description = description
        self.offset = offset
        return True


class DescriptionChange(NamedTuple):
    """What a record has made of an object's description; None: it has none."""

    before: Description | None
    after: Description | None


class _Kept(NamedTuple):
    timestamp_ms: int
    offset: int
    value: bytes | None


class DescriptionStore:
    """Those of one partition, by group (domain/group) and the object's name."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, StoredDescription]] = {}
        self._kept: dict[tuple[str, str], list[_Kept]] = {}
        """What waits to be parsed, the one that counts, if it is a description, last."""
        self._shared: dict[tuple[type, Value], Value] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def of(self, group: str, name: str) -> StoredDescription | None:
        """What is known of an object's description; None: it never had one."""
        return self._groups.get(group, _NOBODY).get(name)

    def of_group(self, group: str) -> Mapping[str, StoredDescription]:
        """What is known of the descriptions of a group's objects, by their names."""
        return self._groups.get(group, _NOBODY)

    def take(
        self, group: str, name: str, value: bytes | None, timestamp_ms: int, offset: int
    ) -> DescriptionChange | None:
        """Take in one record; None: it changes nothing. Raises InvalidRecord: then the one in force stays."""
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
        """Take in one record of a log that is being loaded. It is parsed in `finish_load`, if it counts by then."""
        kept = self._kept.setdefault((group, name), [])
        record = _Kept(timestamp_ms, offset, value)
        # In the order in which they count, as `merge` has it: mostly that of the log.
        place = len(kept)
        while place and kept[place - 1].timestamp_ms > timestamp_ms:
            place -= 1
        kept.insert(place, record)
        if len(kept) > KEPT_MAX:
            self._parse(group, name, kept)

    def groups(self) -> list[str]:
        """Those of which an object is described, or was."""
        return list(self._groups)

    def settle(self, group: str, name: str) -> None:
        """Parse what waits of one object, as far as it counts. It is looked at once more in `finish_load`."""
        kept = self._kept.get((group, name))
        if kept:
            self._parse(group, name, kept)

    def forget(self, group: str, name: str) -> None:
        """It never had a description, as far as is known from here on."""
        described = self.of(group, name)
        if described is not None:
            described.version = NEVER  # whoever has it still is not to write it again
            del self._groups[group][name]
            if not self._groups[group]:
                del self._groups[group]

    def finish_load(self) -> Iterator[tuple[str, str, StoredDescription]]:
        """Parse what counts. Yields what is to be written again: group, name and what is known."""
        kept_of, self._kept = self._kept, {}
        for (group, name), kept in kept_of.items():
            self._parse(group, name, kept)
            described = self.of(group, name)
            if described is not None and described.needs_repair:
                yield group, name, described

    def _parse(self, group: str, name: str, kept: list[_Kept]) -> None:
        """Take the one of these that counts; the others are outdone, or are no descriptions."""
        last_offset = max((record.offset for record in kept), default=NEVER)
        while kept:
            timestamp_ms, offset, value = kept.pop()
            try:
                self.take(group, name, value, timestamp_ms, offset)
            except InvalidRecord:
                continue
            counts = self.of(group, name)
            if kept and counts is not None and counts.kept_offset == offset:
                counts.offset = offset  # it may have been described in another way before, by one that is not parsed
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
    """What a record says, which has a timestamp for a version. Raises InvalidRecord."""
    if timestamp_ms < 0:
        raise InvalidRecord(f"timestamp: is {timestamp_ms}, and it is the description's version")
    return parse_description_record(value)


def same(one: Description | None, other: Description | None) -> bool:
    """Whether both say the same, of values of the same kinds; None: there is none."""
    if one is None or other is None:
        return one is other
    # For Python true is 1.
    return one == other and all(type(value) is type(other[key]) for key, value in one.items())
