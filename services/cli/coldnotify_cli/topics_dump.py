"""Reads the topics, and returns their contents as lines of a history."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from coldnotify_checker.histories import Record, Topic, now_us
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import READING_BOUNDS, TopicMissing, describe_topic
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_schemas.arrival_versions import arrival_of
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, says_raw
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_cli.noting import message_payload, said_as_json

_POLL_S = 0.5
_ASK_S = 10.0
_BATCH = 500
_VALUE_BYTES_MAX = 2 * 1024 * 1024
"""A compressed record may be larger than what Kafka takes of others, and its line than what a history may have."""
_SHOWN_BYTES = 1_000


def of_channels(topics: TopicNames) -> tuple[str, ...]:
    """Channels' messages, and the matcher's state of them and of their shares. Kafka need not have these topics."""
    return (*topics.channels, topics.channels_state, topics.shares)


def of_clients(topics: TopicNames) -> tuple[str, ...]:
    """Objects and the matcher's state. Requests and notifications are on their way, and tell nothing."""
    return topics.objects, topics.registrations, topics.sessions


class DumpError(Exception):
    """The topics could not be read in full; the message names the topic and the reason."""


def read(
    kafka: str,
    timeout_s: float,
    options: Mapping[str, str] | None = None,
    *,
    topics: TopicNames,
    dumped: Iterable[str] = (),
    payload_bytes_max: int = PAYLOAD_BYTES_MAX,
) -> Iterator[Record | Topic]:
    """All records that are still there, each topic's up to where it ends now; then what each topic is like.

    `kafka`: bootstrap servers; `options`: further options of librdkafka; `dumped`: which of the `topics`; none: all.
    `payload_bytes_max`: the services' limit. Raises DumpError.
    """
    deadline_s = time.monotonic() + timeout_s
    quiet: dict[str, Any] = {"bootstrap.servers": kafka, "logger": _silent(), **(options or {})}
    config: dict[str, Any] = {
        **READING_BOUNDS,
        **quiet,
        "group.id": topics.group("dump"),  # never committed: the consumer only needs to have one
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = RecordConsumer(config)
    try:
        admin = AdminClient(quiet)
        found = {}
        may_lack = of_channels(topics)
        for topic in dumped or (*of_clients(topics), *may_lack):
            try:
                found[topic] = describe_topic(admin, topic, min(_ASK_S, _left_s(deadline_s)))
            except TopicMissing:
                if topic not in may_lack:
                    raise
        as_of_us = now_us()
        starts, ends = {}, {}
        for topic, described in found.items():
            for partition in range(len(described.partitions)):
                place = TopicPartition(topic, partition)
                starts[topic, partition], ends[topic, partition] = consumer.get_watermark_offsets(
                    place, timeout=_left_s(deadline_s)
                )
        yield from _read_records(consumer, starts, ends, deadline_s, frozenset(topics.channels))
    except ServiceError as error:
        raise DumpError(str(error)) from None
    except KafkaException as error:
        raise DumpError(f"Kafka ({kafka}): {error.args[0].str()}") from None
    finally:
        consumer.close()
    for topic, described in found.items():
        partitions = range(len(described.partitions))
        yield Topic(
            t=as_of_us,
            topic=topic,
            topic_id=str(described.topic_id),
            partitions=len(partitions),
            starts=[starts[topic, partition] for partition in partitions],
            ends=[ends[topic, partition] for partition in partitions],
            payload_bytes_max=payload_bytes_max,
        )


def _read_records(
    consumer: RecordConsumer,
    starts: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    deadline_s: float,
    channels: Collection[str],
) -> Iterator[Record]:
    unread = {place for place, end in ends.items() if starts[place] < end}
    consumer.assign([TopicPartition(*place, starts[place]) for place in sorted(unread)])
    while unread:
        for message in consumer.read(min(_POLL_S, _left_s(deadline_s)), _BATCH):
            if isinstance(message, Gap):
                # No record stands there for anybody.
                if message.next >= ends[message.topic, message.partition]:
                    unread.discard((message.topic, message.partition))
                continue
            place = str(message.topic()), int(message.partition() or 0)
            offset = int(message.offset() or 0)
            error = message.error()
            if error is None:
                if offset < ends[place]:
                    yield _record(message, of_channel=place[0] in channels)
                if offset + 1 >= ends[place]:
                    unread.discard(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                # Compaction may have taken the last records: then the end is said, not reached by a record.
                unread.discard(place)
            elif not error.retriable():
                raise KafkaException(error)


def _record(message: Message, *, of_channel: bool) -> Record:
    headers = headers_of(message) or []
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        timestamp=message.timestamp()[1],
        key=_text(message.key()),
        value=_value(message.value(), of_channel=of_channel),
        headers={name: _text(value) or "" for name, value in headers} if of_channel else {},
        removes=_text(next((value for name, value in headers if name == REMOVES_HEADER), None)) or "",
        arrival=_text(arrival_of(headers)),
        raw=not of_channel and says_raw(headers),
    )


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise DumpError("the topics were not read in time (--topics-timeout-s)")
    return left_s


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _value(data: bytes | str | None, *, of_channel: bool) -> Any:
    """Returns its JSON; else a channel's payload as histories have it, and any other value as text.

    If it is larger than any valid record, returns the beginning.
    """
    if data is not None and len(data) > _VALUE_BYTES_MAX:
        data = data[:_SHOWN_BYTES]
    if of_channel:
        return message_payload(data if isinstance(data, bytes) else b"")
    text = _text(data)
    try:
        return None if text is None else said_as_json(text)
    except (ValueError, RecursionError):
        return text


def _silent() -> logging.Logger:
    """Silences librdkafka's own lines, which repeat the one error that is shown."""
    logger = logging.getLogger("coldnotify.dump")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
