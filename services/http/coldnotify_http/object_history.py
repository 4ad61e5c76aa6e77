"""Reads the latest records of one object from the objects topic, backwards, within limits. Blocks; for threads.

Kafka has no index by key. So the partition is read in stretches, from its end towards its beginning, and records of
other objects are skipped. If the newest version is farther back than half of what may be read, the rest is read from
there on. Records older than min.compaction.lag.ms are mostly gone: compaction keeps the last record of each key.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicMissing, consumer_config
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_common.settings import ServiceSettings
from coldnotify_schemas.partitioner import partition_of
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

_GROUP = "history"
"""Never committed, never joined: a consumer only needs to have one."""
_STRETCH = 500
_STRETCH_MAX = 5_000
"""Offsets of one stretch: the first is short, for most objects that somebody looks at were published lately."""
_BATCH = 500
_POLL_S = 0.1
_QUEUED_KBYTES = 4 * 1024
RECORDS, BYTES, TIME = "records", "bytes", "time"


class ReadingBounds(NamedTuple):
    """Limits on the cost of one reading."""

    records: int = 50_000
    """Records of all objects of the partition: some 0.3 s."""
    bytes: int = 32 * 1024 * 1024
    seconds: float = 4.0
    """Total time, including connecting."""


class FoundRecord(NamedTuple):
    """One record of the object."""

    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass
class ObjectHistory:
    """The result of a reading."""

    partition: int
    begin: int
    """The partition's present first offset."""
    end: int
    records: list[FoundRecord] = field(default_factory=list)
    """The newest first."""
    looked: list[tuple[int, int]] = field(default_factory=list)
    """[from, to) ranges that were read completely, the latest first."""
    stopped_by: str | None = None
    """RECORDS, BYTES or TIME, where a bound was reached; None: all was read, or enough was found."""

    @property
    def complete(self) -> bool:
        """True if the partition was read from its end to its beginning."""
        return self.looked == [(self.begin, self.end)] or self.begin >= self.end


def read_history(
    settings: ServiceSettings,
    names: tuple[str, str, str],
    *,
    newest_offset: int | None,
    records_max: int,
    bounds: ReadingBounds | None = None,
) -> ObjectHistory:
    """The latest records of the object, at most `records_max`. `names`: domain, group, object.

    `newest_offset`: of its newest version, if that is known. Raises KafkaUnavailable, TopicMissing.
    """
    reading = _Reading(settings, names, bounds or ReadingBounds(), records_max)
    try:
        return reading.read(newest_offset)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            raise TopicMissing(
                f"topic {settings.topics.objects} does not exist: run `coldnotify topics apply`"
            ) from None
        raise KafkaUnavailable(f"Kafka ({settings.kafka}): {settings.topics.objects}: {error.args[0].str()}") from None
    finally:
        reading.close()


class _Spent(Exception):
    """A bound was reached; the stretch is not read as a whole."""


class _Reading:
    def __init__(
        self, settings: ServiceSettings, names: tuple[str, str, str], bounds: ReadingBounds, records_max: int
    ) -> None:
        self._topic = settings.topics.objects
        self._names, self._key = names, "/".join(names).encode()
        self._records_max = records_max
        self._records_left, self._bytes_left = bounds.records, bounds.bytes
        self._deadline_s = time.monotonic() + bounds.seconds
        self._consumer = RecordConsumer(
            consumer_config(
                settings,
                settings.topics.group(_GROUP),
                enable_partition_eof=True,
                queued_max_messages_kbytes=_QUEUED_KBYTES,
            )
        )
        self._read = 0
        self._read_bytes = 0

    def close(self) -> None:
        self._consumer.close()

    def read(self, newest_offset: int | None) -> ObjectHistory:
        metadata = self._consumer.list_topics(self._topic, timeout=self._left_s()).topics[self._topic]
        if metadata.error is not None or not metadata.partitions:
            raise KafkaException(metadata.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        domain, group, _ = self._names
        partition = partition_of(domain, group, len(metadata.partitions))
        place = TopicPartition(self._topic, partition)
        begin, end = self._consumer.get_watermark_offsets(place, timeout=self._left_s())
        history = ObjectHistory(partition, begin, end)
        half = self._records_left // 2
        self._back(history, begin, end, keep=half if newest_offset is not None else 0, newest_offset=newest_offset)
        reached = history.looked[-1][0] if history.looked else end
        if newest_offset is not None and begin <= newest_offset < reached and history.stopped_by == RECORDS:
            history.stopped_by = None
            self._back(history, begin, newest_offset + 1)
        return history

    def _back(
        self, history: ObjectHistory, begin: int, end: int, *, keep: int = 0, newest_offset: int | None = None
    ) -> None:
        """Reads from `end` towards `begin`. `keep`: so many records are reserved for later, until `newest_offset` was
        read.
        """
        step, high = _STRETCH, end
        while high > begin and len(history.records) < self._records_max:
            kept = keep if newest_offset is not None and newest_offset < high else 0
            room = self._records_left - kept
            if self._read:
                room = min(room, self._bytes_left * self._read // max(1, self._read_bytes))
            if room <= 0:
                history.stopped_by = RECORDS if self._records_left - kept <= 0 else BYTES
                return
            low = max(begin, high - min(step, room))
            try:
                found = list(self._stretch(history.partition, low, high))
            except _Spent as spent:
                history.stopped_by = str(spent)
                return
            history.records += reversed(found)
            if history.looked and history.looked[-1][0] == high:
                history.looked[-1] = low, history.looked[-1][1]
            else:
                history.looked.append((low, high))
            high, step = low, min(2 * step, _STRETCH_MAX)
        del history.records[self._records_max :]

    def _stretch(self, partition: int, low: int, high: int) -> Iterator[FoundRecord]:
        """The object's records from `low` to below `high`. Raises _Spent."""
        self._consumer.assign([TopicPartition(self._topic, partition, low)])
        while True:
            for message in self._consumer.read(min(_POLL_S, self._left_s()), _BATCH):
                if isinstance(message, Gap):
                    if message.next >= high:
                        return
                    continue  # whosever it was
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    if not error.retriable():
                        raise KafkaException(error)
                    continue
                if (message.offset() or 0) >= high:
                    return
                self._spend(message)
                if message.key() == self._key:
                    yield _found(message)

    def _spend(self, message: Message) -> None:
        size = len(message.key() or b"") + len(message.value() or b"")
        self._read += 1
        self._read_bytes += size
        self._records_left -= 1
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _Spent(BYTES)

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s > 0:
            return left_s
        if self._read:
            raise _Spent(TIME)
        raise KafkaUnavailable(f"topic {self._topic} was not read in time")


def _found(message: Message) -> FoundRecord:
    # What was written with headers that nobody can read was rejected, and shows as if it had none.
    headers = headers_of(message) or ()
    return FoundRecord(
        message.offset() or 0,
        max(0, message.timestamp()[1]),
        bytes_of(message.value()),
        tuple((name, bytes_of(text) or b"") for name, text in headers),
    )
