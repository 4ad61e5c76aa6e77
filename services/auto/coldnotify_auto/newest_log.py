"""Newest versions of objects, as the log of objects contains them: read once from its beginning to its end."""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicMissing, consumer_config
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_common.settings import ServiceSettings
from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER
from coldnotify_schemas.descriptions import parse_description_key, parse_description_record
from coldnotify_schemas.names import InvalidName, ObjectKey, parse_object_key
from coldnotify_schemas.records import (
    LARGEST_PAYLOAD_BYTES,
    PAYLOAD_HEADER,
    InvalidRecord,
    parse_public_record,
)
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_auto.changes import KnownNewest, description_digest, digest

_GROUP = "auto"
"""Never committed, never joined: a consumer only needs to have one."""
_BATCH = 1000
_POLL_S = 0.2
_SILENT_S_MAX = 60.0
"""Time without any record after which the reading is given up."""

NewestByKey = dict[ObjectKey, KnownNewest]


class _Described(NamedTuple):
    timestamp_ms: int
    digest: bytes


class _Found:
    """Records read so far."""

    def __init__(self, wanted: Callable[[ObjectKey], bool]) -> None:
        self._wanted = wanted
        self._newest: NewestByKey = {}
        self._described: dict[ObjectKey, _Described] = {}

    def result(self) -> NewestByKey:
        for key, described in self._described.items():
            if key in self._newest:
                self._newest[key] = self._newest[key]._replace(description=described.digest)
        return self._newest

    def take(self, message: Message) -> None:
        key, value = bytes_of(message.key()), bytes_of(message.value())
        try:
            described = None if key is None else parse_description_key(key)
            if described is not None:
                self._describe(described, value, message.timestamp()[1])
                return
            name = parse_object_key(key)
            if not self._wanted(name):
                return
            if value is None:
                self._newest.pop(name, None)
                return
            headers = dict(headers_of(message) or ())
            record = parse_public_record(value, raw=PAYLOAD_HEADER in headers, payload_bytes_max=LARGEST_PAYLOAD_BYTES)
        except (InvalidName, InvalidRecord):
            return  # no version of any object: the matcher sets it aside
        known = self._newest.get(name)
        incarnation = record.incarnation if record.incarnation is not None else known.incarnation if known else 0
        version = record.version_at(message.timestamp()[1])
        if record.version is None and ARRIVAL_HEADER in headers and known is not None:
            version = max(version, known.version + 1)
        if known is None or (incarnation, version) > (known.incarnation, known.version):
            self._newest[name] = KnownNewest(
                incarnation, version, digest(record.payload_bytes), record.deleted, record.source or "", b""
            )

    def _describe(self, key: ObjectKey, value: bytes | None, timestamp_ms: int) -> None:
        if not self._wanted(key):
            return
        last = self._described.get(key)
        if last is None or timestamp_ms >= last.timestamp_ms:
            self._described[key] = _Described(timestamp_ms, description_digest(parse_description_record(value)))


def read_newest(
    settings: ServiceSettings, wanted: Callable[[ObjectKey], bool], go_on: Callable[[], None] = lambda: None
) -> NewestByKey:
    """Returns the newest version of each wanted object. `go_on` is called a few times a second, and may raise.

    Raises KafkaUnavailable, TopicMissing.
    """
    topic = settings.topics.objects
    consumer = RecordConsumer(consumer_config(settings, settings.topics.group(_GROUP), enable_partition_eof=True))
    try:
        return _read(consumer, topic, wanted, go_on)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            raise TopicMissing(f"topic {topic} does not exist: run `coldnotify topics apply`") from None
        raise KafkaUnavailable(f"Kafka ({settings.kafka}): {topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _read(
    consumer: RecordConsumer, topic: str, wanted: Callable[[ObjectKey], bool], go_on: Callable[[], None]
) -> NewestByKey:
    metadata = consumer.list_topics(topic, timeout=10).topics[topic]
    if metadata.error is not None or not metadata.partitions:
        raise KafkaException(metadata.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    ends = {}
    for partition in metadata.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        if high > low:
            ends[partition] = high
    found = _Found(wanted)
    if ends:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
    last_s = time.monotonic()
    while ends:
        go_on()
        for one in consumer.read(_POLL_S, _BATCH):
            last_s = time.monotonic()
            if isinstance(one, Gap):
                _drop_reached(ends, one.partition, one.next)
            elif (error := one.error()) is None:
                found.take(one)
                _drop_reached(ends, one.partition(), (one.offset() or 0) + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.pop(one.partition() or 0, None)
        if time.monotonic() - last_s > _SILENT_S_MAX:
            raise KafkaUnavailable(f"topic {topic} could not be read to its end within {_SILENT_S_MAX:.0f} s")
    return found.result()


def _drop_reached(ends: dict[int, int], partition: int | None, next_offset: int) -> None:
    if partition is not None and next_offset >= ends.get(partition, next_offset + 1):
        del ends[partition]


def of_domain(domains: Collection[str]) -> Callable[[ObjectKey], bool]:
    """Returns a function that wants the objects of these domains; all of them if there are none."""
    return lambda key: not domains or key.domain in domains
