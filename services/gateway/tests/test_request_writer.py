"""Requests expire, the queue has a bound, what was given up is said, and rounds hold what has come meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from coldnotify_gateway import request_writer
from coldnotify_gateway.core import Produce
from coldnotify_gateway.request_writer import RequestWriter
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.internal_pb2 import Leave, Open, Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TOPICS = TopicNames()

NOWHERE = "127.0.0.1:1"


def leave(session: int) -> Produce:
    return Produce(3, b"d/g/c", Request(format=1, session=session, leave=Leave()))


def test_without_kafka_requests_expire_and_are_told_with_all_that_is_needed_to_write_them_again():
    failed: list[Produce] = []
    settings = GatewaySettings(kafka=NOWHERE, gateway_request_timeout_s=0.3)
    writer = RequestWriter(settings, failed.append, lambda reason: None)
    writer.start()
    assert writer.write(leave(1))
    assert writer.write(leave(2))
    wait_for(lambda: len(failed) == 2, "both are given up")
    assert failed == [leave(1), leave(2)]
    assert writer.stop(1) == 0


def test_a_full_queue_gives_up_at_once_and_stopping_does_not_wait_for_ever():
    settings = GatewaySettings(kafka=NOWHERE, gateway_requests_queued_max=2)
    writer = RequestWriter(settings, lambda produce: None, lambda reason: None)
    writer.start()
    assert [writer.write(leave(i)) for i in range(3)] == [True, True, False]
    assert writer.stop(0.1) == 2


class FailedProducer:
    """A producer that has failed for good, as confluent-kafka says it: where it is polled."""

    def __init__(self) -> None:
        self.polls = 0

    def __len__(self) -> int:
        return 0

    def list_topics(self, timeout: float) -> None:
        pass

    def poll(self, _timeout_s: float) -> int:
        self.polls += 1
        if self.polls == 1:
            raise KafkaException(
                KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "somebody writes as us", fatal=True)
            )
        return 0

    def flush(self, _timeout_s: float) -> int:
        return 0


def test_a_producer_that_fails_for_good_where_it_is_polled_ends_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    fatal: list[str] = []
    producer = FailedProducer()
    writer = RequestWriter(GatewaySettings(kafka=NOWHERE), lambda produce: None, fatal.append)
    monkeypatch.setattr(writer, "_producer", producer)
    writer.start()
    wait_for(lambda: producer.polls > 1, "it goes on")
    assert fatal == ["somebody writes as us"]
    assert writer.stop(1) == 0


@pytest.mark.kafka
def test_what_is_gathered_for_many_partitions_is_all_written_in_order(fresh_kafka: EmbeddedBroker):
    writer = RequestWriter(GatewaySettings(kafka=fresh_kafka.bootstrap), lambda produce: None, lambda reason: None)
    writer.start()
    for session in range(1, 2001):
        assert writer.write(Produce(session % 8, b"k", Request(format=1, session=session, leave=Leave())))
    assert writer.stop(60) == 0
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "few-batches"})
    try:
        consumer.assign([TopicPartition(TOPICS.requests, partition, 0) for partition in range(8)])
        messages = consumer.consume(2000, 60)
    finally:
        consumer.close()
    by_partition: dict[int | None, list[int]] = {}
    for message in messages:
        by_partition.setdefault(message.partition(), []).append(Request.FromString(message.value() or b"").session)
    assert by_partition == {partition: list(range(partition or 8, 2001, 8)) for partition in range(8)}


@pytest.mark.kafka
def test_order_in_a_partition_is_the_order_of_calls(fresh_kafka: EmbeddedBroker):
    broken = threading.Event()
    writer = RequestWriter(
        GatewaySettings(kafka=fresh_kafka.bootstrap), lambda produce: broken.set(), lambda reason: broken.set()
    )
    writer.start()
    for i in range(1, 501):
        assert writer.write(leave(i))
    assert writer.stop(30) == 0
    assert not broken.is_set()
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(TOPICS.requests, 3, 0)])
        messages = consumer.consume(500, 60)
        assert [Request.FromString(message.value() or b"").session for message in messages] == list(range(1, 501))
        assert {message.key() for message in messages} == {b"d/g/c"}
    finally:
        consumer.close()


class KafkaDouble:
    """A producer whose Kafka answers when a test says so."""

    def __init__(self, _config: dict[str, Any]) -> None:
        self.taken: list[int] = []
        """The sessions of the requests that it was handed, in order."""
        self.unanswered = 0
        self._answered = threading.Event()

    def produce(self, _topic: str, value: bytes, _key: bytes, _partition: int) -> None:
        self.unanswered += 1
        self.taken.append(Request.FromString(value).session)

    def answer(self) -> None:
        self.unanswered = 0
        self._answered.set()

    def poll(self, timeout_s: float) -> int:
        answered = self._answered.wait(timeout_s)
        self._answered.clear()
        return int(answered)

    def flush(self, _timeout_s: float) -> int:
        return self.unanswered

    def purge(self) -> None:
        self.unanswered = 0

    def list_topics(self, timeout: float) -> None:
        pass

    def __len__(self) -> int:
        return self.unanswered


@contextmanager
def over_a_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Callable[[Produce], bool], KafkaDouble]]:
    kafka: list[KafkaDouble] = []

    def producer(config: dict[str, Any]) -> KafkaDouble:
        kafka.append(KafkaDouble(config))
        return kafka[0]

    monkeypatch.setattr(request_writer, "Producer", producer)
    writer = RequestWriter(GatewaySettings(), lambda produce: None, lambda reason: None)
    writer.start()
    try:
        yield writer.write, kafka[0]
    finally:
        writer.stop(0)


def opens(session: int, partition: int = 3) -> Produce:
    return Produce(partition, b"d/g/c", Request(format=1, session=session, open=Open()))


def test_a_request_that_comes_alone_does_not_wait_and_the_next_ones_wait_for_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with over_a_double(monkeypatch) as (write, kafka):
        write(opens(1))
        assert kafka.taken == [1]
        write(opens(2))
        write(opens(3))
        assert kafka.taken == [1]
        kafka.answer()
        wait_for(lambda: kafka.taken == [1, 2, 3], "those that came meanwhile, together")


def test_behind_a_round_there_is_a_rest_however_soon_kafka_answered_and_what_comes_in_it_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_writer, "_REST_S", 3600.0)
    with over_a_double(monkeypatch) as (write, kafka):
        write(opens(1))
        kafka.answer()
        wait_for(lambda: writer_of(write)._resting, "the rest")
        write(opens(2))
        assert kafka.taken == [1]


def test_what_had_no_room_in_a_round_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with over_a_double(monkeypatch) as (write, kafka):
        write(opens(0, partition=0))
        for partition in range(1, 8):
            write(opens(partition, partition))
        kafka.answer()
        wait_for(lambda: len(kafka.taken) == 5, "a round of four partitions")
        # The rest behind the first round is over. The one behind this one would take an hour.
        monkeypatch.setattr(request_writer, "_REST_S", 3600.0)
        kafka.answer()
        wait_for(lambda: len(kafka.taken) == 8, "the other three")


def writer_of(write: Callable[[Produce], bool]) -> Any:
    return write.__self__  # type: ignore[attr-defined]


def test_a_leave_waits_for_company_and_goes_before_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_writer, "_POLL_S", 3600.0)
    with over_a_double(monkeypatch) as (write, kafka):
        write(leave(1))
        assert kafka.taken == []
        write(opens(2))
        assert kafka.taken == [1, 2]


def test_a_leave_that_nobody_joins_goes_when_the_thread_looks_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with over_a_double(monkeypatch) as (write, kafka):
        write(leave(1))
        wait_for(lambda: kafka.taken == [1], "it is written alone")
