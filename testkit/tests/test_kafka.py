import pytest
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import OBJECTS
from coldnotify_testkit.kafka import reset_topics
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient


@pytest.mark.kafka
def test_topics_and_commits_are_gone_after_a_reset(fresh_kafka: EmbeddedBroker) -> None:
    bootstrap = fresh_kafka.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(OBJECTS, b"value", b"key", partition=0)
    assert producer.flush(30) == 0
    config = {"bootstrap.servers": bootstrap, "group.id": "coldnotify-matcher"}
    consumer = Consumer(config)
    partition = TopicPartition(OBJECTS, 0, 1)
    consumer.commit(offsets=[partition], asynchronous=False)
    assert consumer.get_watermark_offsets(partition, timeout=30) == (0, 1)
    consumer.close()

    reset_topics(bootstrap, partitions=2)

    fresh = Consumer(config)
    assert fresh.get_watermark_offsets(partition, timeout=30) == (0, 0)
    assert fresh.committed([partition], timeout=30)[0].offset < 0
    fresh.close()
    plan = topic_plan.plan(AdminClient({"bootstrap.servers": bootstrap}), topics.load(partitions=2))
    assert str(plan) == "nothing to change"
