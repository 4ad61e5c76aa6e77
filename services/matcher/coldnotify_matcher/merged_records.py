"""Records of one compacted topic while it is loaded: the winner of each key, whatever the order of writers. Pure."""

from typing import Generic, TypeVar

from coldnotify_schemas.matcher_state import RegistrationsRecord, SessionRecord, WillRecord
from coldnotify_schemas.share_state import ShareRecord

ENDED_MAX = 10_000
"""Nulls that are remembered, the latest. An earlier generation's record after a null comes within seconds, or minutes
if its process was stopped: a follower need not keep the nulls of clients that were forgotten months ago."""

R = TypeVar("R", RegistrationsRecord, SessionRecord, WillRecord, ShareRecord)


class Merged(Generic[R]):
    """The records of registrations, of sessions, of wills, or of shares."""

    def __init__(self) -> None:
        self.winners: dict[str, R] = {}
        """By key, the record with the highest (generation, applied) that no null has ended."""
        self._ended: dict[str, int] = {}
        """By key, the generation of a null, the latest last."""

    def merge(self, key: str, record: R | None, ended_by: int = 0) -> bool:
        """Take the next record, or a null of the generation `ended_by`; 0: unknown. Returns false if it is outdone."""
        before = self.winners.get(key)
        if record is None:
            if before is not None and 0 < ended_by < before.generation:
                return False
            self.winners.pop(key, None)
            ended_before = self._ended.pop(key, 0)
            if ended_by:
                self._ended[key] = max(ended_by, ended_before)
                if len(self._ended) > ENDED_MAX:
                    del self._ended[next(iter(self._ended))]
            return True
        if record.generation < self._ended.get(key, 0):
            return False
        if before is not None and (record.generation, record.applied) < (before.generation, before.applied):
            return False
        self.winners[key] = record
        return True
