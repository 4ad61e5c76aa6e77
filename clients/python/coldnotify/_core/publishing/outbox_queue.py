"""An outbox without its disk: accepted records, the order of sending, and what a newer publish replaces.

A record goes through these steps:

    accept()   it has its number, its version or id, and its entry for the log. Nobody sends it yet.
    commit()   the log is durable. It waits after all others, and replaces an older publish of its object,
               unless that is in flight.  (abandon(): the log could not be written. It is dropped.)
    take()     it is in flight.
    settle()   it is published, or rejected: it is gone.  (put_back(): it waits again, at its old place.)
    renumber() its version came from a wrong clock: from here on it has another, at its old place.

A patch of an object's description is never dropped: what replaces it takes it over, in front of its own, if nothing in
between says one. A patch alone replaces only patches.

The log is replayed by the same rules, but each patch stays with its own record. So after a crash, what was in flight
waits again, or is gone if a newer publish of its object was accepted meanwhile.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coldnotify_schemas.protocol import CLOCK_AHEAD_S_MAX
from coldnotify_schemas.wrong_clocks import clock_fault, expiry_here

from coldnotify._core.publishing.outbox_log import (
    Checkpoint,
    KeptEntry,
    OutboxLog,
    Renumbered,
    Settled,
    accepted_entry,
    checkpoint_entry,
    read_log,
    renumbered_entry,
    settled_entry,
)
from coldnotify._core.publishing.outgoing import VERSION_MAX, Outgoing, after_another
from coldnotify.errors import OutboxFull

VERSION_NONE = "version: the object's last version is the highest there is, so no version can follow it"
OBJECTS_REMEMBERED_MAX = 10_000
"""Objects whose last version is remembered. One that is forgotten gets its next version above all that were given."""

STEPS_REMEMBERED_MAX = 8
"""Limit for one object, until its version is settled. A clock that steps ahead by an hour again and again is rare."""


class _Last(NamedTuple):
    """The highest version that an object was given, or published with."""

    version: int
    clocked: bool
    """It comes from this machine's clock."""
    settled: int = -1
    """The highest that was settled: of a clock that was wrong the service has taken none."""
    lower: tuple[int, ...] = ()
    """The highest of before each time that the clock stepped ahead: it may have been published, and taken out before
    that is known. In order."""

    def max(self, other: "_Last") -> "_Last":
        """Both together."""
        high, low = (self, other) if self.version >= other.version else (other, self)
        earlier = {*high.lower, *low.lower}
        if low.version >= 0 and high.version - low.version > CLOCK_AHEAD_S_MAX * 1000:
            earlier.add(low.version)
        settled = max(self.settled, other.settled)
        lower = sorted(one for one in earlier if one > settled)[-STEPS_REMEMBERED_MAX:]
        return high._replace(settled=settled, lower=tuple(lower))


_NO_LAST = _Last(-1, clocked=False)


