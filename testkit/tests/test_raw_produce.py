"""Batches written by hand are in the log as they are; what the broker refuses has its name; nobody waits for ever."""

import socket
import time
from collections.abc import Iterator

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.raw_produce import NoAnswer, RawProducer, produce
from coldnotify_testkit.record_batches import CONTROL, Batch, BatchRecord, Codec, encoded
from coldnotify_testkit.waiting import WAIT_S
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    yield listener
    listener.close()


@pytest.mark.kafka
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_written_by_hand_is_read_from_the_topic(fresh_kafka: EmbeddedBroker, codec: Codec) -> None:
    now_ms = time.time_ns() // 1_000_000
    records = [BatchRecord(b"a", b"x" * 1_000, [(b"name", b"\xff"), (b"null", None)]), BatchRecord(b"b", None, (), 5)]
    with RawProducer(fresh_kafka.bootstrap) as producer:
        first = producer.produce(TOPICS.objects, 3, encoded(Batch(records, codec, now_ms)))
        second = producer.produce(TOPICS.objects, 3, encoded(Batch(codec=codec, base_timestamp_ms=now_ms)))
    assert (first.written, second.offset) == (True, first.offset + 2), (first, second)
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "by-hand"})
    consumer.assign([TopicPartition(TOPICS.objects, 3, first.offset)])
    read = consumer.consume(3, WAIT_S)
    consumer.close()
    assert [(one.key(), one.value(), one.timestamp()[1] - now_ms) for one in read] == [
        (b"a", b"x" * 1_000, 0),
        (b"b", None, 5),
        (b"key", b"value", 0),
    ]
    assert read[0].headers() == [("name", b"\xff"), ("null", None)]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (Batch(crc=0), "INVALID_MSG"),  # librdkafka's name for CORRUPT_MESSAGE
        (Batch([BatchRecord(key=None)]), "INVALID_RECORD"),
        (Batch(flags=CONTROL), "INVALID_RECORD"),
    ],
)
def test_a_refusal_of_kafka_has_its_name(fresh_kafka: EmbeddedBroker, batch: Batch, name: str) -> None:
    refused = produce(fresh_kafka.bootstrap, TOPICS.sessions, 0, encoded(batch))
    assert (refused.name, refused.written) == (name, False), refused


@pytest.mark.kafka
def test_a_partition_that_is_not_there_has_no_leader(fresh_kafka: EmbeddedBroker) -> None:
    with pytest.raises(NoAnswer, match="no partition 99"):
        produce(fresh_kafka.bootstrap, TOPICS.objects, 99, encoded(Batch()))


def test_a_broker_that_says_nothing_is_waited_for_in_bounds(silent: socket.socket) -> None:
    host, port = silent.getsockname()
    with pytest.raises(NoAnswer, match="timed out"):
        produce(f"{host}:{port}", TOPICS.objects, 0, b"", answer_s=0.05)


def test_a_broker_that_is_away_is_named(silent: socket.socket) -> None:
    host, port = silent.getsockname()
    silent.close()
    with pytest.raises(NoAnswer, match=f"{host}:{port}: .*refused"):
        produce(f"{host}:{port}", TOPICS.objects, 0, b"")
