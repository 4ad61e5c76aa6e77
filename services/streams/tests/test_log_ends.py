"""Where partitions begin and end, of a real Kafka, and of one that is not there."""

import time

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams import log_ends as module
from coldnotify_streams.log_ends import LogEnds, log_ends, log_starts
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()


@pytest.mark.kafka
def test_log_ends_returns_where_partitions_begin_and_end(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
    for _ in range(5):
        producer.produce(TOPICS.requests, b"x", partition=1)
    assert producer.flush(60) == 0
    for answer in admin.delete_records([TopicPartition(TOPICS.requests, 1, 2)]).values():
        answer.result(60)
    both = [(TOPICS.requests, 1), (TOPICS.objects, 0)]

    assert log_starts(admin, both) == {both[0]: 2, both[1]: 0}
    assert log_ends(admin, both) == {both[0]: 5, both[1]: 0}


@pytest.mark.kafka
def test_records_of_an_open_transaction_are_not_below_the_end(fresh_kafka: EmbeddedBroker) -> None:
    where = (TOPICS.objects, 3)
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    plain = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
    in_transaction = Producer({"bootstrap.servers": fresh_kafka.bootstrap, "transactional.id": "a-back-end"})
    in_transaction.init_transactions(60)
    plain.produce(TOPICS.objects, b"x", b"key", partition=3)
    assert plain.flush(60) == 0
    in_transaction.begin_transaction()
    in_transaction.produce(TOPICS.objects, b"x", b"key", partition=3)
    assert in_transaction.flush(60) == 0
    plain.produce(TOPICS.objects, b"x", b"key", partition=3)
    assert plain.flush(60) == 0

    assert log_ends(admin, [where]) == {where: 1}
    assert log_ends(admin, [where], uncommitted=True) == {where: 3}
    by_consumer = LogEnds(ServiceSettings(kafka=fresh_kafka.bootstrap), "ends", admin)
    try:
        assert by_consumer.uncommitted([where, (TOPICS.objects, 4)]) == {where: 3, (TOPICS.objects, 4): 0}
    finally:
        by_consumer.close()
    in_transaction.commit_transaction(60)
    wait_for(lambda: log_ends(admin, [where]) == {where: 4}, "its end, behind the record that says it is committed")


@pytest.mark.kafka
def test_at_times_returns_the_first_offset_of_a_time_or_later(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = (TOPICS.objects, 3)
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
    began_ms = int(time.time() * 1000) - 60_000
    for second in range(5):
        producer.produce(TOPICS.objects, b"x", b"key", partition=3, timestamp=began_ms + 1000 * second)
    assert producer.flush(60) == 0
    asked = [(where, began_ms + 1500), (where, 0), (where, began_ms + 5000), ((TOPICS.objects, 4), began_ms)]
    by_consumer = LogEnds(ServiceSettings(kafka=fresh_kafka.bootstrap), "ends", admin)
    try:
        assert by_consumer.at_times(asked) == [2, 0, 5, 0]
        monkeypatch.setattr(module, "_QUICK_S", 0.0)  # the consumer gives no answer: the admin client is asked
        assert by_consumer.at_times(asked) == [2, 0, 5, 0]
    finally:
        by_consumer.close()


@pytest.mark.kafka
def test_a_missing_topic_is_reported(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})

    with pytest.raises(KafkaUnavailable, match="where partitions"):
        log_ends(admin, [("coldnotify.nothing", 0)])
    by_consumer = LogEnds(ServiceSettings(kafka=fresh_kafka.bootstrap), "ends", admin)
    try:
        with pytest.raises(KafkaUnavailable, match="where partitions"):
            by_consumer.uncommitted([("coldnotify.nothing", 0), (TOPICS.objects, 0)])
    finally:
        by_consumer.close()


def test_log_ends_fails_in_time_without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1.0)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0})
    started_s = time.monotonic()

    with pytest.raises(KafkaUnavailable, match="where partitions"):
        log_ends(admin, [(TOPICS.objects, 0)])

    assert time.monotonic() - started_s < 30
