"""Requests expire, the queue has a bound, and what was given up is said."""

import threading

import pytest
from coldnotify_gateway.core import Produce
from coldnotify_gateway.request_writer import RequestWriter
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.internal_pb2 import Leave, Request
from coldnotify_schemas.topics import REQUESTS
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition

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


@pytest.mark.kafka
def test_what_is_gathered_for_many_partitions_is_all_written_in_order(fresh_kafka: EmbeddedBroker):
    writer = RequestWriter(GatewaySettings(kafka=fresh_kafka.bootstrap), lambda produce: None, lambda reason: None)
    writer.start()
    for session in range(1, 2001):
        assert writer.write(Produce(session % 8, b"k", Request(format=1, session=session, leave=Leave())))
    assert writer.stop(60) == 0
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "few-batches"})
    try:
        consumer.assign([TopicPartition(REQUESTS, partition, 0) for partition in range(8)])
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
        consumer.assign([TopicPartition(REQUESTS, 3, 0)])
        messages = consumer.consume(500, 60)
        assert [Request.FromString(message.value() or b"").session for message in messages] == list(range(1, 501))
        assert {message.key() for message in messages} == {b"d/g/c"}
    finally:
        consumer.close()
