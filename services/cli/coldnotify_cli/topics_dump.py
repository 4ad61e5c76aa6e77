"""Reads the topics as they are and writes them as lines of a history."""

import json
import logging
import time
from typing import Any

from coldnotify_checker.histories import HistoryWriter, Record, Topic
from coldnotify_schemas.topics import OBJECTS, REGISTRATIONS, SESSIONS
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

DUMPED = (OBJECTS, REGISTRATIONS, SESSIONS)
_POLL_S = 0.5


class DumpError(Exception):
    """The topics could not be read in full; the message says which and why."""


def dump(kafka: str, writer: HistoryWriter, timeout_s: float) -> dict[str, int]:
    """Writes all records of the topics, each up to where it ends now; how many of each topic. Raises DumpError."""
    deadline_s = time.monotonic() + timeout_s
    config: dict[str, Any] = {
        "bootstrap.servers": kafka,
        "group.id": "coldnotify-dump",  # never committed: the consumer only needs to have one
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "logger": _silent(),
    }
    consumer = Consumer(config)
    try:
        return {topic: _dump_topic(consumer, topic, writer, deadline_s) for topic in DUMPED}
    except KafkaException as error:
        raise DumpError(f"Kafka ({kafka}): {error.args[0].str()}") from None
    finally:
        consumer.close()


def _dump_topic(consumer: Consumer, topic: str, writer: HistoryWriter, deadline_s: float) -> int:
    metadata = consumer.list_topics(topic, timeout=_left_s(topic, deadline_s)).topics[topic]
    if metadata.error is not None or not metadata.partitions:
        raise DumpError(f"topic {topic}: {metadata.error.str() if metadata.error else 'has no partitions'}")
    ends = []
    count = 0
    for number in sorted(metadata.partitions):
        place = TopicPartition(topic, number)
        start, end = consumer.get_watermark_offsets(place, timeout=_left_s(topic, deadline_s))
        ends.append(end)
        if start < end:
            consumer.assign([TopicPartition(topic, number, start)])
            count += _dump_partition(consumer, topic, end, writer, deadline_s)
    writer.write(Topic(topic=topic, partitions=len(ends), ends=ends))
    return count


def _dump_partition(consumer: Consumer, topic: str, end: int, writer: HistoryWriter, deadline_s: float) -> int:
    """What the consumer is assigned to, up to `end`."""
    count = 0
    while True:
        message = consumer.poll(min(_POLL_S, _left_s(topic, deadline_s)))
        if message is None:
            continue
        error = message.error()
        if error is not None:
            # Compaction may have taken the last records: then the end is said, not reached by a record.
            if error.code() == KafkaError._PARTITION_EOF:
                return count
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if offset >= end:
            return count
        _kind, timestamp_ms = message.timestamp()
        key, value = _text(message.key()), _text(message.value())
        writer.write(
            Record(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp=timestamp_ms,
                key=key,
                value=None if value is None else _parsed(value),
            )
        )
        count += 1
        if offset + 1 >= end:
            return count


def _left_s(topic: str, deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise DumpError(f"topic {topic}: was not read in time (--topics-timeout-s)")
    return left_s


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _silent() -> logging.Logger:
    """librdkafka's own lines say the same as the one error that is shown."""
    logger = logging.getLogger("coldnotify.dump")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
