"""The two consumers, each in a thread of its own: requests (a member of the group), and the compacted topics.

They put what they read into one bounded queue, from which the worker takes it: so a publish does not wait behind a poll
for requests, and the engine is in one thread.
"""

import queue
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from coldnotify_schemas import topics
from coldnotify_schemas.records import MOVED_HEADER
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

log = structlog.get_logger()

BATCH_RECORDS_MAX = 1000
"""One hand-over to the worker."""
QUEUE_BATCHES_MAX = 32
"""So at most 32,000 records wait between the readers and the worker; Kafka keeps the others."""
POLL_S = 0.2
"""How long a poll waits for a first record: only stopping waits for it."""
KAFKA_TIMEOUT_S = 10
REVOKE_TIMEOUT_S = 20
"""Longer than a step with a flush that has to wait for a broker's restart, shorter than the group's poll limit."""


class Record(NamedTuple):
    """What the worker needs of one message."""

    topic: str
    partition: int
    offset: int
    end: bool
    """No record: the reader is at the end of the partition, which is `offset`."""
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = -1
    moved: bool = False
    """It came from a wrong partition, by one of our matchers."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """This matcher is to serve a partition."""

    partition: int
    requests_start: int
    objects_committed: int | None


@dataclass(frozen=True, slots=True)
class Revoked:
    """Partitions go to another matcher; `done` is to be set when all their work is committed or dropped."""

    partitions: tuple[int, ...]
    lost: bool
    done: threading.Event


@dataclass(frozen=True, slots=True)
class Records:
    """Records, and ends of partitions, in order."""

    records: list[Record]


@dataclass(frozen=True, slots=True)
class Failed:
    """A reader cannot go on."""

    error: BaseException


Event = Assigned | Revoked | Records | Failed


class Reader(threading.Thread):
    """Polls one consumer and hands on what comes, until stopped."""

    def __init__(self, name: str, config: dict[str, Any], events: "queue.Queue[Event]") -> None:
        super().__init__(name=name, daemon=True)
        self.consumer = Consumer(config)
        self._events = events
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()

    def run(self) -> None:
        """The thread."""
        try:
            while not self._stopping.is_set():
                first = self.consumer.poll(POLL_S)
                if first is None:
                    continue
                messages = [first, *self.consumer.consume(BATCH_RECORDS_MAX - 1, 0)]
                self.put(Records([_record(message) for message in messages]))
        except BaseException as error:
            self.put(Failed(error))

    def put(self, event: Event) -> bool:
        """Hand an event on, waiting for room; False if the thread was stopped meanwhile."""
        while not self._stopping.is_set():
            try:
                self._events.put(event, timeout=POLL_S)
            except queue.Full:
                continue
            return True
        return False


def _record(message: Message) -> Record:
    """Raises KafkaException where the consumer says by the message that it cannot go on."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    assert topic is not None
    assert partition is not None
    assert offset is not None
    if error is not None:
        return Record(topic, partition, offset, end=True)
    kind, timestamp_ms = message.timestamp()
    return Record(
        topic,
        partition,
        offset,
        end=False,
        key=message.key(),
        value=message.value(),
        timestamp_ms=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        moved=any(header[0] == MOVED_HEADER for header in message.headers() or ()),
    )


class RequestsReader(Reader):
    """The member of the consumer group. A partition that comes is paused until the worker has loaded its state."""

    def __init__(self, config: dict[str, Any], events: "queue.Queue[Event]") -> None:
        super().__init__("requests-reader", config, events)
        self.joined = threading.Event()
        """Set once the group has given this matcher its first partitions."""

    def run(self) -> None:
        """The thread."""
        self.consumer.subscribe(
            [topics.REQUESTS], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        super().run()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            assigned = [self._position(consumer, tp.partition) for tp in partitions]
            starts = [TopicPartition(topics.REQUESTS, a.partition, a.requests_start) for a in assigned]
            consumer.incremental_assign(starts)
            consumer.pause(starts)
        except BaseException as error:
            # An exception would vanish in librdkafka's callback.
            consumer.incremental_assign(partitions)
            self.put(Failed(error))
            return
        for event in assigned:
            self.put(event)
        self.joined.set()

    def _position(self, consumer: Consumer, partition: int) -> Assigned:
        both = [TopicPartition(topics.REQUESTS, partition), TopicPartition(topics.OBJECTS, partition)]
        requests, objects = consumer.committed(both, timeout=KAFKA_TIMEOUT_S)
        for tp in (requests, objects):
            if tp.error is not None:
                raise KafkaException(tp.error)
        low, high = consumer.get_watermark_offsets(both[0], timeout=KAFKA_TIMEOUT_S)
        # Nothing committed, or an offset that is no more (the topic was recreated, or retention took it).
        start = requests.offset if low <= requests.offset <= high else (low if high else OFFSET_BEGINNING)
        _, objects_high = consumer.get_watermark_offsets(both[1], timeout=KAFKA_TIMEOUT_S)
        committed = objects.offset if 0 <= objects.offset <= objects_high else None
        return Assigned(partition, start, committed)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, lost=False)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, lost=True)

    def _give_up(self, consumer: Consumer, partitions: list[TopicPartition], *, lost: bool) -> None:
        done = threading.Event()
        revoked = Revoked(tuple(tp.partition for tp in partitions), lost, done)
        if self.put(revoked) and not done.wait(REVOKE_TIMEOUT_S):
            log.warning("partitions given up although their work is not finished", partitions=revoked.partitions)
        consumer.incremental_unassign(partitions)
