"""Reads the webhooks of a group from Kafka, up to where they end, and writes records of hooks. Blocks; for threads."""

import time
from typing import NamedTuple

from coldnotify_schemas.partitioner import partition_of
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition

from coldnotify_common.hooks.hook_records import (
    STATUS,
    Hook,
    InvalidHook,
    decode_hook,
    json_fields,
    parse_key,
)
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicLooks, consumer_config, producer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_common.settings import ServiceSettings

_GROUP = "hooks-look"
"""Group id of the consumers. They never join it."""
_POLL_S = 0.2
_BATCH = 500


class StoredHook(NamedTuple):
    """A hook, and the fields of its status, {} without one."""

    hook: Hook
    status: dict[str, object]


class HookStore:
    """The topic of hooks. For one thread at a time."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._topic = settings.topics.hooks
        self._partitions: int | None = None
        self._producer: Producer | None = None

    def of_group(self, domain: str, group: str, timeout_s: float) -> dict[str, StoredHook]:
        """Returns the hooks of a group by name. Raises KafkaUnavailable, TopicMissing."""
        newest: dict[bytes, bytes | None] = {}
        beginning = f"{domain}/{group}/".encode()
        for message in self._read(self._place(domain, group, timeout_s), time.monotonic() + timeout_s):
            key = bytes_of(message.key()) or b""
            if key.startswith(beginning):
                newest[key] = bytes_of(message.value())
        found = {}
        for key, value in newest.items():
            try:
                if value is None or parse_key(key)[3]:
                    continue
                hook = decode_hook(key, value)
                status = json_fields(newest.get(f"{hook.key}/{STATUS}".encode()))
            except (InvalidHook, ValueError):
                continue  # a damaged record does not hide the others
            found[hook.name] = StoredHook(hook, status)
        return found

    def write(self, domain: str, group: str, records: dict[str, bytes | None], timeout_s: float) -> None:
        """Writes records by key. Raises KafkaUnavailable: then some of them may have been written."""
        refused: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        place = self._place(domain, group, timeout_s)
        if self._producer is None:
            self._producer = Producer(producer_config(self._settings, message_timeout_ms=int(timeout_s * 1000)))
        try:
            for key, value in records.items():
                self._producer.produce(
                    self._topic, value, key.encode(), partition=place.partition, on_delivery=on_delivery
                )
            left = self._producer.flush(timeout_s + 1)
        except KafkaException as error:
            self._producer = None
            raise KafkaUnavailable(f"Kafka ({self._settings.kafka}): {error.args[0].str()}") from None
        if left or refused:
            words = refused[0].str() if refused else f"did not acknowledge within {timeout_s:g} s"
            raise KafkaUnavailable(f"Kafka ({self._settings.kafka}): {self._topic}: {words}")

    def _place(self, domain: str, group: str, timeout_s: float) -> TopicPartition:
        if self._partitions is None:
            self._partitions = len(TopicLooks(self._settings).describe(self._topic, timeout_s).partitions)
        return TopicPartition(self._topic, partition_of(domain, group, self._partitions), OFFSET_BEGINNING)

    def _read(self, place: TopicPartition, deadline_s: float) -> list[Message]:
        config = consumer_config(self._settings, self._settings.topics.group(_GROUP), enable_partition_eof=True)
        consumer = RecordConsumer(config)
        read: list[Message] = []
        try:
            consumer.assign([place])
            while (left_s := deadline_s - time.monotonic()) > 0:
                for message in consumer.read(min(_POLL_S, left_s), _BATCH):
                    if isinstance(message, Gap):
                        continue
                    error = message.error()
                    if error is None:
                        read.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return read
                    elif not error.retriable():
                        raise KafkaUnavailable(f"Kafka ({self._settings.kafka}): {self._topic}: {error.str()}")
            raise KafkaUnavailable(f"topic {self._topic} was not read in time")
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka ({self._settings.kafka}): {error.args[0].str()}") from None
        finally:
            consumer.close()
