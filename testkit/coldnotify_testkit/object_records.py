"""For tests: the records of the objects topic, as whoever reads it finds them."""

import json
import time
from typing import Any

from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Consumer, KafkaException, TopicPartition

TOPICS = TopicNames()


def written(bootstrap: str) -> list[dict[str, Any]]:
    """Every record that it has now, by partition and offset: key, value, partition, offset, timestamp in ms."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(TOPICS.objects, timeout=60).topics[TOPICS.objects].partitions
        ends = {p: _end_offset(consumer, p) for p in partitions}
        consumer.assign([TopicPartition(TOPICS.objects, p, 0) for p in partitions])
        records: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + 60
        while len(records) < sum(ends.values()):
            assert time.monotonic() < deadline_s
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None
                records.append(
                    {
                        "key": (message.key() or b"").decode(),
                        "value": json.loads(message.value() or b"null"),
                        "partition": message.partition(),
                        "offset": message.offset(),
                        "timestamp": message.timestamp()[1],
                    }
                )
        return sorted(records, key=lambda record: (record["partition"], record["offset"]))
    finally:
        consumer.close()


def _end_offset(consumer: Consumer, partition: int) -> int:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(TOPICS.objects, partition), timeout=60)[1]
        except KafkaException:  # a partition that was made just now may have no leader yet
            assert time.monotonic() < deadline_s
