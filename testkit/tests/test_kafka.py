import pytest
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.kafka import reset_topics
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()


@pytest.mark.kafka
def test_topics_and_commits_are_gone_after_a_reset(fresh_kafka: EmbeddedBroker) -> None:
    bootstrap = fresh_kafka.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPICS.objects, b"value", b"key", partition=0)
    assert producer.flush(30) == 0
    # None that another test's matcher may have left a member in: Kafka takes commits from its members only, then.
    config = {"bootstrap.servers": bootstrap, "group.id": "coldnotify-of-nobody-else"}
    consumer = Consumer(config)
    partition = TopicPartition(TOPICS.objects, 0, 1)
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


def ids(bootstrap: str) -> dict[str, str]:
    """The id of each of ColdNotify's topics."""
    names = [spec.name for spec in topics.load()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection(names), request_timeout=60)
    return {name: str(answer.result(60).topic_id) for name, answer in described.items()}


@pytest.mark.kafka
def test_only_topics_that_were_written_to_are_made_anew_where_empty_ones_may_stay(fresh_kafka: EmbeddedBroker) -> None:
    bootstrap = fresh_kafka.bootstrap
    before = ids(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPICS.objects, b"value", b"key", partition=7)
    producer.produce(TOPICS.requests, None, b"key", partition=0)
    assert producer.flush(30) == 0

    reset_topics(bootstrap, keep_empty=True)
    after = ids(bootstrap)
    assert {name for name in before if after[name] != before[name]} == {TOPICS.objects, TOPICS.requests}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    assert consumer.get_watermark_offsets(TopicPartition(TOPICS.objects, 7), timeout=30) == (0, 0)
    consumer.close()

    # Of another number of partitions none stays, and without being asked for nothing does.
    reset_topics(bootstrap, partitions=2, keep_empty=True)
    fewer = ids(bootstrap)
    assert fewer[TOPICS.objects] != after[TOPICS.objects]
    reset_topics(bootstrap, partitions=2)
    assert not set(ids(bootstrap).values()) & set(fewer.values())