class OutboxQueue:
    """See the module."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max, self._bytes_max = records_max, bytes_max
        self._waiting: dict[int, KeptEntry] = {}
        """By number, in the order of sending, including those in flight."""
        self._under_way: set[int] = set()
        self._of_object: dict[tuple[str, str, str], list[int]] = {}
        """The numbers of each object's versions in `_waiting`: one, apart from those in flight and those that newer
        ones do not outdo.
        """
        self._uncommitted: dict[int, KeptEntry] = {}
        self._bytes = 0
        self._next = 1
        self._versions: OrderedDict[tuple[str, str, str], _Last] = OrderedDict()
        self._floor = 0
        """The highest version that the clock gave to objects that are not remembered."""
        self._floor_all = 0
        """The highest version that it gave to any object and that is settled."""

    # -- from the log, and to it ---------------------------------------------------------------------------------------

    def load(self, data: bytes) -> OutboxLog:
        """Loads a log; returns it. Raises outbox_log.NewerLog."""
        log = read_log(data)
        unsettled: dict[int, KeptEntry] = {}
        """Also those that were taken out: they may have been under way then, and published."""
        for entry in log.entries:
            match entry:
                case KeptEntry():
                    self._next = max(self._next, entry.number + 1)
                    unsettled[entry.number] = entry
                    self._remember(entry)
                    self._insert(entry, absorbs=False)
                case Settled():
                    for number in entry.numbers:
                        self._next = max(self._next, number + 1)
                        self._settled(number, unsettled.pop(number, None))
                case Renumbered():
                    if (known := unsettled.get(entry.number)) is not None:
                        unsettled[entry.number] = entry.applied_to(known)
                    if (record := self._waiting.get(entry.number)) is not None:
                        self._forget_clock(record.outgoing.key, entry.service_ms)
                        self._replace(entry.applied_to(record))
                case Checkpoint():
                    self._next = max(self._next, entry.next_number)
                    self._floor = max(self._floor, entry.floor)
                    self._floor_all = max(self._floor_all, entry.floor)
        return log

    def compacted(self) -> bytes:
        """Returns a log that contains only what is left. Uncommitted records are not in it."""
        parts = [checkpoint_entry(self._next, self._floor_all)]
        for record in self._waiting.values():
            last = _NO_LAST if not record.outgoing.is_version else self._versions.get(record.outgoing.key, _NO_LAST)
            parts.append(_entry(record._replace(before=last.lower)))
        return b"".join(parts)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def accept(self, outgoings: Sequence[Outgoing], now_ms: int, version_min: int = 0) -> list[tuple[KeptEntry, bytes]]:
        """Returns records with what is to be written for each. All or none. Raises OutboxFull.

        An object's version that has none gets `now_ms`, or one above the object's last, or `version_min`: the highest.
        Raises ValueError if that is not a version.
        """
        made: list[tuple[KeptEntry, bytes]] = []
        number, versions = self._next, dict[tuple[str, str, str], _Last]()
        for outgoing in outgoings:
            given = outgoing.is_version and outgoing.version is None
            if given:
                last = versions.get(outgoing.key, self._versions.get(outgoing.key, _Last(self._floor, clocked=True)))
                version = max(now_ms, last.version + 1, version_min)
                if version > VERSION_MAX:
                    raise ValueError(VERSION_NONE)
                clocked = version == now_ms or (last.clocked and version == last.version + 1)
                outgoing = outgoing._replace(version=version, clock_ms=version if clocked else None)
            if outgoing.expires_at is not None and outgoing.clock_ms is None:
                outgoing = outgoing._replace(clock_ms=now_ms)
            if outgoing.is_version:
                assert outgoing.version is not None
                versions[outgoing.key] = versions.get(outgoing.key, _NO_LAST).max(_last_of(outgoing, given=given))
            entry = accepted_entry(number, outgoing, given=given, accepted_ms=now_ms)
            made.append((KeptEntry(number, outgoing, given, now_ms, len(entry)), entry))
            number += 1
        self._check_room([record for record, _ in made])
        self._next = number
        for record, _ in made:
            self._remember(record)
            self._uncommitted[record.number] = record
            self._bytes += record.size_bytes
        return made

    def commit(self, records: Iterable[KeptEntry]) -> list[tuple[int, int]]:
        """These are durable: they wait now. Returns who was taken out, and by whom."""
        taken_out = []
        for record in records:
            del self._uncommitted[record.number]
            self._bytes -= record.size_bytes
            taken_out += [(replaced, record.number) for replaced in self._insert(record)]
        return taken_out

    def abandon(self, records: Iterable[KeptEntry]) -> None:
        """These could not be written: they never were."""
        for record in records:
            del self._uncommitted[record.number]
            self._bytes -= record.size_bytes

    # -- what goes -----------------------------------------------------------------------------------------------------

    def take(self, records_max: int, bytes_max: int) -> list[KeptEntry]:
        """The next ones, at most as many, and at least one if any waits. They are under way from now on."""
        taken: list[KeptEntry] = []
        size = 0
        for record in self._waiting.values():
            if record.number in self._under_way:
                continue
            if taken and (len(taken) >= records_max or size + record.size_bytes > bytes_max):
                break
            taken.append(record)
            size += record.size_bytes
        self._under_way.update(record.number for record in taken)
        return taken

    def put_back(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        """These are no longer in flight, and wait again. Returns those that newer ones replace, each with its
        successor.
        """
        taken_out = []
        for number in numbers:
            self._under_way.discard(number)
            record = self._waiting[number]
            if record.outgoing.is_message or record.outgoing.describe:
                continue
            later = [other for other in self._of_object[record.outgoing.key] if other > number]
            by = next((other for other in later if self._waiting[other].outgoing.outdoes(record.outgoing)), None)
            if by is not None:
                self._remove(number)
                taken_out.append((number, by))
        return taken_out

    def settle(self, numbers: Sequence[int]) -> bytes:
        """These are published or rejected, and removed. Returns what is to be written."""
        settled: list[int] = []
        for number in numbers:
            record = self._waiting.get(number)
            settled += (number,) if record is None else (number, *record.absorbed)
            self._settled(number, record)
        return settled_entry(settled)

    def renumber(self, clocks: Mapping[int, int], now_ms: int) -> list[tuple[KeptEntry, bytes]]:
        """Renumbers records of a wrong clock; `clocks` contains the service's time at its refusal, by number.

        Returns the new records, and what is to be written for each. Their age counts by our clock, so a clock that is
        always wrong gives the version that a right one would have given, and one that was corrected meanwhile gives the
        present one.
        """
        made: list[tuple[KeptEntry, bytes]] = []
        for number, service_ms in sorted(clocks.items()):
            record = self._waiting.get(number)
            if record is None:
                continue
            at_ms = service_ms - max(0, now_ms - record.accepted_ms)
            if clock_fault(at_ms, service_ms) is not None:
                at_ms = service_ms  # it was not accepted then: our clock was set in between
            said = record.outgoing
            renumbered = Renumbered(number, said.version, at_ms, said.expires_at, service_ms)
            if said.expires_at is not None:
                renumbered = renumbered._replace(expires_at=expiry_here(said.expires_at, record.accepted_ms, at_ms))
            if record.given and said.version == said.clock_ms:
                version = max(at_ms, self._version_before(record, service_ms) + 1)
                renumbered = renumbered._replace(version=version, clock_ms=version)
            made.append((renumbered.applied_to(record), renumbered_entry(renumbered)))
            self._forget_clock(said.key, service_ms)
            self._replace(made[-1][0])
        return made

    def _version_before(self, record: KeptEntry, service_ms: int) -> int:
        """The highest that is known of those before it of its object, and can be."""
        numbers = self._of_object.get(record.outgoing.key, ())
        before = [self._waiting[number].outgoing.version or 0 for number in numbers if number < record.number]
        last = self._versions.get(record.outgoing.key, _NO_LAST)
        settled = last.settled if last.settled >= 0 else self._floor
        all_of_them = (*before, last.version, *last.lower, settled)
        can_be = [one for one in all_of_them if clock_fault(max(one, 0), service_ms) is None]
        return max(can_be, default=-1)

    def _forget_clock(self, key: tuple[str, str, str], service_ms: int) -> None:
        """Forgets the wrong clock's versions, so that later ones do not continue from them."""
        bound_ms = service_ms + CLOCK_AHEAD_S_MAX * 1000
        self._floor, self._floor_all = min(self._floor, bound_ms), min(self._floor_all, bound_ms)
        last = self._versions.get(key)
        if last is not None and last.clocked and last.version > bound_ms:
            version = max(last.settled, *(one for one in last.lower if one <= bound_ms), -1)
            if version < 0:
                del self._versions[key]
            else:
                self._versions[key] = last._replace(version=version)

    # -- how it stands -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, number: object) -> bool:
        return number in self._waiting

    @property
    def size_bytes(self) -> int:
        """Size of what waits, is in flight, or is being written."""
        return self._bytes

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest was accepted, Unix time in ms; None if nothing waits."""
        return next((record.accepted_ms for record in self._waiting.values()), None)

    @property
    def under_way(self) -> int:
        """The number in flight."""
        return len(self._under_way)

    def domains_and_groups(self) -> set[tuple[str, str]]:
        """Returns the domains and groups of everything that waits."""
        return {(record.outgoing.domain, record.outgoing.group) for record in self._waiting.values()}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _insert(self, record: KeptEntry, *, absorbs: bool = True) -> list[int]:
        """Behind all others; the numbers of those that it takes out. `absorbs`: it takes over their patches."""
        outdone, said = self._outdone(record.outgoing, absorbs=absorbs)
        patched = [number for number in outdone if self._waiting[number].outgoing.describe]
        if patched:
            before = tuple(one for number in patched for one in self._waiting[number].absorbed)
            record = record._replace(outgoing=said, absorbed=(*before, *patched))
            record = record._replace(size_bytes=len(_entry(record)))
        for number in outdone:
            self._remove(number)
        if not record.outgoing.is_message:
            self._of_object.setdefault(record.outgoing.key, []).append(record.number)
        self._waiting[record.number] = record
        self._bytes += record.size_bytes
        return outdone

    def _outdone(self, outgoing: Outgoing, *, absorbs: bool = True) -> tuple[list[int], Outgoing]:
        """Returns those that a new record takes out, and the record with their patches."""
        outdone: list[int] = []
        if outgoing.is_message:
            return outdone, outgoing
        for number in reversed(self._of_object.get(outgoing.key, ())):
            waiting = self._waiting[number].outgoing
            replaced = number not in self._under_way and _replaces(outgoing, waiting)
            if replaced and not waiting.describe:
                outdone.append(number)
            elif waiting.describe:
                both = after_another(waiting, outgoing) if replaced and absorbs else None
                # Where one stays, those before it must stay, too, or they would come behind it.
                absorbs = both is not None
                if both is not None:
                    outgoing = both
                    outdone.append(number)
        return outdone[::-1], outgoing

    def _remove(self, number: int) -> None:
        self._under_way.discard(number)
        record = self._waiting.pop(number, None)
        if record is None:
            return
        self._bytes -= record.size_bytes
        if not record.outgoing.is_message:
            numbers = self._of_object[record.outgoing.key]
            numbers.remove(number)
            if not numbers:
                del self._of_object[record.outgoing.key]

    def _replace(self, record: KeptEntry) -> None:
        """Replaces a record at its place."""
        old = self._waiting[record.number]
        record = record._replace(size_bytes=len(_entry(record)))
        self._bytes += record.size_bytes - old.size_bytes
        self._waiting[record.number] = record
        self._remember(record)

    def _settled(self, number: int, record: KeptEntry | None) -> None:
        """Notes a settled record: if the clock gave its version, the service has found nothing wrong with it."""
        if record is not None and record.outgoing.version is not None:
            last = _last_of(record.outgoing, given=record.given)
            self._remember(record, settled=last.version)
            if last.clocked:
                self._floor_all = max(self._floor_all, last.version)
        self._remove(number)

    def _remember(self, record: KeptEntry, settled: int = -1) -> None:
        if record.outgoing.version is None:
            return
        key = record.outgoing.key
        last = _last_of(record.outgoing, given=record.given)._replace(settled=settled, lower=record.before)
        self._versions[key] = self._versions.get(key, _NO_LAST).max(last)
        self._versions.move_to_end(key)
        if len(self._versions) > OBJECTS_REMEMBERED_MAX:
            _, forgotten = self._versions.popitem(last=False)
            if forgotten.clocked:
                self._floor_all = max(self._floor_all, forgotten.version)
            self._floor = self._floor_all

    def _check_room(self, records: Sequence[KeptEntry]) -> None:
        """Raises OutboxFull if there is no room. What a newer publish will replace counts as gone, unless it is in
        flight.
        """
        count = len(self._waiting) + len(self._uncommitted) + len(records)
        size = self._bytes + sum(record.size_bytes for record in records)
        if count <= self._records_max and size <= self._bytes_max:
            return
        outdone = {number for record in records for number in self._outdone(record.outgoing)[0]}
        count -= len(outdone)
        size -= sum(self._waiting[number].size_bytes for number in outdone)
        if count > self._records_max:
            raise OutboxFull(f"outbox_max_records: {self._records_max} records wait to be published already")
        if size > self._bytes_max:
            raise OutboxFull(
                f"outbox_max_bytes: {self._bytes} of {self._bytes_max} bytes are taken by "
                f"{len(self._waiting) + len(self._uncommitted)} records that wait to be published"
            )


def _replaces(outgoing: Outgoing, waiting: Outgoing) -> bool:
    """Returns true if nothing but the patch of `waiting`, an earlier one of the same object, is still needed."""
    return waiting.only_describe or (not outgoing.only_describe and outgoing.outdoes(waiting))


def _last_of(outgoing: Outgoing, *, given: bool) -> _Last:
    assert outgoing.version is not None
    return _Last(outgoing.version, clocked=given and outgoing.version == outgoing.clock_ms)


def _entry(record: KeptEntry) -> bytes:
    given, accepted_ms = record.given, record.accepted_ms
    return accepted_entry(record.number, record.outgoing, given=given, accepted_ms=accepted_ms, before=record.before)
