"""What the usage topic itself holds: `first_from` asks Kafka, and not Faust, which may hand over what comes later."""

from coldnotify_common.kafka import consumer_config
from coldnotify_common.settings import ServiceSettings
from coldnotify_schemas.topics import USAGE
from confluent_kafka import Consumer, KafkaException, TopicPartition

_GROUP = "coldnotify-usage-look"
"""Joined by nobody; a consumer has to have one."""
TIMEOUT_S = 10.0


def first_from(settings: ServiceSettings, partition: int, offset: int) -> int | None:
    """The offset of the first record that a partition has from `offset` on. None: Kafka does not say, or there is none.

    Records of transactions count, whatever has become of these: the job counts them, too.
    """
    try:
        consumer = Consumer(consumer_config(settings, _GROUP, isolation_level="read_uncommitted"))
        try:
            consumer.assign([TopicPartition(USAGE, partition, offset)])
            message = consumer.poll(TIMEOUT_S)
        finally:
            consumer.close()
    except KafkaException:
        return None
    return message.offset() if message is not None and message.error() is None else None
