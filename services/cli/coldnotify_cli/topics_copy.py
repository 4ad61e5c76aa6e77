"""Copies an installation's topics under another prefix, which may have another number of partitions.

A run goes on where the last one ended: each transaction writes copies, and the positions that they were read up to. Its
transactional id is the copy's, so a run that was thought dead writes nothing any more. The topic of requests is made
last: until then, no service works with the new prefix.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from coldnotify_common.kafka.kafka_clients import READING_BOUNDS
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_kafka import topic_plan
from coldnotify_kafka.topic_plan import BEING_COPIED, SHUT_BYTES, TAKES_BYTES
from coldnotify_kafka.topics import TopicSpec
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from coldnotify_cli import parts_in_kafka
from coldnotify_cli.copied_arrivals import CopiedArrivals
from coldnotify_cli.copied_records import CopiedRecord, CopiedRecords, SourceRecord

TOMBSTONES_KEPT_S = 12 * 3600.0
"""Half of delete.retention.ms: a copy that is older may miss tombstones that are compacted away by now."""
COMMIT_RECORDS, COMMIT_S = 20_000, 1.0
"""Records of one transaction, and how long a record waits for its end."""
_ALL_POSITIONS_S = 600.0
"""Positions that did not move are written so often: their age says how long ago the copy was at the end."""
_ASK_S = 10.0
_POLL_S = 0.1
_BATCH = 1_000
_PROBE_KEY = b"@shut"
_STAMPS, _OF_KAFKA = "message.timestamp.type", "LogAppendTime"
_SIZE = "max.message.bytes"

Place = tuple[str, int]
Positions = dict[Place, int]


class CopyError(Exception):
    """The copy cannot go on; the message says what is to be done."""


@dataclass(frozen=True)
class CopyProgress:
    """The copy's place between begin and end."""

    records: int
    """Copied in this run."""
    behind: int
    """Offsets of the source that are not read yet, when Kafka was asked last."""


