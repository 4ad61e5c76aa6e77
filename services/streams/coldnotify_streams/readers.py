"""The consumers, each in its own thread: of requests (a member of the group), of the compacted topics, of the logs.

They put what they read into bounded queues (`lanes`), from which the worker takes it: so a publish waits neither for a
poll of requests nor for a log, and the engine runs in one thread. Only its own thread calls a consumer (`Reader.do`): a
call that waits for librdkafka's answer may never get it while another thread polls the same consumer.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import structlog
from coldnotify_common.kafka.kafka_clients import connect
from coldnotify_common.kafka.message_headers import Headers, headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from coldnotify_streams.core.events import (
    Assigned,
    Event,
    JobRecord,
    NotCommitted,
    PartitionsRevoked,
    ReaderFailed,
    Records,
    Rewound,
    Takeover,
    UnreadableOffsets,
)
from coldnotify_streams.core.job import EPOCH_MARK
from coldnotify_streams.core.partition_progress import JobTopics
from coldnotify_streams.log_ends import log_ends, log_starts

log = structlog.get_logger()

BATCH_RECORDS_MAX = 1000
"""Records handed to the worker at once."""
QUEUE_BATCHES_MAX = 32
"""At most 32,000 records wait between the readers and the worker; Kafka keeps the others."""
POLL_S = 0.05
"""How long a poll waits for a first record: calls passed to `do` wait that long."""
KAFKA_TIMEOUT_S = 10
RECORD_BYTES_MAX = 2 * 1024 * 1024
"""Limit on a key or value that is handed on: a few bytes of compressed zeros unpack to hundreds of MiB, which must not
be kept. No topic of ColdNotify accepts longer records, and the reader of a truncated one rejects it.
"""
_FENCED = frozenset((KafkaError.FENCED_INSTANCE_ID, KafkaError.UNKNOWN_MEMBER_ID))
"""A commit refused with one of these errors means that the group continues without this member.

ILLEGAL_GENERATION is none of them: Kafka looks for the member first. A commit that is sent behind JoinGroup names the
generation before, and is handled in the next one, which this member has joined. A member that has missed one joins
again, and librdkafka says that its partitions are lost.
"""
REVOKE_TIMEOUT_S = 20
"""Longer than a step with a flush that has to wait for a broker's restart, shorter than the group's poll limit."""


ReadHeaders = Callable[[str, Headers | None], object]
"""Converts the headers of a topic's record for the job; the result is `Record.said`. None: they cannot be read."""


@dataclass(frozen=True, eq=False)
class Revocation(PartitionsRevoked):
    """The reader waits for `done`: by then all work of these partitions is committed or dropped."""

    done: threading.Event = field(default_factory=threading.Event)
    offsets: list[TopicPartition] = field(default_factory=list)
    """Offsets to commit before the partitions are given up."""

    def let_go(self, offsets: Iterable[TopicPartition]) -> None:
        """Lets the partitions go, once these offsets are committed."""
        self.offsets.extend(offsets)
        self.done.set()


class _Begin(NamedTuple):
    """Places to start reading, and the event to hand on first."""

    places: Sequence[TopicPartition]
    said: Event


class EventReceiver(Protocol):
    """Receives events: a lane, or a separate queue."""

    def put(self, event: Event, /, *, timeout: float) -> None:
        """Raises queue.Full if it stays full for so many seconds."""


def hand_on(events: EventReceiver, event: Event, stopped: Callable[[], bool]) -> bool:
    """Hands an event on, waiting for room. Returns false if it was stopped meanwhile."""
    while not stopped():
        try:
            events.put(event, timeout=POLL_S)
        except queue.Full:
            continue
        return True
    return False


