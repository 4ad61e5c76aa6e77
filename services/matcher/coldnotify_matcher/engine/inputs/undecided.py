"""Conditional records and sets of a log that is loaded, until the record comes that says what was decided of them.

What came behind them under their key waits, too: a version by arrival, and the next condition, depend on what they
became. A set waits under the key of each member. Those that no record decides are decided at the end, in the order of
the log, before the partition is served.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from coldnotify_schemas.atomic_sets import AtomicSet, DecidedSet
from coldnotify_schemas.decisions import Decided
from coldnotify_schemas.records import ConditionalRecord

from coldnotify_matcher.engine.inputs.arrivals import Arrival

WAITING_MAX = 100_000
"""Number of records that wait, of all objects: an owner decides within a step. Beyond it all are decided as at the
end."""


class WaitingRecord(NamedTuple):
    """One record that waits."""

    arrival: Arrival
    said: ConditionalRecord | AtomicSet | None
    """None: it has no condition."""

    @property
    def offset(self) -> int:
        """Its place in the log."""
        return self.arrival.record.offset


class TakenOut(NamedTuple):
    """One record that waits no longer."""

    key: str
    """Its object's; of an undecided set, its first member's."""
    waiting: WaitingRecord
    decided: Decided | DecidedSet | None
    """The decision about it, if that is known."""


class _Queue:
    __slots__ = ("decided", "waiting")

    def __init__(self) -> None:
        self.waiting: list[WaitingRecord] = []
        self.decided: dict[int, Decided] = {}
        """By the offset of the conditional record."""


class Undecided:
    """Those of one partition, by their objects' keys."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._waiting = 0
        self._sets: dict[int, tuple[str, ...]] = {}
        """By the offset of a set that nobody has decided yet: its members' keys."""
        self._decided_sets: dict[int, DecidedSet] = {}
        """By the offset of a set, while members still wait behind others."""

    def __contains__(self, key: str) -> bool:
        return key in self._queues

    @property
    def full(self) -> bool:
        """True if more wait than may."""
        return self._waiting > WAITING_MAX

    def add(self, one: WaitingRecord, decided: Iterable[Decided] = ()) -> None:
        """Have a record wait behind those of its object. `decided`: by its headers; the first word on each counts."""
        queue = self._queues.setdefault(one.arrival.text, _Queue())
        queue.waiting.append(one)
        self._waiting += 1
        for said in decided:
            queue.decided.setdefault(said.offset, said)

    def add_set(self, one: WaitingRecord, keys: tuple[str, ...]) -> None:
        """Have a set wait, and all that comes behind it under its members' keys."""
        self._sets[one.offset] = keys
        for key in keys:
            self._queues.setdefault(key, _Queue()).waiting.append(one)
        self._waiting += len(keys)

    def decide_set(self, decided: DecidedSet) -> tuple[str, ...]:
        """Note what was decided of a set. Returns its members' keys; none if it does not wait, or was decided
        before."""
        keys = self._sets.pop(decided.offset, ())
        if keys:
            self._decided_sets[decided.offset] = decided
        return keys

    def take(self, key: str) -> Iterator[TakenOut]:
        """Yields the object's records that wait no longer, in order, each with what was decided of it, if that is
        known."""
        queue = self._queues.get(key)
        if queue is None:
            return
        last = max(queue.decided, default=-1)
        while queue.waiting:
            one = queue.waiting[0]
            decided: Decided | DecidedSet | None
            if isinstance(one.said, AtomicSet):
                decided = self._decided_sets.get(one.offset)
                if decided is None:
                    return
            else:
                decided = queue.decided.pop(one.offset, None)
                # Who has decided a later one has decided this one before, and nothing of that is left.
                if one.said is not None and decided is None and one.offset > last:
                    return
            self._remove_first(queue)
            yield TakenOut(key, one, decided)
        self._queues.pop(key, None)

    def take_rest(self) -> Iterator[TakenOut]:
        """Yields all records in the order of the log: none waits any longer. A set that nobody has decided comes once,
        any other one for each of its members."""
        heads = [(queue.waiting[0].offset, key) for key, queue in self._queues.items()]
        heapify(heads)
        while heads:
            offset, key = heappop(heads)
            queue = self._queues[key]
            if not queue.waiting or queue.waiting[0].offset != offset:
                continue  # it went with its set
            one = queue.waiting[0]
            keys = self._sets.pop(offset, (key,)) if isinstance(one.said, AtomicSet) else (key,)
            decided = queue.decided.pop(offset, None) if one.said is not None else None
            for member in keys:
                mine = self._queues[member]
                self._remove_first(mine)
                if mine.waiting:
                    heappush(heads, (mine.waiting[0].offset, member))
            yield TakenOut(key, one, self._decided_sets.get(offset) if isinstance(one.said, AtomicSet) else decided)
        self._queues.clear()
        self._decided_sets.clear()

    def _remove_first(self, queue: _Queue) -> None:
        del queue.waiting[0]
        self._waiting -= 1
