"""Looks into the usage topic itself: `first_from` asks Kafka, and not Faust, which may skip records."""

import time

from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import KafkaException, TopicPartition

_GROUP = "usage-look"
"""Joined by nobody; a consumer has to have one."""
TIMEOUT_S = 10.0
_POLL_S = 0.2


def first_from(settings: ServiceSettings, partition: int, offset: int) -> int | None:
    """Returns the offset of a partition's first record from `offset` on; None if there is none, or Kafka does not
    answer.

    Records of transactions count, even of aborted ones: the job counts them, too.
    """
    try:
        consumer = RecordConsumer(
            consumer_config(settings, settings.topics.group(_GROUP), isolation_level="read_uncommitted")
        )
        until_s = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(settings.topics.usage, partition, offset)])
            while time.monotonic() < until_s:
                for message in consumer.read(_POLL_S):
                    if not isinstance(message, Gap):
                        return message.offset() if message.error() is None else None
        finally:
            consumer.close()
    except KafkaException:
        pass
    return None
