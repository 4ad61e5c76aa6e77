"""What Kafka takes of batches that its client cannot read, and that the client has not learnt to read them."""

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.record_batches import Batch
from coldnotify_testkit.unreadable_batches import loud, silent, write
from confluent_kafka import Consumer, KafkaError, TopicPartition

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(("bad", "error"), [(loud(2), KafkaError._BAD_MSG), (silent(2), None)])
def test_kafka_takes_them_and_its_client_reads_no_further(
    fresh_kafka: EmbeddedBroker, bad: Batch, error: int | None
) -> None:
    assert write(fresh_kafka.bootstrap, TOPICS.channels_1d, 1, [bad, Batch()]) == [0, 2]
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPICS.channels_1d, 1, 0)])
    try:
        message = consumer.poll(3)
    finally:
        consumer.close()
    found = None if message is None else message.error()
    assert (found and found.code()) == error
