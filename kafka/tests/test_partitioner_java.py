"""Our partitioner against the real one: the Java client inside Kafka's console producer."""

import subprocess

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, console_tool
from coldnotify_schemas.partitioner import partition_of
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PAIRS = [
    # All four remainders of the key's length by 4, the shortest and the longest names, every kind of character.
    ("a", "b"),
    ("aa", "b"),
    ("aa", "bb"),
    ("aaa", "bb"),
    ("animal.observer", "region-1"),
    ("animal.observer", "region-2"),
    ("animal.observer", "region-3"),
    ("A", "0"),
    ("Z9", "_"),
    ("-", "-"),
    (".", ".."),
    ("d" * 64, "g" * 64),
    ("d" * 64, "g"),
    ("d", "g" * 64),
    ("x_y-z.0", "X_Y-Z.9"),
    ("sea-ice", "north"),
    ("sea-ice", "south"),
    ("reindeer", "tromso"),
    ("weather", "svalbard"),
    ("0", "0"),
]


@pytest.mark.kafka
@pytest.mark.parametrize("partitions", [8, 7])
def test_a_domain_and_group_have_the_partition_of_javas_client(partitions: int, kafka: EmbeddedBroker) -> None:
    topic = f"partitioner.{partitions}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)
    argv = ["--bootstrap-server", kafka.bootstrap, "--topic", topic]
    argv += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    lines = "".join(f"{domain}/{group}|x\n" for domain, group in PAIRS)
    subprocess.run(console_tool("console-producer", argv), input=lines, text=True, timeout=60, check=True)

    found = read_partitions(kafka.bootstrap, topic, partitions)

    assert found == {f"{domain}/{group}": partition_of(domain, group, partitions) for domain, group in PAIRS}


def read_partitions(bootstrap: str, topic: str, partitions: int) -> dict[str, int]:
    """The partition of each key in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[str, int] = {}
    ended = 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, "no answer within 30 s"
        key, partition = message.key(), message.partition()
        if message.error():
            ended += 1
        else:
            assert isinstance(key, bytes)
            assert partition is not None
            found[key.decode()] = partition
    consumer.close()
    return found
