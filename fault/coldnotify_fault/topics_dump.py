"""What the topics hold, read from Kafka as the lines of a history that say so."""

import json
import time
from collections.abc import Iterable
from typing import Any

from coldnotify_checker.histories import Event, Record, Topic
from coldnotify_schemas.topics import OBJECTS, REGISTRATIONS, SESSIONS
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

DUMPED = (OBJECTS, REGISTRATIONS, SESSIONS)
_ASK_S = 10.0
_READ_S = 60.0


def read_topics(kafka: str, topics: Iterable[str] = DUMPED) -> list[Event]:
    """All records that are still there, then what each topic is like. `kafka`: bootstrap servers.

    Raises KafkaException, TimeoutError after a minute.
    """
    topics = list(topics)
    quiet: dict[str, Any] = {"bootstrap.servers": kafka, "log_level": 0, "error_cb": lambda error: None}
    admin = AdminClient(quiet)
    described = admin.describe_topics(TopicCollection(topics), request_timeout=_ASK_S)
    ids = {topic: future.result(2 * _ASK_S) for topic, future in described.items()}
    consumer = Consumer(
        {
            **quiet,
            "group.id": "coldnotify-fault-dump",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    ends = {(topic, partition): 0 for topic, found in ids.items() for partition in range(len(found.partitions))}
    unread = set(ends)
    events: list[Event] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in ends])
        deadline_s = time.monotonic() + _READ_S
        while unread:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"topics not read within {_READ_S:g} s: {sorted(unread)}")
            for message in consumer.consume(500, 1.0):
                place = (str(message.topic()), int(message.partition() or 0))
                if (error := message.error()) is None:
                    events.append(_record(message))
                    ends[place] = int(message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends[place] = max(ends[place], int(message.offset() or 0))
                    unread.discard(place)
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()
    for topic, found in ids.items():
        partitions = len(found.partitions)
        of_topic = [ends[topic, partition] for partition in range(partitions)]
        events.append(Topic(topic=topic, topic_id=str(found.topic_id), partitions=partitions, ends=of_topic))
    return events


def _record(message: Any) -> Record:
    value, key = message.value(), message.key()
    if value is not None:
        try:
            value = json.loads(value)
        except ValueError:
            value = value.decode(errors="replace")
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=message.timestamp()[1],
        key=None if key is None else key.decode(errors="replace"),
        value=value,
    )
