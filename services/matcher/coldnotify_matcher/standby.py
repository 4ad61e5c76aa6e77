"""The warm standby: follows the compacted topics of partitions that others own, so that a takeover skips the load.

It has a reader and a queue of its own, and the worker takes a small batch from it only when all that it owns is served:
what is followed holds up nothing that is owned. What is followed has no outputs, so there is nothing to commit.
"""

import queue
import time
from collections.abc import Iterable

import structlog
from coldnotify_common.kafka import consumer_config
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from coldnotify_matcher.partition import COMPACTED, Cluster, Partition
from coldnotify_matcher.readers import Began, Event, Failed, Reader, Records
from coldnotify_matcher.settings import MatcherSettings

log = structlog.get_logger()

BATCH_RECORDS_MAX = 200
"""Taken in between two steps: some 5 ms, which is what an owned partition's record may wait for it."""
QUEUE_BATCHES_MAX = 16
FETCHED_KIB_MAX = 4096
"""Of fetched records that wait in the consumer."""
RETRY_AFTER_S = 30.0
"""Until a reader that failed is replaced. Nothing is owed meanwhile: a takeover then loads from the beginning."""


class Standby:
    """The partitions that are followed, and how far."""

    def __init__(self, settings: MatcherSettings, cluster: Cluster, owner: str) -> None:
        self.partitions: dict[int, Partition] = {}
        self._settings = settings
        self._cluster = cluster
        self._owner = owner
        self._events: queue.Queue[Event] = queue.Queue(QUEUE_BATCHES_MAX)
        self._reader: Reader | None = None
        self._retry_at_s = 0.0
        self._not_followed: set[int] = set()
        """Partitions with records that cannot be handled: a takeover loads them from the beginning."""

    @property
    def waiting(self) -> bool:
        """Whether something has been read that `turn` would take in."""
        return not self._events.empty()

    def follow(self, numbers: Iterable[int]) -> None:
        """Follow these, too, from the beginning."""
        new = set(numbers) - self.partitions.keys() - self._not_followed
        if not new or time.monotonic() < self._retry_at_s:
            return
        if self._reader is None:
            self._events = queue.Queue(QUEUE_BATCHES_MAX)
            self._reader = self._new_reader()
            self._reader.start()
        for number in sorted(new):
            self.partitions[number] = Partition.following(
                number, self._cluster, self._owner, registrations_max=self._settings.registrations_max
            )
            self._begin(self._reader, number)
        log.info("following partitions of others", partitions=sorted(new))

    def take(self, number: int) -> Partition | None:
        """Follow a partition no more and hand over what is known of it; None if it was not followed."""
        partition = self.partitions.pop(number, None)
        if partition is not None and self._reader is not None:
            ours = [TopicPartition(topic, number) for topic in COMPACTED]
            self._reader.do(lambda consumer: consumer.incremental_unassign(ours))
        return partition

    def turn(self, now_ms: int) -> None:
        """Take in one small batch, if there is one."""
        try:
            event = self._events.get_nowait()
        except queue.Empty:
            return
        if isinstance(event, Began):
            if event.partition in self.partitions:
                self.partitions[event.partition].reading = True
        elif isinstance(event, Failed):
            log.warning("nothing is followed for a while", reason=str(event.error), retry_in_s=RETRY_AFTER_S)
            self.partitions.clear()
            self._reader = None
            self._retry_at_s = time.monotonic() + RETRY_AFTER_S
        elif isinstance(event, Records):
            self._on_records(event, now_ms)

    def stop(self) -> None:
        """Ask the reader to end."""
        if self._reader is not None:
            self._reader.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the reader's end, and drop what was followed."""
        if self._reader is not None:
            self._reader.join(timeout_s)
        self.partitions.clear()

    def _new_reader(self) -> Reader:
        config = consumer_config(
            self._settings,
            f"{self._settings.matcher_group}-standby",
            name="standby-reader",
            enable_partition_eof=True,
            queued_max_messages_kbytes=FETCHED_KIB_MAX,
        )
        return Reader("standby-reader", config, self._events, batch_records_max=BATCH_RECORDS_MAX)

    def _begin(self, reader: Reader, number: int) -> None:
        beginnings = [TopicPartition(topic, number, OFFSET_BEGINNING) for topic in COMPACTED]

        def begin(consumer: Consumer) -> None:
            consumer.incremental_assign(beginnings)
            reader.put(Began(number))

        reader.do(begin)

    def _on_records(self, event: Records, now_ms: int) -> None:
        for record in event.records:
            partition = self.partitions.get(record.partition)
            if partition is None or not partition.reading:
                continue  # taken over meanwhile, or of an earlier time
            if record.end:
                partition.on_end(record.topic, record.offset)
                continue
            try:
                partition.on_record(record, now_ms)
            except Exception as error:
                # A record of a later release, or one that its owner has set aside. What is owned here goes on.
                log.warning("partition not followed", partition=record.partition, reason=repr(error))
                self._not_followed.add(record.partition)
                self.take(record.partition)
