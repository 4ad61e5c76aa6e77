import json
import time

import pytest
from coldnotify_cli.testing import coldnotify
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import OBJECTS
from confluent_kafka import Consumer, TopicPartition


@pytest.mark.kafka
def test_a_publish_prints_where_kafka_has_it(fresh_kafka: EmbeddedBroker) -> None:
    done = coldnotify(
        *("publish", "d", "g", "cams/north", "--version", "7", "--payload", '{"fps": 5}', "--source", "c1"),
        *("--expires-at", "99", "--deleted"),
        kafka=fresh_kafka.bootstrap,
    )
    assert done.returncode == 0, done.stderr
    word_version, version, word_partition, partition, word_offset, offset = done.stdout.split()
    assert (word_version, version, word_partition, word_offset) == ("version", "7", "partition", "offset")
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(OBJECTS, int(partition), int(offset))])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.key() == b"d/g/cams/north"
    assert json.loads(message.value() or b"") == {
        "version": 7,
        "payload": {"fps": 5},
        "source": "c1",
        "expires_at": 99,
        "deleted": True,
    }


@pytest.mark.kafka
def test_without_a_version_it_is_the_time(fresh_kafka: EmbeddedBroker) -> None:
    before_ms = int(time.time() * 1000)
    done = coldnotify("publish", "d", "g", "o", "--json", kafka=fresh_kafka.bootstrap)
    assert before_ms <= json.loads(done.stdout)["version"] <= time.time() * 1000
