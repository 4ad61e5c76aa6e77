"""The publishers' actions and the objects topic: which versions exist, and which one is the newest at which offset."""

from dataclasses import dataclass, field

import msgspec
from coldnotify_schemas.atomic_sets import DECIDED_SET_HEADER
from coldnotify_schemas.names import parse_object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import MOVED_HEADER

from coldnotify_simulation.arrived import number_of
from coldnotify_simulation.kafka import PARTITIONS, LogEntry, PartitionLog
from coldnotify_simulation.removing import SimulatedRemovals, key_of

Version = tuple[int, int]
"""(incarnation, version): versions are compared so."""
UNKNOWN: Version = (-1, -1)


class _Value(msgspec.Struct):
    version: int | None = None
    incarnation: int | None = None


_values = msgspec.json.Decoder(_Value)


@dataclass(slots=True)
class Thing:
    """One object."""

    newest: list[tuple[int, Version]] = field(default_factory=list)
    """(offset, the newest version from there on)."""
    last_offset: int = -1
    """Offset of the last record with the newest version."""
    published: set[Version] = field(default_factory=set)
    """Versions by publishers; what a matcher rewrites is not a publish."""
    published_since_loss: set[Version] = field(default_factory=set)
    """Those in the present topic."""
    acknowledged: list[tuple[float, Version]] = field(default_factory=list)
    """(when, the newest version that was acknowledged by then)."""
    active_ms: int = 0
    """The timestamp of the last record with the newest version."""
    removals: int = 0
    """The number of its removals."""
    strayed: Version = UNKNOWN
    """The newest version that was acknowledged in another partition: it is owed once its matcher has moved it."""

    def bring(self, version: Version, entry: LogEntry) -> None:
        """The record at this place makes this version the newest one."""
        self.last_offset, self.active_ms = entry.offset, entry.timestamp_ms
        self.newest.append((entry.offset, version))
        self.published.add(version)
        self.published_since_loss.add(version)

    def due_at(self, cursor: int) -> Version:
        """Returns the newest version, if its last record is at or below the cursor: a client there must know it."""
        if not self.newest or self.last_offset > cursor:
            return UNKNOWN
        return self.newest[-1][1]

    def acknowledged_at(self, at_s: float) -> Version:
        """The newest version acknowledged by then."""
        for when_s, version in reversed(self.acknowledged):
            if when_s <= at_s:
                return version
        return UNKNOWN


class TrueObjects:
    """Follows the objects topic record by record."""

    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}
        self.removals_read = SimulatedRemovals(0)
        self._removed = False

    def take_removed(self) -> bool:
        """Returns true if an object was removed since the last call."""
        removed, self._removed = self._removed, False
        return removed

    def thing(self, key: str) -> Thing:
        """One object, by its key."""
        thing = self.things.get(key)
        if thing is None:
            thing = self.things[key] = Thing()
        return thing

    def newest(self, key: str) -> Version:
        """Returns an object's newest version."""
        thing = self.things.get(key)
        return thing.newest[-1][1] if thing is not None and thing.newest else UNKNOWN

    def on_record(self, partition: int, entry: LogEntry, *, publisher: bool) -> Version | None:
        """A record was written. Returns its version, if it is in its own partition and valid."""
        removed = self.removals_read.removed(partition, entry)
        if removed is not None:
            self._remove(entry, removed)
            return None
        found = said(partition, entry)
        if found is None:
            return None
        key, incarnation, its = found
        newest = self.newest(key)
        if (number := number_of(its, entry, newest)) is None:
            return None
        thing = self.thing(key)
        version = max(newest[0], 0) if incarnation is None else incarnation, number
        # Its owner writes down a set's version, whose place is the set's.
        if version > newest or (version == newest and not any(name == DECIDED_SET_HEADER for name, _ in entry.headers)):
            thing.last_offset = entry.offset
        if version >= newest:
            thing.active_ms = entry.timestamp_ms
        thing.newest.append((entry.offset, max(newest, version)))
        if publisher or any(name == MOVED_HEADER for name, _ in entry.headers):
            thing.published.add(version)
            thing.published_since_loss.add(version)
        return version

    def publish_member(self, key: str, version: Version, entry: LogEntry) -> None:
        """A set was written that brings this version."""
        self.thing(key).bring(version, entry)

    def _remove(self, entry: LogEntry, removed: Version) -> None:
        key, describes = key_of(entry)
        thing = self.things.get(key)
        if describes or thing is None or not thing.newest or not UNKNOWN < thing.newest[-1][1] <= removed:
            return
        self._removed = True
        thing.removals += 1
        thing.newest.append((entry.offset, UNKNOWN))
        thing.last_offset = entry.offset
        thing.acknowledged.clear()
        # What is moved to it from here on is of no incarnation, unless somebody says one.
        thing.strayed = UNKNOWN if thing.strayed <= removed else (0, thing.strayed[1])

    def acknowledge(self, key: str, version: Version, at_s: float) -> None:
        """Its publisher has got the acknowledgement."""
        thing = self.thing(key)
        thing.acknowledged.append((at_s, max(version, thing.acknowledged_at(at_s))))

    def acknowledge_stray(self, key: str, version: Version) -> None:
        """Its publisher, who wrote it into the wrong partition, has got the acknowledgement."""
        thing = self.thing(key)
        thing.strayed = max(version, thing.strayed)

    def lose(self) -> None:
        """The topic was deleted, or a part of it: nothing that was acknowledged is owed."""
        self.removals_read.forget()
        for thing in self.things.values():
            thing.acknowledged.clear()
            thing.strayed = UNKNOWN
            thing.newest.clear()
            thing.published_since_loss.clear()
            thing.last_offset = -1

    def read_again(self, partition: int, log: PartitionLog) -> None:
        """Reads what is left of a partition, which may mean other versions than before."""
        for entry in log.entries:
            self.on_record(partition, entry, publisher=True)


def said(partition: int, entry: LogEntry) -> tuple[str, int | None, int | None] | None:
    """Returns (key, incarnation, version) of a record that counts, as far as it says them."""
    try:
        domain, group, _ = parse_object_key(entry.key)
        value = _values.decode(entry.value or b"")
    except (ValueError, msgspec.MsgspecError):
        return None
    if partition_of(domain, group, PARTITIONS) != partition:
        return None
    return (entry.key or b"").decode(), value.incarnation, value.version


def merged(partition: int, log: PartitionLog, epoch: int) -> dict[str, Version]:
    """Returns the newest version of each object, by the remaining records."""
    newest: dict[str, Version] = {}
    removals_read = SimulatedRemovals(epoch)
    for entry in log.entries:
        removed = removals_read.removed(partition, entry)
        if removed is not None and newest.get(key_of(entry)[0], UNKNOWN) <= removed and not key_of(entry)[1]:
            newest.pop(key_of(entry)[0], None)
        found = said(partition, entry)
        if found is not None:
            key, incarnation, its = found
            before = newest.get(key, UNKNOWN)
            if (number := number_of(its, entry, before)) is not None:
                newest[key] = max(before, (max(before[0], 0) if incarnation is None else incarnation, number))
    return newest
