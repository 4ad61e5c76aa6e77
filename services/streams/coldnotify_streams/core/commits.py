"""The offsets to commit for all inputs: noted by the steps, taken now and then, and at the end. Pure."""

from collections.abc import Container, Iterable, Mapping

from coldnotify_streams.core.actions import Offset
from coldnotify_streams.core.events import NotCommitted, Where
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.core.partition_progress import JobTopics
from coldnotify_streams.errors import RunFailure

COMMIT_EVERY_S = 1.0
"""Requests and publishes of this period are read again after a crash. Committing at each step would cost latency."""
COMMIT_ALL_EVERY_S = 3600.0
"""Also for unchanged offsets: Kafka forgets week-old offsets of a topic that the group does not subscribe to."""


class Commits:
    """The offsets of one run."""

    def __init__(self, topics: JobTopics, marks: Mapping[str, str]) -> None:
        """`marks` are committed with the offsets. After a topic was recreated, a run continues to commit until it
        notices.
        """
        self._topics = topics
        self._marks = marks
        self._committable: dict[Where, int] = {}
        """Offsets that changed since they were last taken."""
        self._committed: dict[Where, int] = {}
        """Offsets that were taken; the reader may not have committed them yet."""
        self._noted: dict[Where, int] = {}
        """All noted offsets, whatever became of their commits."""
        self._committed_at_s = 0.0
        self._all_committed_at_s: float | None = None
        self._fenced: str | None = None

    def note(self, partition: JobPartition) -> None:
        """Notes that everything the partition has handled is durable."""
        if partition.requests_position is not None:
            self._note_offset((self._topics.requests, partition.number), partition.requests_handled)
        self._note_offset((self._topics.table, partition.number), partition.table_done)
        for log in self._topics.logs:
            self._note_offset((log, partition.number), partition.log_done(log))

    def take_due(self, now_s: float) -> list[Offset]:
        """Returns the offsets to commit now; empty if none has changed, or if some were taken less than COMMIT_EVERY_S
        ago.
        """
        if self._all_committed_at_s is None:
            self._all_committed_at_s = now_s
        if now_s - self._all_committed_at_s > COMMIT_ALL_EVERY_S:
            self._all_committed_at_s = now_s
            self._committed.clear()
        if now_s - self._committed_at_s < COMMIT_EVERY_S or not self._committable:
            return []
        self._committed_at_s = now_s
        offsets = [self._offset_of(place, offset) for place, offset in self._committable.items()]
        self._committed |= self._committable
        self._committable.clear()
        return offsets

    def last_of(self, numbers: Container[int]) -> list[Offset]:
        """Returns all known offsets of these partitions, including those taken earlier."""
        offsets = {**self._committed, **self._committable}
        return [self._offset_of(place, offset) for place, offset in offsets.items() if place[1] in numbers]

    def noted(self, topic: str, number: int) -> int | None:
        """Returns the offset below which everything is durable; None if this run has noted none."""
        return self._noted.get((topic, number))

    def forget(self, numbers: Iterable[int]) -> None:
        """Forgets these partitions, which are given up."""
        for number in numbers:
            for place in ((topic, number) for topic in self._topics.inputs):
                self._committable.pop(place, None)
                self._committed.pop(place, None)
                self._noted.pop(place, None)

    def on_refused(self, refused: NotCommitted) -> None:
        """Notes that a commit was refused: it is retried."""
        self._committed.clear()
        if refused.fenced:
            self._fenced = refused.reason

    def check(self) -> None:
        """Raises Failure once the group goes on without this member."""
        if self._fenced is not None:
            raise RunFailure(f"committing: {self._fenced}")

    def _note_offset(self, place: Where, offset: int) -> None:
        self._noted[place] = offset
        if self._committed.get(place) != offset:
            self._committable[place] = offset

    def _offset_of(self, place: Where, offset: int) -> Offset:
        return Offset(*place, offset, self._marks.get(place[0], ""))
