"""An outbox without its disk: what was accepted, in what order it is sent, what a newer publish takes out.

A record goes through these steps:

    accept()   it has its number, and its version or id; what is written to the log is known. Nobody sends it yet.
    commit()   the log is durable. It waits behind all others, and takes out an older publish of its object,
               unless that is under way.  (abandon(): the log could not be written. It never was.)
    take()     it is under way.
    settle()   it is published, or rejected: it is gone.  (put_back(): it waits again, at its old place.)

The log is replayed by the same rules. So after a crash, what was under way waits again, or is gone if a newer publish
of its object was accepted meanwhile.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from coldnotify._core.outbox_log import (
    Checkpoint,
    Kept,
    Log,
    Settled,
    accepted_entry,
    checkpoint_entry,
    read_log,
    settled_entry,
)
from coldnotify._core.outgoing import Outgoing
from coldnotify.errors import OutboxFull

OBJECTS_REMEMBERED_MAX = 10_000
"""Objects whose last version is remembered. One that is forgotten gets its next version above all that were given."""


class OutboxQueue:
    """See the module."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max, self._bytes_max = records_max, bytes_max
        self._waiting: dict[int, Kept] = {}
        """By number, in the order in which they are sent; those under way among them."""
        self._under_way: set[int] = set()
        self._of_object: dict[tuple[str, str, str], list[int]] = {}
        """Of each object that has versions in `_waiting`, their numbers: one, but for those under way and those that
        the newer ones do not outdo."""
        self._uncommitted: dict[int, Kept] = {}
        self._bytes = 0
        self._next = 1
        self._versions: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._floor = 0
        """Of versions given to objects that are not remembered."""
        self._floor_all = 0
        """Of versions given to any."""

    # -- from the log, and to it ---------------------------------------------------------------------------------------

    def load(self, data: bytes) -> Log:
        """Takes in what a log says; returns that. Raises outbox_log.NewerLog."""
        log = read_log(data)
        for entry in log.entries:
            match entry:
                case Kept():
                    self._next = max(self._next, entry.number + 1)
                    self._remember(entry)
                    self._insert(entry)
                case Settled():
                    for number in entry.numbers:
                        self._next = max(self._next, number + 1)
                        self._remove(number)
                case Checkpoint():
                    self._next = max(self._next, entry.next_number)
                    self._floor = max(self._floor, entry.floor)
                    self._floor_all = max(self._floor_all, entry.floor)
        return log

    def compacted(self) -> bytes:
        """A log that says no more than what is left. What is not committed is not in it."""
        parts = [checkpoint_entry(self._next, self._floor_all)]
        parts += [_entry(record) for record in self._waiting.values()]
        return b"".join(parts)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def accept(self, outgoings: Sequence[Outgoing], now_ms: int, version_min: int = 0) -> list[tuple[Kept, bytes]]:
        """Records with what is to be written for each. All or none. Raises OutboxFull.

        An object's version that has none gets `now_ms`, or one above the object's last, or `version_min`: the highest.
        """
        made: list[tuple[Kept, bytes]] = []
        number, versions = self._next, dict[tuple[str, str, str], int]()
        for outgoing in outgoings:
            given = not outgoing.is_message and outgoing.version is None
            if given:
                last = versions.get(outgoing.key, self._versions.get(outgoing.key, self._floor))
                outgoing = outgoing._replace(version=max(now_ms, last + 1, version_min))
            if not outgoing.is_message:
                assert outgoing.version is not None
                versions[outgoing.key] = max(outgoing.version, versions.get(outgoing.key, 0))
            entry = accepted_entry(number, outgoing, given=given, accepted_ms=now_ms)
            made.append((Kept(number, outgoing, given, now_ms, len(entry)), entry))
            number += 1
        self._check_room([record for record, _ in made])
        self._next = number
        for record, _ in made:
            self._remember(record)
            self._uncommitted[record.number] = record
            self._bytes += record.size_bytes
        return made

    def commit(self, records: Iterable[Kept]) -> list[tuple[int, int]]:
        """These are durable: they wait now. Returns who was taken out, and by whom."""
        taken_out = []
        for record in records:
            del self._uncommitted[record.number]
            self._bytes -= record.size_bytes
            taken_out += [(replaced, record.number) for replaced in self._insert(record)]
        return taken_out

    def abandon(self, records: Iterable[Kept]) -> None:
        """These could not be written: they never were."""
        for record in records:
            del self._uncommitted[record.number]
            self._bytes -= record.size_bytes

    # -- what goes -----------------------------------------------------------------------------------------------------

    def take(self, records_max: int, bytes_max: int) -> list[Kept]:
        """The next ones, at most as many, and at least one if any waits. They are under way from now on."""
        taken: list[Kept] = []
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
        """These are not under way any more, and wait again. Returns who is taken out by a newer one, and by whom."""
        taken_out = []
        for number in numbers:
            self._under_way.discard(number)
            record = self._waiting[number]
            if record.outgoing.is_message:
                continue
            later = [other for other in self._of_object[record.outgoing.key] if other > number]
            by = next((other for other in later if self._waiting[other].outgoing.outdoes(record.outgoing)), None)
            if by is not None:
                self._remove(number)
                taken_out.append((number, by))
        return taken_out

    def settle(self, numbers: Sequence[int]) -> bytes:
        """These are published or rejected, and gone. Returns what is to be written."""
        for number in numbers:
            self._remove(number)
        return settled_entry(numbers)

    # -- how it stands -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, number: object) -> bool:
        return number in self._waiting

    @property
    def size_bytes(self) -> int:
        """Of what waits, is under way, or is being written."""
        return self._bytes

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest was accepted, Unix time; None: there is none."""
        return next((record.accepted_ms for record in self._waiting.values()), None)

    @property
    def under_way(self) -> int:
        """How many are."""
        return len(self._under_way)

    def domains_and_groups(self) -> set[tuple[str, str]]:
        """Of all that waits."""
        return {(record.outgoing.domain, record.outgoing.group) for record in self._waiting.values()}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _insert(self, record: Kept) -> list[int]:
        """Behind all others; the numbers of those that it takes out."""
        outdone = self._outdone(record.outgoing)
        for number in outdone:
            self._remove(number)
        if not record.outgoing.is_message:
            self._of_object.setdefault(record.outgoing.key, []).append(record.number)
        self._waiting[record.number] = record
        self._bytes += record.size_bytes
        return outdone

    def _outdone(self, outgoing: Outgoing) -> list[int]:
        if outgoing.is_message:
            return []
        return [
            number
            for number in self._of_object.get(outgoing.key, ())
            if number not in self._under_way and outgoing.outdoes(self._waiting[number].outgoing)
        ]

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

    def _remember(self, record: Kept) -> None:
        version = record.outgoing.version
        if version is None:
            return
        key = record.outgoing.key
        self._versions[key] = max(version, self._versions.get(key, 0))
        self._versions.move_to_end(key)
        if record.given:
            self._floor_all = max(self._floor_all, version)
        if len(self._versions) > OBJECTS_REMEMBERED_MAX:
            self._versions.popitem(last=False)
            self._floor = self._floor_all

    def _check_room(self, records: Sequence[Kept]) -> None:
        """What a newer publish will take out counts as gone already, if it is not under way."""
        count = len(self._waiting) + len(self._uncommitted) + len(records)
        size = self._bytes + sum(record.size_bytes for record in records)
        if count <= self._records_max and size <= self._bytes_max:
            return
        outdone = {number for record in records for number in self._outdone(record.outgoing)}
        count -= len(outdone)
        size -= sum(self._waiting[number].size_bytes for number in outdone)
        if count > self._records_max:
            raise OutboxFull(f"outbox_max_records: {self._records_max} records wait to be published already")
        if size > self._bytes_max:
            raise OutboxFull(
                f"outbox_max_bytes: {self._bytes} of {self._bytes_max} bytes are taken by "
                f"{len(self._waiting) + len(self._uncommitted)} records that wait to be published"
            )


def _entry(record: Kept) -> bytes:
    return accepted_entry(record.number, record.outgoing, given=record.given, accepted_ms=record.accepted_ms)
