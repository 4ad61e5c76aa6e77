"""What clients publish reaches Kafka as it is, in the order of the calls, and each outcome is told."""

import pytest
from coldnotify_gateway.core import PublishBatch, PublishRecord
from coldnotify_gateway.publication_writer import PublicationWriter
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_bench import WireDouble
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

Told = list[tuple[PublishRecord, int | None, str]]


def publication(number: int) -> PublishRecord:
    return PublishRecord(
        WireDouble(), 1, number, 3, TOPICS.channels_1d, b"d/g/tasks", b"%d" % number, (("id", b"%d" % number),)
    )


def test_nobody_publishes_and_there_is_no_producer() -> None:
    writer = PublicationWriter(GatewaySettings(kafka="127.0.0.1:1"), lambda *_told: None)
    assert writer.stop(1) == 0


def test_without_kafka_it_is_told_that_nothing_is_known_to_be_published() -> None:
    told: Told = []
    writer = PublicationWriter(GatewaySettings(kafka="127.0.0.1:1"), lambda *one: told.append(one), timeout_s=0.3)
    assert writer.write(PublishBatch((publication(1),))) == ((), "")
    wait_for(lambda: told, "it is given up")
    assert told[0][1] is None
    assert "Kafka has not taken it" in told[0][2]
    writer.stop(1)


@pytest.mark.kafka
def test_what_is_published_is_in_the_log(fresh_kafka: EmbeddedBroker) -> None:
    told: Told = []
    writer = PublicationWriter(GatewaySettings(kafka=fresh_kafka.bootstrap), lambda *one: told.append(one))
    for number in range(0, 100, 10):
        batch = PublishBatch(tuple(publication(one) for one in range(number, number + 10)))
        assert writer.write(batch) == ((), "")
    wait_for(lambda: len(told) == 100, "all are told")
    assert writer.stop(10) == 0
    offsets = [offset for _, offset, _ in told]
    assert offsets == sorted(offset for offset in offsets if offset is not None)
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "looks"})
    try:
        consumer.assign([TopicPartition(TOPICS.channels_1d, 3, 0)])
        found = consumer.consume(100, 30)
    finally:
        consumer.close()
    assert [one.value() for one in found] == [b"%d" % number for number in range(100)]
    assert [one.headers() for one in found[:1]] == [[("id", b"0")]]
