"""Checkpoints, as a log is loaded: they correct what compaction has made of records by arrival.

Compaction leaves the last record of a key among the old ones, and all that are younger. If that one came by arrival, or
is stale, what is read of it may be another version than its owner gave: what it counted on is gone. So may all that
came by arrival after it. Its owner has written a checkpoint behind it within moments, long before it was old. If no
record of the object lies between the place that a checkpoint names and the checkpoint, it says what is in force there.
Where some do (publishers write while it is under way) its owner has written a second one once it had read the first:
what lies between the place that this names and itself has come since the first one, and is known here.
"""

from typing import NamedTuple

from coldnotify_schemas.records import PublicRecord

from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj

UNREAD_MAX = 100_000
"""Number of records that are kept behind checkpoints, of all objects: those of seconds. With more, an object's are
dropped, and its next checkpoint is a first one."""


class ReadRecord(NamedTuple):
    """One valid record of an object."""

    record: ObjectRecord
    said: PublicRecord


class LoadedCheckpoints:
    """The records of objects behind a first checkpoint, until a second one comes."""

    def __init__(self) -> None:
        self._behind: dict[Obj, tuple[int, list[ReadRecord]]] = {}
        """With the offset of that first checkpoint."""
        self._kept = 0

    def add(self, obj: Obj, record: ObjectRecord, said: PublicRecord) -> None:
        """Keep a record, if a checkpoint of its object came before it."""
        if not self._behind or (found := self._behind.get(obj)) is None:
            return
        if self._kept < UNREAD_MAX:
            found[1].append(ReadRecord(record, said))
            self._kept += 1
        else:
            self.forget(obj)

    def unread(self, obj: Obj, read_to: int, offset: int) -> list[ReadRecord] | None:
        """Returns the object's records behind `read_to`, the place that its checkpoint at `offset` names.

        None: they are not all known; the checkpoint is the first one, or comes too soon after the first.
        """
        found = self._behind.get(obj)
        # Records before the first one that is left may have been removed by it.
        if read_to == offset - 1 or UNKNOWN < obj.last_offset <= read_to:
            self.forget(obj)
            return []
        if found is not None and found[0] <= read_to:
            self.forget(obj)
            return [one for one in found[1] if one.record.offset > read_to]
        self._behind.setdefault(obj, (offset, []))
        return None

    def forget(self, obj: Obj) -> None:
        """Drop the records of an object: it is removed, or they are needed no more."""
        _, kept = self._behind.pop(obj, (0, ()))
        self._kept -= len(kept)

    def clear(self) -> None:
        """Drop everything: the log is loaded."""
        self._behind.clear()
        self._kept = 0
