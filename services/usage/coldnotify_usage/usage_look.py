"""What the usage topic itself holds: `first_from` asks Kafka, and not Faust, which may hand over what comes later."""

import time

from coldnotify_common.kafka import consumer_config
from coldnotify_common.record_consumer import Gap, RecordConsumer
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import KafkaException, TopicPartition

_GROUP = "usage-look"
"""Joined by nobody; a consumer has to have one."""
TIMEOUT_S = 10.0
_POLL_S = 0.2


def first_from(settings: ServiceSettings, partition: int, offset: int) -> int | None:
    """The offset of the first record that a partition has from `offset` on. None: Kafka does not say, or there is none.

    Records of transactions count, whatever has become of these: the job counts them, too.
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
