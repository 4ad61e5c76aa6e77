"""The publisher's outbox against a real Kafka: what was accepted while it was away is there once it comes, in order."""

from pathlib import Path
from typing import Any

import pytest
from coldnotify.publisher import Accepted, Publisher, PublishRejected, RejectedRecord, make_message, make_record
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.records import parse_public_record
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.kafka import reset_topics
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

WAIT_S = 120


def read(bootstrap: str, topic: str, count: int) -> list[tuple[bytes, dict[str, Any]]]:
    """Value and headers of the first `count` records of a topic that has one partition in use."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[tuple[bytes, dict[str, Any]]] = []
        while len(found) < count:
            record = consumer.poll(WAIT_S)
            assert record is not None
            assert record.error() is None
            found.append((record.value() or b"", dict(record.headers() or [])))
        assert consumer.poll(1) is None
        return found
    finally:
        consumer.close()


async def test_records_accepted_without_kafka_are_published_once_it_is_reachable(
    tmp_path: Path, fresh_kafka: EmbeddedBroker
):
    async with Publisher("127.0.0.1:1", outbox=tmp_path, timeout_s=0.1) as away:
        first = away.publish("d", "g", "o", payload={"n": 1})
        assert isinstance(first, Accepted)
        ids = [(await away.send_async("d", "g", "c", n, to={"t"})).id for n in range(50)]
        _, third = await away.publish_records_async("d", "g", [("p", make_record(7)), ("o", make_record())])
        await away.send_messages_async("d", "g", [("c", make_message(b"\xff", id="own"))])
        with pytest.raises(ValueError, match=r"^description: "):
            away.publish("d", "g", "o", description={"a": 1})
        assert away.pending()[0] in (53, 54)  # the first one is taken out, if it was not under way
    reset_topics(fresh_kafka.bootstrap)
    with Publisher(fresh_kafka.bootstrap, outbox=tmp_path) as publisher:
        assert publisher.flush(WAIT_S) == 0
        published = publisher.publish("d", "g", "o")
        assert isinstance(published, Accepted)
        done = published.wait(WAIT_S)
        assert (done.version, done.offset) == (published.version, 2)
    assert isinstance(third, Accepted)
    assert third.version > first.version
    objects = [parse_public_record(value).version for value, _ in read(fresh_kafka.bootstrap, TOPICS.objects, 3)]
    assert objects == [7, third.version, done.version]
    messages = read(fresh_kafka.bootstrap, TOPICS.channels_1d, 51)
    said = [parse_message_headers(headers.items()) for _, headers in messages]
    assert [one.id for one in said] == [*ids, "own"]
    assert [value for value, _ in messages] == [*(str(n).encode() for n in range(50)), b"\xff"]
    assert said[0].to == ("t",)


def test_a_record_too_large_for_kafka_is_set_aside_and_blocks_nothing(tmp_path: Path, fresh_kafka: EmbeddedBroker):
    reset_topics(fresh_kafka.bootstrap)
    told: list[RejectedRecord] = []
    config = {"message.max.bytes": 2000}
    kafka = fresh_kafka.bootstrap
    with Publisher(kafka, outbox=tmp_path, kafka_config=config, on_rejected=told.append) as publisher:
        large = publisher.send("d", "g", "c", bytes(5000))
        small = publisher.send("d", "g", "c", b"x")
        with pytest.raises(PublishRejected):
            large.wait(WAIT_S)  # type: ignore[attr-defined]
        assert small.wait(WAIT_S).offset == 0  # type: ignore[attr-defined]
    assert [one.id for one in told] == [large.id]
    assert (tmp_path / "rejected.jsonl").exists()
