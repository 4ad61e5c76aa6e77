"""Headers that cannot be read have one defined result, every time, and no exception surfaces anywhere behind it."""

import pytest
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.record_batches import Batch, BatchRecord, Header
from coldnotify_testkit.unreadable_batches import write
from coldnotify_testkit.waiting import WAIT_S
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

RECORDS = 900
FINE: list[Header] = [(b"fine", b"x"), (b"null", None)]


def test_names_that_are_no_utf_8_are_told_from_all_else_each_time(fresh_kafka: EmbeddedBroker) -> None:
    kinds: list[list[Header]] = [[(b"\xff", b"x")], [], [(b"a", b"b"), (b"\xff\xfe", None), (b"c", b"d")], FINE]
    records = [BatchRecord(headers=kinds[number % len(kinds)]) for number in range(RECORDS)]
    write(fresh_kafka.bootstrap, TOPICS.objects, 0, [Batch(records)])
    consumer = Consumer(consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "headers"))
    consumer.assign([TopicPartition(TOPICS.objects, 0, 0)])
    try:
        messages = consumer.consume(RECORDS, WAIT_S)
        found = [headers_of(message) for message in messages]
    finally:
        consumer.close()
    expected = [None, [], None, [("fine", b"x"), ("null", None)]]
    assert found == [expected[number % len(kinds)] for number in range(RECORDS)]
