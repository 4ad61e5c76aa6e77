"""A publisher's messages of channels: in their domain's topic, in order; a wrong one names the field."""

import asyncio
import json
import re
import time
from typing import Any, cast

import pytest
from coldnotify.publisher import InvalidName, Publisher, make_message
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

DOMAIN, GROUP = "animal.observer", "region-1"


def test_messages_are_in_their_domains_topic_in_order(fresh_kafka: EmbeddedBroker) -> None:
    with Publisher(fresh_kafka.bootstrap, channel_retentions="lamps=30d,*=1h") as publisher:
        sent = [publisher.send(DOMAIN, GROUP, "tasks", {"n": n}, to=["camera"], id=f"m-{n}") for n in range(3)]
        binary = asyncio.run(publisher.send_async("lamps", GROUP, "tasks", b"\xff", expires_at=9, source="ops"))
    assert [one.offset for one in sent] == [0, 1, 2]
    for topic, where, count in ((TOPICS.channels_1h, sent[0], 3), (TOPICS.channels_30d, binary, 1)):
        consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test"})
        try:
            consumer.assign([TopicPartition(topic, where.partition, 0)])
            found = consumer.consume(count, timeout=60)
        finally:
            consumer.close()
        assert len(found) == count
        headers = parse_message_headers(cast(Any, found[0].headers()))
        if topic == TOPICS.channels_1h:
            assert [json.loads(one.value() or b"") for one in found] == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert (headers.id, headers.to, found[0].key()) == ("m-0", ("camera",), b"animal.observer/region-1/tasks")
            assert abs((headers.time_ms or 0) - time.time() * 1000) < 60_000
        else:
            assert (found[0].value(), headers.id, headers.expires_at, headers.source) == (b"\xff", binary.id, 9, "ops")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"payload": object()}, "payload: cannot"),
        ({"payload": b"x" * 65537}, "payload: has 65537"),
        ({"payload": 1, "id": "x" * 65}, "id: has 65"),
        ({"payload": 1, "id": 5}, "id: 5 is not text"),
        ({"payload": 1, "to": "camera"}, "to: 'camera' is text"),
        ({"payload": 1, "to": [1]}, "to: 1 is not text"),
        ({"payload": 1, "expires_at": 1.5}, "expires_at: 1.5"),
        ({"payload": 1, "expires_at": -1}, "expires_at: -1"),
        ({"payload": 1, "source": "a b"}, "source: 'a b'"),
    ],
)
def test_a_wrong_message_names_the_field(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make_message(**wrong)


def test_wrong_retentions_and_channels_are_named() -> None:
    with pytest.raises(ValueError, match=r"channel_retentions: .*2d"):
        Publisher("127.0.0.1:1", channel_retentions="*=2d")
    with Publisher("127.0.0.1:1", timeout_s=0.1) as publisher, pytest.raises(InvalidName, match="channel"):
        publisher.send(DOMAIN, GROUP, "", 1)