class LaneReader(threading.Thread):
    """Polls one consumer and hands on its records, until stopped."""

    def __init__(
        self,
        name: str,
        config: dict[str, Any],
        events: EventReceiver,
        *,
        read_headers: ReadHeaders | None = None,
        batch_records_max: int = BATCH_RECORDS_MAX,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.consumer = RecordConsumer(config)
        self._events = events
        self._read_headers = read_headers
        self._batch_records_max = batch_records_max
        self._stopping = threading.Event()
        self._to_do: queue.SimpleQueue[_Begin | Callable[[Consumer], object]] = queue.SimpleQueue()
        self.final_offsets: list[TopicPartition] = []
        """Offsets to commit when the thread ends; set before stop()."""

    def stop(self) -> None:
        """Asks the thread to end: it commits `final_offsets` and closes the consumer."""
        self._stopping.set()

    def stopped(self) -> bool:
        """True if it was asked to end."""
        return self._stopping.is_set()

    def do(self, action: Callable[[Consumer], object]) -> None:
        """Has the thread call this soon, with the consumer. An exception ends the run."""
        self._to_do.put(action)

    def begin(self, places: Sequence[TopicPartition], said: Event) -> None:
        """Also reads these places, soon; hands on `said` before their first records."""
        self._to_do.put(_Begin(places, said))

    def run(self) -> None:
        """The thread."""
        try:
            connect(self.consumer)
            while not self._stopping.is_set():
                self._do_all()
                for event in self._events_of(self.consumer.read(POLL_S, self._batch_records_max)):
                    self.put(event)
        except BaseException as error:
            self.put(ReaderFailed(error))
        self._commit(self.final_offsets)
        self.consumer.close()

    def _events_of(self, read: Iterable[Message | Gap]) -> Iterator[Event]:
        records: list[JobRecord] = []
        for one in read:
            if not isinstance(one, Gap):
                records.append(record_of(one, self._read_headers))
                continue
            if records:
                yield Records(records)
                records = []
            yield UnreadableOffsets(*one)
        if records:
            yield Records(records)

    def _do_all(self) -> None:
        begun: list[_Begin] = []
        while not self._to_do.empty():
            to_do = self._to_do.get()
            if isinstance(to_do, _Begin):
                begun.append(to_do)
            else:
                self._assign(begun)
                begun = []
                to_do(self.consumer)
        self._assign(begun)

    def _assign(self, begun: Sequence[_Begin]) -> None:
        """Assigns them all at once: otherwise the later ones would wait for a fetch that began with the first."""
        if not begun:
            return
        self.consumer.incremental_assign([place for one in begun for place in one.places])
        for one in begun:
            self.put(one.said)

    def _commit(self, offsets: list[TopicPartition]) -> None:
        if not offsets:
            return
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # Nothing is lost: the next owner handles again what was not committed.
            log.warning("not committed", error=error.args[0].str())

    def put(self, event: Event) -> bool:
        """Hands an event on, waiting for room. Returns false if the thread was stopped meanwhile."""
        return hand_on(self._events, event, self._stopping.is_set)


def record_of(message: Message, read_headers: ReadHeaders | None) -> JobRecord:
    """Converts a message for a job. Raises KafkaException if the message reports that the consumer cannot continue."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    error = message.error()
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        assert topic is not None
        assert partition is not None
        assert offset is not None
        return JobRecord(topic, partition, offset, end=True)
    kind, timestamp_ms = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        timestamp_ms = -1
    said = None
    # Those that there are none of are the most.
    if read_headers is not None and (headers := headers_of(message)) != []:
        said = read_headers(topic or "", headers)
    key, value = message.key(), message.value()
    if key is not None and len(key) > RECORD_BYTES_MAX:
        key = key[:RECORD_BYTES_MAX]
    if value is not None and len(value) > RECORD_BYTES_MAX:
        value = value[:RECORD_BYTES_MAX]
    # Each is made here, a hundred thousand behind a long log: by its class it would take three times as long.
    fields = (topic, partition, offset, False, key, value, timestamp_ms, said)
    return tuple.__new__(JobRecord, fields)


def begin_reading(reader: LaneReader, number: int, offsets: Mapping[str, int], said: Event) -> None:
    """Reads topics of a partition from these offsets (by topic); hands on `said` first."""
    reader.begin([TopicPartition(topic, number, offset) for topic, offset in offsets.items()], said)


def stop_reading(reader: LaneReader, number: int, topics: Iterable[str]) -> None:
    """Stops reading these topics of a partition, all of which are being read."""
    places = [TopicPartition(topic, number) for topic in topics]
    if places:
        reader.do(lambda consumer: consumer.incremental_unassign(places))


def hold_back(reader: LaneReader, number: int, topics: Iterable[str], *, on: bool) -> None:
    """Leaves these topics of a partition, all of which are being read, in Kafka for now; with `on`, resumes them."""
    places = [TopicPartition(topic, number) for topic in topics]
    if places:
        reader.do(lambda consumer: consumer.resume(places) if on else consumer.pause(places))


class RequestsReader(LaneReader):
    """Reads requests as a member of the consumer group. A new partition is paused until the worker has loaded its
    state.
    """

    def __init__(
        self,
        config: dict[str, Any],
        events: EventReceiver,
        admin: AdminClient,
        topics: JobTopics,
        check_topics: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_topics` raises Failure if a topic was recreated or resized since this run began."""
        super().__init__("requests-reader", {**config, "on_commit": self._on_commit}, events)
        self.topics = topics
        self._admin = admin
        self._check_topics = check_topics
        self.assigned: set[int] | None = None
        """The partitions that the group assigns to this member; None: not known yet."""
        self.marks: Mapping[str, str] = {}
        """The mark that each topic's offsets are committed with (`Job.marks`). Offsets with another mark are ignored.
        """

    def run(self) -> None:
        """The thread."""
        self._subscribe(self.consumer)
        super().run()

    def join_again(self) -> None:
        """Gives up all partitions and joins the group as a new member would, so that all of them are assigned again."""

        def join(consumer: Consumer) -> None:
            consumer.unsubscribe()
            self._subscribe(consumer)

        self.do(join)

    def _subscribe(self, consumer: Consumer) -> None:
        consumer.subscribe(
            [self.topics.requests], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def serve(self, partition: int, *, from_beginning: bool) -> None:
        """Hands on the requests of an assigned partition from now on: its state is loaded."""

        def resume(consumer: Consumer) -> None:
            if partition not in (self.assigned or ()):
                return  # given up meanwhile
            if from_beginning:
                consumer.seek(TopicPartition(self.topics.requests, partition, OFFSET_BEGINNING))
            consumer.resume([TopicPartition(self.topics.requests, partition)])

        self.do(resume)

    def hold_back(self, partition: int) -> None:
        """Leaves further requests of a partition in Kafka until it is served again."""

        def pause(consumer: Consumer) -> None:
            if partition in (self.assigned or ()):
                consumer.pause([TopicPartition(self.topics.requests, partition)])

        self.do(pause)

    def rewind(self, partition: int, offset: int) -> None:
        """Leaves the requests of a partition in Kafka until it is served again, and then begins at this offset."""

        def rewind(consumer: Consumer) -> None:
            if partition in (self.assigned or ()):
                consumer.pause([TopicPartition(self.topics.requests, partition)])
                consumer.seek(TopicPartition(self.topics.requests, partition, offset))
                self.put(Rewound(partition))

        self.do(rewind)

    def commit_soon(self, offsets: list[TopicPartition]) -> None:
        """Commits the partitions that this member still owns by then. `on_commit` receives the result."""

        def commit(consumer: Consumer) -> None:
            ours = [tp for tp in offsets if tp.partition in (self.assigned or ())]
            if ours:
                consumer.commit(offsets=ours, asynchronous=True)

        self.do(commit)

    def _on_commit(self, error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
        if error is not None:
            self.put(NotCommitted(error.str(), fenced=error.code() in _FENCED))

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            assigned = self._positions(consumer, [tp.partition for tp in partitions])
            # A table that was made anew, loaded as if it were the one before, would be answered from by its epoch.
            self._check_topics()
            starts = [TopicPartition(self.topics.requests, a.partition, a.takeover.requests_start) for a in assigned]
            consumer.incremental_assign(starts)
            consumer.pause(starts)
        except BaseException as error:
            # An exception would vanish in librdkafka's callback. The run ends by it: nothing is read any more, nor is
            # librdkafka to look for committed offsets, whose lack would be a second error that hides the first.
            nowhere = [TopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in partitions]
            consumer.incremental_assign(nowhere)
            consumer.pause(nowhere)
            self.put(ReaderFailed(error))
            return
        self.assigned = (self.assigned or set()) | {event.partition for event in assigned}
        for event in assigned:
            self.put(event)

    def _positions(self, consumer: Consumer, partitions: list[int]) -> list[Assigned]:
        """Returns the offsets from which each partition's inputs are handled."""
        requests_topic, table_topic, logs = self.topics.requests, self.topics.table, self.topics.logs
        both = [(topic, partition) for partition in partitions for topic in (requests_topic, table_topic)]
        inputs = [TopicPartition(topic, partition) for partition in partitions for topic in self.topics.inputs]
        committed, in_epoch = {}, {}
        for tp in consumer.committed(inputs, timeout=KAFKA_TIMEOUT_S):
            if tp.error is not None:
                raise KafkaException(tp.error)
            mark = tp.metadata or ""
            expected = self.marks.get(tp.topic, mark)
            of_another = mark and mark.partition(EPOCH_MARK)[0] != expected.partition(EPOCH_MARK)[0]
            committed[tp.topic, tp.partition] = OFFSET_INVALID if of_another else tp.offset
            in_epoch[tp.topic, tp.partition] = not mark or mark == expected
        starts, ends = log_starts(self._admin, both), log_ends(self._admin, both)
        assigned = []
        for partition in partitions:
            requests, table = (requests_topic, partition), (table_topic, partition)
            # Nothing committed, or an offset that is no more: the topic was recreated, or retention took it.
            handled = starts[requests] <= committed[requests] <= ends[requests]
            start = committed[requests] if handled else starts[requests]
            table_committed = committed[table] if 0 <= committed[table] <= ends[table] else None
            takeover = Takeover(
                requests_start=start,
                requests_committed=committed[requests] >= 0,
                table_committed=table_committed,
                table_in_epoch=in_epoch[table],
                # In another epoch all is void that was known of a log, so it is read from its beginning.
                logs_committed={
                    log: committed[log, partition]
                    for log in logs
                    if committed[log, partition] >= 0 and in_epoch[log, partition]
                },
            )
            assigned.append(Assigned(partition, takeover))
        return assigned

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, lost=False)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, lost=True)

    def _give_up(self, consumer: Consumer, partitions: list[TopicPartition], *, lost: bool) -> None:
        revoked = Revocation(tuple(tp.partition for tp in partitions), lost)
        done = revoked.done
        if self.put(revoked):
            until_s = time.monotonic() + REVOKE_TIMEOUT_S
            # Once it is to stop, the worker takes no events any more. Waiting on would keep this member alive until
            # after the next run's has joined under the same name.
            while not (finished := done.wait(POLL_S)) and time.monotonic() < until_s and not self._stopping.is_set():
                pass
            if finished:
                self._commit(revoked.offsets)
            else:
                log.warning("partitions given up although their work is not finished", partitions=revoked.partitions)
        consumer.incremental_unassign(partitions)
        self.assigned = (self.assigned or set()) - set(revoked.partitions)