class TopicsCopy:
    """The copy of one installation's topics. It is used by one thread, and closed at the end."""

    def __init__(
        self,
        config: dict[str, Any],
        source: TopicNames,
        target: TopicNames,
        *,
        partitions: int | None,
        replication: int,
        timeout_s: float,
    ) -> None:
        """Raises CopyError, KafkaException."""
        self._config = {**config, "log_level": 0}
        self._source, self._target = source, target
        self._timeout_s = timeout_s
        self._admin = AdminClient(self._config)
        self._group = target.group("copy")
        wanted = (source.objects, source.registrations, source.sessions, *source.channels)
        copied = (*wanted, source.tenants, source.usage_state, source.usage_history, *source.of_hooks)
        there = self._admin.list_topics(timeout=min(_ASK_S, timeout_s)).topics
        for topic in (source.objects, source.requests):
            if topic not in there:
                raise CopyError(f"topic {topic} does not exist: is COLDNOTIFY_TOPICS_PREFIX / --topics-prefix right?")
        self.is_complete = target.requests in there
        """A former run has ended the switch."""
        self._counts = {topic: len(there[topic].partitions) for topic in copied if topic in there}
        self._specs = self._specs_of(partitions, max(replication, _copies(there[source.objects])))
        objects = next(spec for spec in self._specs if spec.name == target.objects)
        self._copied = CopiedRecords(
            source,
            target,
            source_partitions=self._counts[source.objects],
            target_partitions=objects.partitions,
        )
        self._source_id = ""
        """Changes with the ids of the source's topics."""
        self._at: Positions = {}
        self._written: Positions = {}
        self._records = 0
        self._strays_only = False
        self._arrivals = CopiedArrivals(self._counts[source.objects])
        self._consumer: RecordConsumer | None = None
        self._producer: Producer | None = None
        self._plain = Producer({**self._config, "enable.idempotence": True, "linger.ms": 20})
        """Writes what Faust reads, which waits for ever for a last record that is a transaction's mark. Its records are
        flushed before their positions are written; what a run writes again is the same, in the same order."""
        self._of_faust = frozenset((target.usage_state, target.usage_history))
        self._all_written_s = 0.0

    @property
    def records(self) -> int:
        """The number of records copied in this run."""
        return self._records

    @property
    def counts(self) -> dict[str, int]:
        """Records by what was not copied as it was."""
        return self._copied.counts

    @property
    def partitions(self) -> int:
        """The new number of partitions."""
        return next(spec.partitions for spec in self._specs if spec.name == self._target.objects)

    def make_topics(self) -> None:
        """Makes all topics of the new prefix but that of requests. Raises what topic_plan.create_missing raises."""
        specs = [spec for spec in self._specs if spec.name != self._target.requests]
        topic_plan.create_missing(self._admin, specs, self._timeout_s)

    def begin(self) -> None:
        """Goes on where the last run ended. Raises CopyError, KafkaException."""
        self.close()
        found = self._admin.describe_topics(TopicCollection(list(self._counts)))
        ids = sorted(f"{topic}={answer.result(_ASK_S).topic_id}" for topic, answer in found.items())
        self._source_id = sha256(" ".join(ids).encode()).hexdigest()[:16]
        self._producer = Producer(
            {
                **self._config,
                "transactional.id": self._group,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 2 * COMMIT_RECORDS,
                "message.max.bytes": 2 * 1024 * 1024,
            }
        )
        # From here on a former run can write nothing.
        self._producer.init_transactions(self._timeout_s)
        self._consumer = RecordConsumer(
            {
                **READING_BOUNDS,
                **self._config,
                "group.id": self._group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "queued.max.messages.kbytes": 32 * 1024,
            }
        )
        places = [TopicPartition(topic, number) for topic, count in self._counts.items() for number in range(count)]
        starts = self._asked(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        oldest_s = time.time()
        self._at = {}
        for one in self._consumer.committed(places, timeout=self._timeout_s):
            place = one.topic, one.partition
            if one.offset < 0:
                self._at[place] = starts[place]
                continue
            id_, _, at_s = (one.metadata or "").partition(" ")
            if id_ != self._source_id:
                words = f"a topic under {self._source.prefix} was made anew since it was copied"
                raise CopyError(f"{words}: {self._begin_anew}")
            oldest_s = min(oldest_s, float(at_s))
            self._at[place] = max(one.offset, starts[place])
        if time.time() - oldest_s > TOMBSTONES_KEPT_S:
            raise CopyError(f"the last run was more than {TOMBSTONES_KEPT_S / 3600:g} h ago: {self._begin_anew}")
        self._written = {}
        self._arrivals = CopiedArrivals(self._counts[self._source.objects])
        self._consumer.assign([TopicPartition(*place, at) for place, at in self._at.items()])

    @property
    def _begin_anew(self) -> str:
        return f"delete the topics {self._target.prefix}* and the consumer group {self._group}, and begin anew"

    def close(self) -> None:
        """Ends the run where the last transaction ended."""
        consumer, producer = self._consumer, self._producer
        self._consumer = self._producer = None
        if producer is not None:
            with suppress(KafkaException):
                producer.abort_transaction(2)
        if consumer is not None:
            consumer.close()

    def ends(self) -> Positions:
        """Returns where the source ends now, behind open transactions, too. Raises KafkaException."""
        places = [TopicPartition(topic, number) for topic, count in self._counts.items() for number in range(count)]
        return self._asked(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def progress(self, ends: Positions) -> CopyProgress:
        """Returns how far the copy is from these ends."""
        return CopyProgress(self._records, sum(max(0, end - self._at[place]) for place, end in ends.items()))

    def copy_on(self, seconds: float, until: Positions | None = None) -> bool:
        """Copies for so long, or until these ends are reached: then returns true. Raises KafkaException."""
        assert self._consumer is not None
        assert self._producer is not None
        stop_s = time.monotonic() + seconds
        reached = False
        while not reached and time.monotonic() < stop_s:
            self._producer.begin_transaction()
            begun_s, before = time.monotonic(), self._records
            while time.monotonic() - begun_s < COMMIT_S and self._records - before < COMMIT_RECORDS:
                for message in self._consumer.read(_POLL_S, _BATCH):
                    if not self._take(message):
                        break
                reached = until is not None and all(self._at[place] >= end for place, end in until.items())
                if reached:
                    self._write_arrived()
                    break
            self._commit()
        return reached

    def copy_strays(self, group: str) -> None:
        """Copies records in wrong partitions that the matchers of this consumer group have not moved.

        The source takes no records any more. Raises KafkaException.
        """
        assert self._consumer is not None
        assert self._producer is not None
        ends = self.ends()
        topics = [topic for topic in (self._source.objects, *self._source.channels) if topic in self._counts]
        places = [TopicPartition(topic, number) for topic in topics for number in range(self._counts[topic])]
        asked = RecordConsumer({**self._config, "group.id": group, "enable.auto.commit": False})
        try:
            committed = {(one.topic, one.partition): one.offset for one in asked.committed(places, timeout=_ASK_S)}
        finally:
            asked.close()
        starts = self._asked(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        # Behind a topic that was made anew, nothing is committed that counts: a repeat has the same version, or place.
        begins = {place: max(starts[place], committed[place]) for place in starts}
        begins = {place: at if at <= ends[place] else starts[place] for place, at in begins.items()}
        kept, self._at = self._at, {**self._at, **begins}
        self._strays_only = True
        try:
            self._consumer.assign([TopicPartition(*place, at) for place, at in begins.items()])
            until = {place: ends[place] for place in begins}
            if not self.copy_on(self._timeout_s, until):
                raise CopyError(f"records in wrong partitions were not read within {self._timeout_s:g} s; run it again")
        finally:
            self._strays_only, self._at = False, kept

    def shut(self) -> None:
        """Has the source's topics take no record any more, and sees to it that they do not. Raises KafkaException."""
        topics = [*self._counts, self._source.requests]
        self._configure(topics, {_SIZE: SHUT_BYTES})
        # Brokers hear of it one after the other, so each leader is asked to take one.
        deadline_s = time.monotonic() + self._timeout_s
        open_ = {(topic, number) for topic in topics for number in range(self._partitions_of(topic))}
        producer = Producer({**self._config, "acks": "all", "linger.ms": 0, "message.timeout.ms": int(_ASK_S * 1000)})
        time.sleep(_POLL_S)
        while open_:
            if time.monotonic() > deadline_s:
                raise CopyError(f"{min(open_)[0]} still takes records: run it again, or take it back with --cancel")

            def told(error: KafkaError | None, message: Message) -> None:
                if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    open_.discard((str(message.topic()), int(message.partition() or 0)))

            for topic, number in sorted(open_):
                producer.produce(topic, b"", _PROBE_KEY, number, on_delivery=told)
            producer.flush(_ASK_S)
            time.sleep(0.0 if not open_ else _POLL_S)

    def open_again(self) -> None:
        """Has the source's topics take records again. Raises CopyError once the new prefix may be in use."""
        if self.is_complete:
            raise CopyError(f"{self._target.prefix} is complete, and services may have written there")
        self._configure([*self._counts, self._source.requests], {_SIZE: TAKES_BYTES})

    def complete(self) -> None:
        """Has Kafka stamp new messages, and makes the topic of requests: services may begin."""
        self._configure(self._target.channels, {_STAMPS: _OF_KAFKA})
        topic_plan.create_missing(self._admin, self._specs, self._timeout_s)
        self.is_complete = True

    # ---- records --------------------------------------------------------------------------------------------------

    def _take(self, message: Message | Gap) -> bool:
        """Copies a record. Returns false if the records behind it are read again."""
        if isinstance(message, Gap):
            place = message.topic, message.partition
            self._at[place] = max(self._at[place], message.next)
            self._copied.note_unreadable()
            return True
        place = str(message.topic()), int(message.partition() or 0)
        offset = int(message.offset() or 0)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._at[place] = max(self._at[place], offset)
            elif not error.retriable():
                raise KafkaException(error)
            return True
        key, value = bytes_of(message.key()), bytes_of(message.value())
        record = SourceRecord(*place, offset, key, value, headers_of(message), message.timestamp()[1])
        if record.topic == self._source.objects and not self._strays_only:
            if self._arrivals.begins(record):
                self._read_from_the_beginning(record.partition)
                return False
            self._arrivals.read(record)
            if offset < self._at[place]:
                return True
        copied = self._copied.of_stray(record) if self._strays_only else self._copied.of(record)
        if copied is not None:
            self._write(copied)
        self._at[place] = offset + 1
        return True

    def _read_from_the_beginning(self, partition: int) -> None:
        """Reads a partition of objects again, for the versions of records by arrival. Copied records are not copied
        again."""
        assert self._consumer is not None
        self._arrivals.begin(partition)
        place = self._source.objects, partition
        start = self._asked([TopicPartition(*place)], OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        self._consumer.assign([TopicPartition(*one, at) for one, at in {**self._at, **start}.items()])

    def _write_arrived(self) -> None:
        for record in self._arrivals.newest(self._source.objects):
            copied = self._copied.of(record)
            if copied is not None:
                self._write(copied)

    def _write(self, copied: CopiedRecord) -> None:
        assert self._producer is not None
        producer = self._plain if copied.topic in self._of_faust else self._producer
        while True:
            try:
                producer.produce(
                    copied.topic,
                    copied.value,
                    copied.key,
                    copied.partition,
                    headers=copied.headers,
                    timestamp=copied.timestamp_ms,
                )
            except BufferError:
                producer.poll(_POLL_S)
                continue
            break
        self._records += 1
        producer.poll(0)

    def _commit(self) -> None:
        assert self._consumer is not None
        assert self._producer is not None
        now_s = time.time()
        if self._plain.flush(self._timeout_s):
            raise CopyError(f"Kafka did not take all usage within {self._timeout_s:g} s: run it again")
        if not self._strays_only:
            everything = time.monotonic() - self._all_written_s > _ALL_POSITIONS_S
            copied = {place: self._copied_to(place, at) for place, at in self._at.items()}
            moved = [
                TopicPartition(*place, at, f"{self._source_id} {now_s:.0f}")
                for place, at in copied.items()
                if everything or self._written.get(place) != at
            ]
            if moved:
                group = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(moved, group, self._timeout_s)
        self._producer.commit_transaction(self._timeout_s)
        if not self._strays_only:
            self._written = copied
            self._all_written_s = time.monotonic() if everything else self._all_written_s

    def _copied_to(self, place: Place, at: int) -> int:
        if place[0] != self._source.objects or (first := self._arrivals.first_unwritten(place[1])) is None:
            return at
        return min(at, first)

    # ---- topics ---------------------------------------------------------------------------------------------------

    def _specs_of(self, partitions: int | None, replication: int) -> list[TopicSpec]:
        """Returns the new prefix's topics while records are copied: channels' have the timestamps of the records."""
        specs = parts_in_kafka.topics(partitions, replication, self._target)
        renamed = dict(zip(self._source.all, self._target.all, strict=True))
        straight = {renamed[topic]: count for topic, count in self._counts.items()}
        found = []
        for spec in specs:
            if spec.name in self._target.channels:
                spec = replace(spec, settings={**spec.settings, _STAMPS: BEING_COPIED})
            elif not spec.co_partitioned and spec.name in straight:
                spec = replace(spec, partitions=straight[spec.name])
            found.append(spec)
        return found

    def _partitions_of(self, topic: str) -> int:
        return self._counts[self._source.objects] if topic == self._source.requests else self._counts[topic]

    def _configure(self, topics: Iterable[str], settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
        ]
        resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries) for topic in topics]
        for answer in self._admin.incremental_alter_configs(resources, request_timeout=_ASK_S).values():
            answer.result(_ASK_S + 5)

    def _asked(self, places: list[TopicPartition], spec: OffsetSpec) -> Positions:
        answers = self._admin.list_offsets(
            dict.fromkeys(places, spec), isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_ASK_S
        )
        return {(one.topic, one.partition): answer.result(_ASK_S + 5).offset for one, answer in answers.items()}


def _copies(topic: Any) -> int:
    return min(len(one.replicas) for one in topic.partitions.values())
