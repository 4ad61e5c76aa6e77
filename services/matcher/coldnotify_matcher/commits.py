"""Which offsets of both inputs are to be committed: noted by the steps, taken now and then, and at the end."""

import time
from collections.abc import Container, Iterable, Mapping

from coldnotify_schemas import topics
from confluent_kafka import KafkaError, TopicPartition

from coldnotify_matcher.errors import Failure
from coldnotify_matcher.partition import Partition

COMMIT_EVERY_S = 1.0
"""What is read again after a crash: a second's requests and publishes. Committing at each step would cost latency."""
COMMIT_ALL_EVERY_S = 3600.0
"""Also what has not moved: Kafka forgets week-old offsets of a topic that the group does not subscribe to (objects)."""

_FENCED = frozenset(
    (
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
    )
)
"""Commits refused with these mean that the group goes on without this member."""


class Commits:
    """The offsets of one run. Used by the worker's thread, but for `on_commit`, which the reader's calls."""

    def __init__(self) -> None:
        self.marks: Mapping[str, str] = {}
        """By topic, committed with the offsets: after it was made anew, this run still commits until it notices."""
        self._committable: dict[tuple[str, int], int] = {}
        """By (topic, partition): what has moved since it was last taken."""
        self._committed: dict[tuple[str, int], int] = {}
        """What was taken; the reader may not have come to commit it."""
        self._noted: dict[tuple[str, int], int] = {}
        """All of it, whatever became of the commits."""
        self._committed_at_s = 0.0
        self._all_committed_at_s = time.monotonic()
        self._error: KafkaError | None = None

    def note(self, partition: Partition) -> None:
        """What the partition has handled is durable."""
        if partition.requests_position is not None:
            self._note_offset(topics.REQUESTS, partition.number, partition.requests_handled)
        self._note_offset(topics.OBJECTS, partition.number, partition.engine.objects_done)

    def take_due(self) -> list[TopicPartition]:
        """What is to be committed now; empty while nothing has moved, or the last time is not long ago."""
        now_s = time.monotonic()
        if now_s - self._all_committed_at_s > COMMIT_ALL_EVERY_S:
            self._all_committed_at_s = now_s
            self._committed.clear()
        if now_s - self._committed_at_s < COMMIT_EVERY_S or not self._committable:
            return []
        self._committed_at_s = now_s
        offsets = [self._offset_of(topic, number, offset) for (topic, number), offset in self._committable.items()]
        self._committed |= self._committable
        self._committable.clear()
        return offsets

    def last_of(self, numbers: Container[int]) -> list[TopicPartition]:
        """All that is known of these partitions, also what was taken before."""
        offsets = {**self._committed, **self._committable}
        return [self._offset_of(topic, n, offset) for (topic, n), offset in offsets.items() if n in numbers]

    def noted(self, topic: str, number: int) -> int | None:
        """Up to which offset all is durable, as far as this run has come; None: nowhere."""
        return self._noted.get((topic, number))

    def forget(self, numbers: Iterable[int]) -> None:
        """These partitions are given up."""
        for number in numbers:
            for topic in (topics.REQUESTS, topics.OBJECTS):
                self._committable.pop((topic, number), None)
                self._committed.pop((topic, number), None)
                self._noted.pop((topic, number), None)

    def on_commit(self, error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
        """What became of a commit."""
        if error is None:
            return
        self._committed.clear()  # so that it is tried again
        if error.code() in _FENCED:
            self._error = error

    def check(self) -> None:
        """Raises Failure once the group goes on without this member."""
        if self._error is not None:
            raise Failure(f"committing: {self._error.str()}")

    def _note_offset(self, topic: str, number: int, offset: int) -> None:
        self._noted[topic, number] = offset
        if self._committed.get((topic, number)) != offset:
            self._committable[topic, number] = offset

    def _offset_of(self, topic: str, number: int, offset: int) -> TopicPartition:
        return TopicPartition(topic, number, offset, metadata=self.marks.get(topic, ""))
