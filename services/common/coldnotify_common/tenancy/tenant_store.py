"""Reads agreements and the usage history from Kafka, once up to their end, and writes agreements. Blocks; for
threads."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from coldnotify_schemas.tenant_usage import HistoryKey, TenantCounters, parse_counters, parse_history_key
from coldnotify_schemas.tenants import InvalidTenant, Tenant, encode_tenant, parse_tenant, parse_tenant_key
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicMissing, consumer_config, producer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.table import TableFull, TenantTable

_GROUP = "tenancy-look"
"""Group id of the consumers. They never join it nor commit, but a consumer needs a group id."""
_POLL_S = 0.2
_BATCH = 500
_PARTITION = 0


class StoredTenants(NamedTuple):
    """The contents of the tenants topic."""

    table: TenantTable
    damaged: dict[str, str]
    """Damaged records: the error by key; by "@" and the offset if the record cannot be read."""


def read_tenants(settings: ServiceSettings, timeout_s: float) -> StoredTenants:
    """Reads all tenants. Raises KafkaUnavailable, TopicMissing."""
    newest: dict[bytes | None, bytes | None] = {}
    found = StoredTenants(TenantTable(), {})
    for message in _read(settings, settings.topics.tenants, None, time.monotonic() + timeout_s):
        if isinstance(message, Gap):
            found.damaged[f"@{message.start}"] = message.reason
        else:
            newest[bytes_of(message.key())] = bytes_of(message.value())
    for key, value in newest.items():
        if value is None:
            continue
        try:
            found.table.put(parse_tenant(key, value))
        except (InvalidTenant, TableFull) as error:
            found.damaged[(key or b"").decode(errors="replace")] = str(error)
    return found


def write_tenant(settings: ServiceSettings, tenant: Tenant, timeout_s: float) -> None:
    """Writes a tenant. Raises KafkaUnavailable, after which the tenant may or may not have been written."""
    _write(settings, tenant.name, encode_tenant(tenant), timeout_s)


def remove_tenant(settings: ServiceSettings, name: str, timeout_s: float) -> None:
    """Deletes a tenant, or a damaged record of it. Raises KafkaUnavailable."""
    _write(settings, parse_tenant_key(name.encode()), None, timeout_s)


def read_history(
    settings: ServiceSettings, tenant: str, span: str, since_s: float, timeout_s: float
) -> list[tuple[HistoryKey, TenantCounters]]:
    """Returns a tenant's usage by "hour" or by "day", from records since `since_s` (Unix time), ordered by time.

    Reads the records of all tenants since then. Raises KafkaUnavailable, TopicMissing.
    """
    found: dict[HistoryKey, TenantCounters] = {}
    beginning = f"usage:{tenant}:{span}:".encode()
    for message in _read(settings, settings.topics.usage_history, int(since_s * 1000), time.monotonic() + timeout_s):
        if isinstance(message, Gap):
            continue  # its tenant is unknown; one lost hour does not hide the others
        key, value = bytes_of(message.key()), bytes_of(message.value())
        if key is None or not key.startswith(beginning):
            continue
        try:
            parsed = parse_history_key(key)
            if value is None:
                found.pop(parsed, None)
            else:
                found[parsed] = parse_counters(value)
        except InvalidTenant:
            continue  # one damaged hour does not hide the others
    return sorted(found.items(), key=lambda one: one[0].when)


def _read(settings: ServiceSettings, topic: str, since_ms: int | None, deadline_s: float) -> Iterator[Message | Gap]:
    """Yields the records of a topic up to its current end, and its unreadable gaps."""
    place = TopicPartition(topic, _PARTITION, OFFSET_BEGINNING if since_ms is None else since_ms)
    consumer = RecordConsumer(consumer_config(settings, settings.topics.group(_GROUP), enable_partition_eof=True))
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=_left_s(deadline_s, topic))
        if since_ms is not None:
            (place,) = consumer.offsets_for_times([place], timeout=_left_s(deadline_s, topic))
            if place.error is not None:
                raise KafkaException(place.error)
        consumer.assign([place])
        while True:
            for message in consumer.read(min(_POLL_S, _left_s(deadline_s, topic)), _BATCH):
                if isinstance(message, Gap):
                    yield message
                    if message.next >= end:
                        return
                    continue
                error = message.error()
                if error is None:
                    if (message.offset() or 0) < end:
                        yield message
                    else:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif not error.retriable():
                    raise KafkaException(error)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            raise TopicMissing(f"topic {topic} does not exist: run `coldnotify topics apply`") from None
        raise KafkaUnavailable(f"Kafka ({settings.kafka}): {topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _write(settings: ServiceSettings, key: str, value: bytes | None, timeout_s: float) -> None:
    refused: list[KafkaError] = []
    topic = settings.topics.tenants

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(producer_config(settings, message_timeout_ms=int(timeout_s * 1000)))
    try:
        producer.produce(topic, value, key.encode(), partition=_PARTITION, on_delivery=on_delivery)
        left = producer.flush(timeout_s + 1)
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka ({settings.kafka}): {topic}: {error.args[0].str()}") from None
    if left:
        raise KafkaUnavailable(f"Kafka ({settings.kafka}) did not acknowledge within {timeout_s:g} s")
    if refused:
        if refused[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise TopicMissing(f"topic {topic} does not exist: run `coldnotify topics apply`")
        raise KafkaUnavailable(f"Kafka ({settings.kafka}): {topic}: {refused[0].str()}")


def _left_s(deadline_s: float, topic: str) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise KafkaUnavailable(f"topic {topic} was not read in time")
    return left_s
