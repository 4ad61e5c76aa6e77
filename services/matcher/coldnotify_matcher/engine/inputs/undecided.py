"""Conditional records of a log that is loaded, until the record comes that says what was decided of them.

What came behind them under their key waits, too: a version by arrival, and the next condition, depend on what they
became. Those that no record decides are decided at the end, in order, before the partition is served.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coldnotify_schemas.decisions import Decided
from coldnotify_schemas.records import ConditionalRecord

from coldnotify_matcher.engine.inputs.arrivals import Arrival

WAITING_MAX = 100_000
"""Number of records that wait, of all objects: an owner decides within a step. Beyond it an object's are decided as at
the end."""


class WaitingRecord(NamedTuple):
    """One record that waits."""

    arrival: Arrival
    said: ConditionalRecord | None
    """None: it has no condition."""


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

    def take(self, key: str, *, all_of: bool = False) -> Iterator[tuple[WaitingRecord, Decided | None]]:
        """Yields the object's records that wait no longer, in order, each with what was decided of it, if that is
        known. `all_of`: none waits any longer."""
        queue = self._queues[key]
        last = max(queue.decided, default=-1)
        while queue.waiting:
            one = queue.waiting[0]
            offset = one.arrival.record.offset
            decided = queue.decided.pop(offset, None)
            # Who has decided a later one has decided this one before, and nothing of that is left.
            if one.said is not None and decided is None and offset > last and not all_of:
                return
            del queue.waiting[0]
            self._waiting -= 1
            yield one, decided
        self._queues.pop(key, None)

    def names(self) -> list[str]:
        """Returns the keys of objects with such records, in the order of their first ones."""
        return list(self._queues)
