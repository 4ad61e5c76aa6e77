"""Where partitions begin and end, of a real Kafka, and of one that is not there."""

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams import log_ends as module
from coldnotify_streams.log_ends import LogEnds, log_ends, log_starts
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import OFFSET_INVALID, Producer, TopicPartition
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
        assert set(by_consumer._leader_epochs.values()) == {0}
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


class AnsweringConsumer:
    """In place of LogEnds' consumer: answers with an end and a leader epoch."""

    def __init__(self, *answers: tuple[int, int | None]) -> None:
        self._answers = iter(answers)

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        end, epoch = next(self._answers)
        return [TopicPartition(asked[0].topic, asked[0].partition, end, leader_epoch=epoch)]

    def close(self) -> None:
        pass


class AnsweringAdmin:
    """In place of an AdminClient: the same answer to each question."""

    def __init__(self, end: int, epoch: int | None) -> None:
        self._answer: Future[SimpleNamespace] = Future()
        self._answer.set_result(SimpleNamespace(offset=end, leader_epoch=epoch))

    def list_offsets(self, asked: dict[TopicPartition, object], **_: object) -> dict[TopicPartition, object]:
        return dict.fromkeys(asked, self._answer)

    def list_topics(self, timeout: float) -> None:
        pass


@pytest.mark.parametrize(("epoch", "end"), [(6, 9), (5, 9), (None, 9), (4, None)])
def test_an_answer_of_a_node_that_was_deposed_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, epoch: int | None, end: int | None
) -> None:
    consumer = AnsweringConsumer((7, 5), (3, 4))
    monkeypatch.setattr(module, "Consumer", lambda _config: consumer)
    ends = LogEnds(ServiceSettings(kafka="nowhere:1"), "ends", cast(AdminClient, AnsweringAdmin(9, epoch)))
    place = ("topic", 0)
    assert ends.uncommitted([place]) == {place: 7}
    if end is None:
        with pytest.raises(KafkaUnavailable):
            ends.uncommitted([place])
    else:
        assert ends.uncommitted([place]) == {place: end}


def test_a_node_that_did_not_answer_has_no_end() -> None:
    admin = AnsweringAdmin(OFFSET_INVALID, None)
    with pytest.raises(KafkaUnavailable, match="where partitions end"):
        log_ends(cast(AdminClient, admin), [("topic", 0)])
