"""`coldnotify send`: what it prints, what is in Kafka, what is wrong use."""

import json
from pathlib import Path
from typing import Any

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

ABOUT = ("animal.observer", "region-1", "tasks")


@pytest.mark.kafka
def test_a_message_is_where_it_says(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka = ("--kafka", fresh_kafka.bootstrap)
    first = coldnotify(
        "send", *ABOUT, "--payload", '{"look": "north"}', "--to", "camera", "--to", "solar", "--priority", "high",
        "--json", *kafka,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    sent = json.loads(first.stdout)
    file = tmp_path / "message"
    file.write_bytes(b"\xff\x00")
    second = coldnotify("send", *ABOUT, "--payload-file", str(file), "--id", "mine", *kafka)
    assert second.stdout == f"partition {sent['partition']}  offset {sent['offset'] + 1}  id mine\n"
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(TOPICS.channels_1d, sent["partition"], sent["offset"])])
        found = consumer.consume(2, timeout=60)
    finally:
        consumer.close()
    assert [one.value() for one in found] == [b'{"look":"north"}', b"\xff\x00"]
    said: Any = found[0].headers()
    headers = parse_message_headers(said)
    assert (headers.to, headers.id, headers.high_priority) == (("camera", "solar"), sent["id"], True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--payload", "{"], 2, "--payload: is not JSON"),
        (["--payload", "1", "--payload-file", "/dev/null"], 2, "cannot be combined"),
        (["--payload", "1", "--id", "x" * 65], 2, "id: has 65 bytes"),
        (["--payload", "1", "--to", "a b"], 2, "to: 'a b'"),
        (["--payload", "1", "--priority", "low"], 2, "--priority"),
        (["--payload", "1", "--channel-retentions", "*=2d"], 2, "unknown retention '2d'"),
    ],
)
def test_wrong_use_names_what_is_wrong(arguments: list[str], code: int, words: str) -> None:
    run = coldnotify("send", *ABOUT, *arguments, "--kafka", "127.0.0.1:1", "--publish-timeout-s", "0.5")
    assert run.returncode == code, run.stderr
    assert words in run.stderr
