"""`coldnotify topics copy` against a real Kafka, without services.

Stands for: copying
"""

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest
from coldnotify_cli import parts_in_kafka
from coldnotify_common.kafka.message_headers import headers_of
from coldnotify_kafka import topic_plan
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_kafka.errors import TopicsRefusedError
from coldnotify_kafka.topics import load
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.kafka import delete_topics
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

pytestmark = pytest.mark.kafka

OLD, NEW = TopicNames("copied."), TopicNames("copy.")
PARTITIONS, NEW_PARTITIONS = 3, 7
GROUPS = [f"g{number}" for number in range(9)]


@pytest.fixture
def bootstrap(kafka: EmbeddedBroker) -> Iterator[str]:
    topic_plan.apply(quiet_admin(kafka.bootstrap), load(PARTITIONS, names=OLD))
    yield kafka.bootstrap
    for names in (OLD, NEW):
        delete_topics(kafka.bootstrap, names)


def arguments(*args: str) -> list[str]:
    prefixes = (f"--topics-prefix={OLD.prefix}", f"--to-prefix={NEW.prefix}", f"--partitions={NEW_PARTITIONS}")
    return ["topics", "copy", *prefixes, *args]


def copy(bootstrap: str, *args: str) -> str:
    done = coldnotify(*arguments(*args), kafka=bootstrap)
    assert done.returncode == 0, done.stderr
    return done.stdout


