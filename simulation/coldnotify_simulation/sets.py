"""Reads groups from the objects topic: which objects exist, their descriptions, and which match a query."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from coldnotify_checker.queries import Description, read_query
from coldnotify_schemas.description_patches import REQUEST_HEADER
from coldnotify_schemas.descriptions import KEY_PREFIX, parse_description_record
from coldnotify_schemas.names import InvalidName, parse_object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord

from coldnotify_simulation.arrived import number_of
from coldnotify_simulation.kafka import PARTITIONS, LogEntry
from coldnotify_simulation.removing import SimulatedRemovals

_PREFIX = KEY_PREFIX.encode()


class _Value(msgspec.Struct):
    version: int | None = None
    incarnation: int | None = None
    deleted: bool = False


_values = msgspec.json.Decoder(_Value)
_NOTHING: Description = {}


@dataclass(slots=True)
class Object:
    """One object, with its state from each offset on."""

    states: list[tuple[int, Description | None]] = field(default_factory=list)
    """(offset, its description, empty if it has none; None: the object does not exist), by offset."""
    described: tuple[int, Description | None] = (-1, None)
    """The timestamp of the description in force, and that description."""
    version: tuple[int, int] = (-1, -1)
    published: bool | None = None
    """False: its newest version is a deletion; None: it was never published."""
    compacted_to: int = -1
    """Records of it below this offset were removed: who reads the log now does not see what they made of it."""

    requests: dict[bytes, int] = field(default_factory=dict)
    """By epoch: the last request in a record of its description."""

    def bring(self, version: tuple[int, int]) -> None:
        """This is its newest version, and no deletion."""
        self.version, self.published = version, True

    def is_void(self, entry: LogEntry) -> bool:
        """Notes the request in a record of its description. Returns true if one before it says a later one."""
        epoch, _, offset = dict(entry.headers).get(REQUEST_HEADER, b"").partition(b"/")
        if not offset.isdigit():
            return False
        last = self.requests.get(epoch, -1)
        self.requests[epoch] = max(last, int(offset))
        return int(offset) < last

    @property
    def state(self) -> Description | None:
        """Its present state."""
        if self.published is None:
            return self.described[1]
        return (self.described[1] or _NOTHING) if self.published else None

    def states_since(self, end: int) -> Iterator[Description | None]:
        """Yields its state below this offset, and all later ones, the latest first."""
        for offset, state in reversed(self.states):
            yield state
            if offset < end:
                return
        yield None


class SimulatedSets:
    """Follows the objects topic record by record."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        """By domain/group and name."""
        self.removals_read = SimulatedRemovals(0)
        self._removed = False
        self.on_described: Callable[[str, Description | None, Description | None], None] | None = None
        """Called with an object's key, its description before and from here on."""

    def take_removed(self) -> bool:
        """Returns true if a description was removed since the last call."""
        removed, self._removed = self._removed, False
        return removed

    def on_record(self, partition: int, entry: LogEntry) -> None:
        """A record was written. Misplaced and invalid ones mean nothing."""
        key = entry.key or b""
        removed = self.removals_read.removed(partition, entry)
        describes = key.startswith(_PREFIX)
        try:
            domain, group, name = parse_object_key(key[len(_PREFIX) :] if describes else key)
            if partition_of(domain, group, PARTITIONS) != partition:
                return
            if removed is not None:
                self._remove(f"{domain}/{group}", name, removed, entry.offset, describes=describes)
                return
            said: Any = parse_description_record(entry.value) if describes else _values.decode(entry.value or b"")
        except (InvalidName, InvalidRecord, ValueError, msgspec.MsgspecError):
            return
        of_group = self.objects.setdefault(f"{domain}/{group}", {})
        thing = of_group.get(name) or Object()
        number = 0 if describes else number_of(said.version, entry, thing.version)
        if number is None:
            return
        of_group[name] = thing
        if describes:
            if thing.is_void(entry) or entry.timestamp_ms < thing.described[0]:
                return
            before, thing.described = thing.described[1], (entry.timestamp_ms, said)
            if self.on_described is not None:
                self.on_described(f"{domain}/{group}/{name}", before, said)
        else:
            version = max(thing.version[0], 0) if said.incarnation is None else said.incarnation, number
            if version <= thing.version:
                return
            thing.version, thing.published = version, not said.deleted
        self._note(thing, entry.offset)

    def on_member(self, key: str, version: tuple[int, int], offset: int) -> None:
        """A set was written that brings this version of an object."""
        domain, group, name = key.split("/", 2)
        thing = self.objects.setdefault(f"{domain}/{group}", {}).setdefault(name, Object())
        thing.bring(version)
        self._note(thing, offset)

    def _remove(self, group: str, name: str, removed: tuple[int, int], offset: int, *, describes: bool) -> None:
        thing = self.objects.get(group, {}).get(name)
        if thing is None:
            return
        if describes:
            if thing.described[0] < 0 or thing.described[0] > removed[1]:
                return
            thing.described = -1, None
            self._removed = True
        else:
            if thing.published is None or thing.version > removed:
                return
            thing.version, thing.published = (-1, -1), None
        self._note(thing, offset)

    def _note(self, thing: Object, offset: int) -> None:
        state = thing.state
        if not thing.states or thing.states[-1][1] is not state:
            thing.states.append((offset, state))

    def on_compaction(self, before: Iterable[LogEntry], left: Iterable[LogEntry]) -> None:
        """Compaction left these of a partition's records."""
        offsets = {entry.key: entry.offset for entry in left}
        for key in {entry.key for entry in before if offsets.get(entry.key, -1) > entry.offset}:
            try:
                domain, group, name = parse_object_key((key or b"").removeprefix(_PREFIX))
            except InvalidName:
                continue
            thing = self.objects.get(f"{domain}/{group}", {}).get(name)
            if thing is not None:
                thing.compacted_to = max(thing.compacted_to, offsets[key])

    def clear(self) -> None:
        """The topic is empty."""
        self.objects.clear()
        self.removals_read.forget()

    def members(self, group: str, query: str) -> set[str]:
        """The objects of a domain/group that fit."""
        matches = read_query(query)
        found = set()
        for name, thing in self.objects.get(group, {}).items():
            state = thing.state
            if state is not None and matches(name, state):
                found.add(name)
        return found

    def wrong(self, group: str, query: str, held: Iterable[str], end: int) -> set[str]:
        """Returns names that are held, or are not, although the opposite is true from this offset on.

        What compaction has removed cannot be judged.
        """
        matches, held = read_query(query), frozenset(held)
        objects = self.objects.get(group, {})
        found = set(held - objects.keys())
        for name, thing in objects.items():
            if thing.compacted_to >= end:
                continue
            holds = name in held
            states = thing.states_since(end)
            if all((state is not None and matches(name, state)) is not holds for state in states):
                found.add(name)
        return found

    def described_otherwise(self, group: str, name: str, held: Mapping[str, Any], end: int) -> bool:
        """Returns true if the object was described differently at this offset, and ever since: later descriptions are
        above the cursor, as with versions.
        """
        thing = self.objects.get(group, {}).get(name)
        if thing is None or thing.compacted_to >= end:
            return False
        first, *later = thing.states_since(end)
        return first is not None and first != held and all(state == first for state in later)

    def stable(self, group: str, query: str, name: str, end: int) -> bool:
        """Returns true if the object matches at this offset, and ever since."""
        matches, thing = read_query(query), self.objects.get(group, {}).get(name)
        if thing is None or thing.compacted_to >= end:
            return False
        return all(state is not None and matches(name, state) for state in thing.states_since(end))

    def changed(self, group: str, query: str, name: str, end: int) -> bool:
        """Returns true if the object has both matched and not matched, at this offset and since."""
        matches, thing = read_query(query), self.objects.get(group, {}).get(name)
        states = () if thing is None else thing.states_since(end)
        return len({state is not None and matches(name, state) for state in states}) == 2


def unmoved(logs: Iterable[tuple[int, Iterable[LogEntry]]], groups: SimulatedSets) -> list[str]:
    """Returns objects with a misplaced description that is newer than the one in force."""
    found = []
    for partition, entries in logs:
        # One that was moved has a record without a value behind it.
        last = {entry.key or b"": entry for entry in entries}
        for key, entry in last.items():
            if not key.startswith(_PREFIX):
                continue
            try:
                domain, group, name = parse_object_key(key[len(_PREFIX) :])
                parse_description_record(entry.value)
            except (InvalidName, InvalidRecord):
                continue
            thing = groups.objects.get(f"{domain}/{group}", {}).get(name)
            in_force = -1 if thing is None else thing.described[0]
            if partition_of(domain, group, PARTITIONS) != partition and entry.timestamp_ms > in_force:
                found.append(f"{domain}/{group}/{name}")
    return found


def groups_of(logs: Iterable[tuple[int, Iterable[LogEntry]]], epoch: int) -> SimulatedSets:
    """Reads groups from the remaining records."""
    groups = SimulatedSets()
    groups.removals_read.epoch = epoch
    for partition, entries in logs:
        for entry in entries:
            groups.on_record(partition, entry)
    return groups
