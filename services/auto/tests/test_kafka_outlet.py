"""Changes of sources are in Kafka, in order, and progress is confirmed behind its acknowledgements.

Stands for: newest_log, outlet_turns, settings, metrics
"""

import json
import socket
from typing import Any

import pytest
from coldnotify.publisher import Publisher
from coldnotify_auto.changes import Put, PutMessage, description_digest, digest
from coldnotify_auto.kafka_outlet import UNACKNOWLEDGED_MAX, KafkaOutlet
from coldnotify_auto.newest_log import of_domain, read_newest
from coldnotify_auto.plan_outlet import shown
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import SourceFailed
from coldnotify_common.stop import StopFlag
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.names import ObjectKey
from confluent_kafka import Consumer, TopicPartition


@pytest.fixture
def stop() -> StopFlag:
    return StopFlag()


def outlet_to(kafka: str, stop: StopFlag) -> KafkaOutlet:
    return KafkaOutlet("s", AutoSettings(kafka=kafka), stop, lambda reason: None)


def key(name: str, domain: str = "d") -> ObjectKey:
    return ObjectKey(domain, "g", name)


def records(kafka: str, topic: str) -> list[tuple[str, Any]]:
    """Key and value of each record of a topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "test", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, one, 0) for one in partitions])
    found, ends = [], 0
    while ends < len(partitions):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            ends += 1
        else:
            found.append(((message.key() or b"").decode(), message.value()))
    consumer.close()
    return found


@pytest.mark.kafka
def test_versions_descriptions_and_messages_are_written(fresh_kafka: EmbeddedBroker, stop: StopFlag) -> None:
    outlet = outlet_to(fresh_kafka.bootstrap, stop)
    outlet.put(Put(key=key("a"), version=7, incarnation=2, payload=b"1", description={"x": 1}, source="auto.s"))
    outlet.put(Put(key=key("a"), version=8, payload=b"2", description={"x": 1}))
    outlet.put(Put(key=key("a"), version=9, deleted=True, description={}))
    outlet.put(PutMessage(domain="d", group="g", channel="c", id="17", payload=b'"m"'))
    outlet.passed(5)
    outlet.flush()
    assert outlet.confirmed() == 5
    outlet.close()
    assert [(one, json.loads(value)) for one, value in records(fresh_kafka.bootstrap, "coldnotify.objects")] == [
        ("describe:d/g/a", {"description": {"x": 1.0}}),
        ("d/g/a", {"version": 7, "incarnation": 2, "payload": 1, "source": "auto.s"}),
        ("d/g/a", {"version": 8, "payload": 2}),
        ("describe:d/g/a", {"description": None}),
        ("d/g/a", {"version": 9, "deleted": True}),
    ]
    assert records(fresh_kafka.bootstrap, "coldnotify.channels.1d") == [("d/g/c", b'"m"')]


@pytest.mark.kafka
def test_a_change_that_no_record_can_contain_is_set_aside(
    fresh_kafka: EmbeddedBroker, stop: StopFlag, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside: list[tuple[str, str]] = []
    outlet = outlet_to(fresh_kafka.bootstrap, stop)
    monkeypatch.setattr(outlet, "set_aside", lambda position, reason: aside.append((position, reason)))
    outlet.put(Put(key=key("a"), version=1, payload=b"x" * 5000))
    outlet.put(Put(key=key("b"), version=1, payload=b"1"))
    outlet.passed(3)
    outlet.flush()
    assert outlet.confirmed() == 3
    outlet.close()
    assert [(position, reason[:8]) for position, reason in aside] == [("d/g/a", "payload:")]
    assert [one for one, _ in records(fresh_kafka.bootstrap, "coldnotify.objects")] == ["d/g/b"]


@pytest.mark.kafka
def test_the_log_tells_the_newest_of_each_object(fresh_kafka: EmbeddedBroker, stop: StopFlag) -> None:
    with Publisher(fresh_kafka.bootstrap) as publisher:
        publisher.publish("d", "g", "a", version=5, payload=5, source="auto.s")
        publisher.publish("d", "g", "a", version=4, payload=4)
        publisher.publish("d", "g", "b", version=9, payload=9)
        publisher.publish("d", "g", "b", version=1, incarnation=3, payload=1)
        publisher.publish("d", "g", "b", version=2, payload=b"\xff")
        publisher.describe("d", "g", "b", {"x": 2})
        publisher.publish("d", "g", "c", version=1, deleted=True)
        publisher.publish("other", "g", "a", version=1)
    found = read_newest(AutoSettings(kafka=fresh_kafka.bootstrap), of_domain(["d"]))
    assert found == {
        key("a"): (0, 5, digest(b"5"), False, "auto.s", b""),
        key("b"): (3, 2, digest(b"\xff"), False, "", description_digest({"x": 2})),
        key("c"): (0, 1, b"", True, "", b""),
    }
    assert len(read_newest(AutoSettings(kafka=fresh_kafka.bootstrap), of_domain([]))) == 4
    outlet = outlet_to(fresh_kafka.bootstrap, stop)
    outlet.put(Put(key=key("n"), version=1))
    assert key("n") in outlet.newest(["d"])
    outlet.close()


@pytest.mark.kafka
def test_nothing_is_confirmed_that_is_not_acknowledged(fresh_kafka: EmbeddedBroker, stop: StopFlag) -> None:
    outlet = outlet_to(fresh_kafka.bootstrap, stop)
    outlet.put(Put(key=key("a"), version=1))
    outlet.flush()
    last = 4 * UNACKNOWLEDGED_MAX
    for version in range(2, last + 1):
        outlet.put(Put(key=key("a"), version=version))
        outlet.passed(version)
        assert len(outlet._pending) <= UNACKNOWLEDGED_MAX
        assert outlet.confirmed() <= version - len(outlet._pending)
    outlet.flush()
    assert outlet.confirmed() == last
    outlet.close()
    found = records(fresh_kafka.bootstrap, "coldnotify.objects")
    versions = [json.loads(value)["version"] for _, value in found]
    assert versions == list(range(1, last + 1))


def test_empty_transactions_leave_one_mark(stop: StopFlag) -> None:
    outlet = outlet_to("127.0.0.1:1", stop)
    for mark in range(1, 1001):
        outlet.passed(mark)
    assert len(outlet._marks) == 1
    assert outlet.confirmed() == 1000
    outlet.close()


def test_a_kafka_that_is_not_there_is_named(stop: StopFlag) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outlet = outlet_to(address, stop)
        with pytest.raises(SourceFailed, match="Kafka"):
            outlet.put(Put(key=key("a"), version=1))
        outlet.close()


def test_payloads_are_shown_as_a_person_reads_them() -> None:
    assert shown('{"a":"\u00e9"}'.encode()) == '{"a": "\u00e9"}'
    assert shown(b"\xff") == r"b'\xff'"