def begun(bootstrap: str, *args: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "coldnotify_cli.main", *arguments(*args), f"--kafka={bootstrap}"]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Writer:
    """Writes objects and messages of all groups, and remembers what Kafka has acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
        self.objects: dict[bytes, bytes] = {}
        self.messages: dict[bytes, list[bytes]] = defaultdict(list)
        self.refused: list[KafkaError] = []
        self._number = 0

    def write(self, rounds: int) -> None:
        for _ in range(rounds):
            self._number += 1
            for group in GROUPS:
                where = partition_of("d", group, PARTITIONS)
                value = b'{"version":%d}' % self._number
                key = f"d/{group}/o{self._number % 5}".encode()
                self._producer.produce(OLD.objects, value, key, where, on_delivery=self._told)
                key = f"d/{group}/c".encode()
                self._producer.produce(OLD.channels_1d, b"%d" % self._number, key, where, on_delivery=self._told)
            self._producer.poll(0)
        self._producer.flush(30)

    def stray(self, group: str, value: bytes) -> None:
        """Writes one record of each into a wrong partition."""
        where = (partition_of("d", group, PARTITIONS) + 1) % PARTITIONS
        for topic, key in ((OLD.objects, f"d/{group}/stray"), (OLD.channels_1d, f"d/{group}/stray")):
            self._producer.produce(topic, value, key.encode(), where, on_delivery=self._told)
        self._producer.flush(30)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
        elif message.topic() == OLD.objects:
            self.objects[bytes(message.key() or b"")] = bytes(message.value() or b"")
        else:
            self.messages[bytes(message.key() or b"")].append(bytes(message.value() or b""))


def read(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    config = {"bootstrap.servers": bootstrap, "group.id": "reads-copies", "enable.partition.eof": True}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[Message] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found.append(message)
    finally:
        consumer.close()
    return found


def assert_copied(bootstrap: str, writer: Writer) -> None:
    newest: dict[bytes, bytes] = {}
    for message in read(bootstrap, NEW.objects, NEW_PARTITIONS):
        key = bytes(message.key() or b"")
        assert message.partition() == partition_of("d", key.split(b"/")[1].decode(), NEW_PARTITIONS)
        newest[key] = bytes(message.value() or b"")
    assert newest == writer.objects
    messages = defaultdict(list)
    stamps: dict[bytes, list[int]] = defaultdict(list)
    for message in read(bootstrap, NEW.channels_1d, NEW_PARTITIONS):
        messages[bytes(message.key() or b"")].append(bytes(message.value() or b""))
        stamps[bytes(message.key() or b"")].append(message.timestamp()[1])
        assert [name for name, _ in headers_of(message) or []] == ["coldnotify-moved"]
    assert messages == writer.messages
    old: dict[bytes, list[int]] = defaultdict(list)
    for message in read(bootstrap, OLD.channels_1d, PARTITIONS):
        old[bytes(message.key() or b"")].append(message.timestamp()[1])
    assert stamps == old


def test_a_copy_that_is_killed_at_any_time_goes_on_without_loss_or_repeat(bootstrap: str) -> None:
    writer = Writer(bootstrap)
    writer.write(200)
    for _ in range(6):
        run = begun(bootstrap, "--follow")
        stop_s = time.monotonic() + random.uniform(0.8, 4)
        while time.monotonic() < stop_s:
            writer.write(5)
            time.sleep(0.02)
        run.kill()
        run.wait()
    for _ in range(3):
        run = begun(bootstrap, "--switch")
        time.sleep(random.uniform(0.8, 3))
        run.kill()
        run.wait()
    copy(bootstrap, "--switch")
    assert not writer.refused
    writer.write(1)
    assert len(writer.refused) == 2 * len(GROUPS)
    assert {error.code() for error in writer.refused} == {KafkaError.MSG_SIZE_TOO_LARGE}
    assert_copied(bootstrap, writer)
    assert NEW.requests in quiet_admin(bootstrap).list_topics(timeout=30).topics
    assert "restart all services" in copy(bootstrap, "--switch")


@pytest.mark.own_broker("kills Kafka")
def test_a_copy_goes_on_when_kafka_is_back(own_kafka: EmbeddedBroker) -> None:
    topic_plan.apply(quiet_admin(own_kafka.bootstrap), load(PARTITIONS, names=OLD))
    writer = Writer(own_kafka.bootstrap)
    writer.write(20)
    run = begun(own_kafka.bootstrap, "--follow")
    try:
        wait_for(lambda: read(own_kafka.bootstrap, NEW.objects, NEW_PARTITIONS), "something is copied")
        own_kafka.stop()
        time.sleep(random.uniform(0, 12))
        own_kafka.start()
        own_kafka.wait_ready(WAIT_S)
        writer.write(20)

        def all_copied() -> bool:
            assert run.poll() is None, "it goes on"
            return len(read(own_kafka.bootstrap, NEW.channels_1d, NEW_PARTITIONS)) == sum(
                map(len, writer.messages.values())
            )

        wait_for(all_copied, "all is copied")
    finally:
        run.kill()
        run.wait()
    assert_copied(own_kafka.bootstrap, writer)


def test_records_in_wrong_partitions_that_no_matcher_moved_are_copied_last(bootstrap: str) -> None:
    writer = Writer(bootstrap)
    writer.write(3)
    writer.stray("g0", b'{"version":7}')
    copy(bootstrap)
    writer.stray("g1", b'{"version":8}')
    said = json.loads(copy(bootstrap, "--switch", "--json"))
    assert said["complete"]
    assert said["records"] >= 4
    assert_copied(bootstrap, writer)


def test_webhooks_keep_their_records_and_partitions(bootstrap: str) -> None:
    specs = [one for one in parts_in_kafka.topics(PARTITIONS, 1, OLD) if one.name in OLD.of_hooks]
    topic_plan.create_missing(quiet_admin(bootstrap), specs, WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    counts = {one.name: one.partitions for one in specs}
    written = {
        (topic, number, key)
        for topic, count in counts.items()
        for number in range(count)
        for key in (b"d/g%d/h" % number, b"claim")
    }
    for topic, number, key in written:
        producer.produce(topic, b"1", key, number)
    producer.flush(WAIT_S)
    copy(bootstrap, "--switch")
    for topic, new in zip(OLD.of_hooks, NEW.of_hooks, strict=True):
        found = {(topic, one.partition(), one.key()) for one in read(bootstrap, new, counts[topic])}
        assert found == {one for one in written if one[0] == topic}


def test_a_switch_is_taken_back_until_it_ends_and_nobody_else_makes_the_topics(bootstrap: str) -> None:
    writer = Writer(bootstrap)
    writer.write(3)
    copy(bootstrap)
    with pytest.raises(TopicsRefusedError, match=r"channels\.1d.*topics copy --switch"):
        topic_plan.apply(quiet_admin(bootstrap), load(names=NEW), keep=True)
    run = begun(bootstrap, "--switch")

    def shut() -> bool:
        plan = topic_plan.plan(quiet_admin(bootstrap), load(PARTITIONS, names=OLD))
        return any("takes nothing any more" in refusal.why for refusal in plan.refusals)

    wait_for(shut, "the old topics are shut")
    run.kill()
    run.wait()
    if NEW.requests not in quiet_admin(bootstrap).list_topics(timeout=30).topics:
        copy(bootstrap, "--cancel")
        writer.write(3)
        assert not writer.refused
    copy(bootstrap, "--switch")
    assert_copied(bootstrap, writer)
    done = coldnotify(*arguments("--cancel"), kafka=bootstrap)
    assert done.returncode == 1
    assert "services may have written there" in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--follow", "--switch"), "exclude each other"),
        (("--to-prefix=copied.",), "is the prefix of the topics themselves"),
        (("--to-prefix=x",), "--to-prefix: 'x' must end with"),
        (("--topics-prefix=nowhere.",), "topic nowhere.objects does not exist"),
    ],
)
def test_a_wrong_use_is_named(bootstrap: str, args: tuple[str, ...], words: str) -> None:
    done = coldnotify(*arguments(*args), kafka=bootstrap)
    assert done.returncode in (1, 2)
    assert words in done.stderr


def test_a_topic_that_was_made_anew_is_not_gone_on_with(bootstrap: str) -> None:
    Writer(bootstrap).write(3)
    copy(bootstrap)
    admin = quiet_admin(bootstrap)
    admin.delete_topics([OLD.tenants])[OLD.tenants].result(30)
    wait_for(lambda: OLD.tenants not in admin.list_topics(timeout=30).topics, "the topic is gone")
    topic_plan.apply(admin, load(PARTITIONS, names=OLD))
    done = coldnotify(*arguments(), kafka=bootstrap)
    assert done.returncode == 1
    assert f"a topic under {OLD.prefix} was made anew since it was copied: delete the topics" in done.stderr
