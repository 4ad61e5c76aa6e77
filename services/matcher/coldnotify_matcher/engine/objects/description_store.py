"""The descriptions of a partition's objects. Records merge by the highest timestamp, then by the last offset.

A record that the owner made of clients' patches says the last request in it. Behind one that says a later request it is
void, whatever its timestamp: a matcher wrote it that did not know yet that it had lost the partition.

Descriptions have few keys, and values that many of them share. Equal keys and equal values are one string or one number
in memory.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coldnotify_schemas.description_patches import request_in
from coldnotify_schemas.descriptions import (
    Description,
    Value,
    encode_description_record,
    parse_description_record,
)
from coldnotify_schemas.records import InvalidRecord

NEVER = -1
"""The version, offset and request of a description without a valid record."""
_NO_TIME = -1
_OFFSET_MAX = (1 << 63) - 1
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

    def pass_over(self, offset: int) -> None:
        """Note a record of its key that changes nothing."""
        self.last_offset = max(self.last_offset, offset)

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
        self.requests_epoch = 0
        """The epoch of the topic of requests."""
        self._requests: dict[tuple[str, str], int] = {}
        """The last request in a record of those descriptions that patches have made."""
        self._void: dict[tuple[str, str], list[tuple[_Kept, bytes]]] = {}
        """Records of a log that is being loaded that are void, and their headers."""
        self._request_max = _OFFSET_MAX
        """No request is known above this offset: what says one was not written by a matcher."""

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def of(self, group: str, name: str) -> StoredDescription | None:
        """Returns the stored description of an object; None: it never had one."""
        return self._groups.get(group, _NOBODY).get(name)

    def of_group(self, group: str) -> Mapping[str, StoredDescription]:
        """Returns the stored descriptions of a group's objects, by their names."""
        return self._groups.get(group, _NOBODY)

    def follow_requests(self, epoch: int) -> None:
        """Note the epoch of the topic of requests."""
        self.requests_epoch = epoch

    def begin_requests(self, end: int) -> None:
        """Note the end of the topic of requests, once the log is loaded."""
        self.handles(end - 1)
        void, self._void = self._void, {}
        for place in [place for place, request in self._requests.items() if request >= end]:
            # No matcher wrote that: what came behind it is not void.
            del self._requests[place]
            for record, request_said in void.get(place, ()):
                self.keep(*place, record.value, record.timestamp_ms, record.offset, request_said)

    def handles(self, request: int) -> None:
        """Note the offset of the last request that was handled, or that may have been."""
        known = self._request_max if self._request_max != _OFFSET_MAX else NEVER
        self._request_max = max(known, request)

    def request_of(self, group: str, name: str) -> int:
        """Returns the offset of the last request in an object's description; NEVER: there was none."""
        return self._requests.get((group, name), NEVER)

    def request_in(self, header: bytes) -> int:
        """Returns the offset of the request in a record's header; NEVER: it says none."""
        return request_in(header, self.requests_epoch, self._request_max) if header else NEVER

    def take(
        self, group: str, name: str, value: bytes | None, timestamp_ms: int, offset: int, request: bytes = b""
    ) -> DescriptionChange | None:
        """Merge one record; None: it changes nothing. Raises InvalidRecord: then the one in force stays."""
        described = self._groups.get(group, _NOBODY).get(name)
        if not self._note_request(group, name, request):
            if described is not None:
                described.pass_over(offset)
            return None
        try:
            description = understood(value, timestamp_ms)
        except InvalidRecord:
            if described is not None:
                described.pass_over(offset)
            raise
        if described is None:
            described = self._groups.setdefault(group, {})[name] = StoredDescription()
        before = described.description
        if not described.merge(description, timestamp_ms, offset):
            return None
        if description is not None:
            described.description = self._share(description)
        return DescriptionChange(before, description)

    def keep(
        self, group: str, name: str, value: bytes | None, timestamp_ms: int, offset: int, request: bytes = b""
    ) -> None:
        """Keep one record of a log that is being loaded. It is parsed in `finish_load`, if it counts by then."""
        if not self._note_request(group, name, request):
            void = self._void.setdefault((group, name), [])
            void.append((_Kept(timestamp_ms, offset, value), request))
            del void[:-KEPT_MAX]
            value, timestamp_ms = None, _NO_TIME
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
            self._requests.pop((group, name), None)
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
            described.pass_over(last_offset)

    def _note_request(self, group: str, name: str, header: bytes) -> bool:
        """Note the request that a record's header says. Returns false if the record is void."""
        request = self.request_in(header)
        if request == NEVER:
            return True
        last = self._requests.get((group, name), NEVER)
        self._requests[group, name] = max(last, request)
        return request >= last

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
