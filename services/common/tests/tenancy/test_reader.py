"""The reader and the writer of a tenancy, with a real Kafka."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coldnotify_common.kafka.cut_off_nodes import CUT_OFF
from coldnotify_common.kafka.record_consumer import RecordConsumer
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy import reader
from coldnotify_common.tenancy.gate import Admitted, GateRefused
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.tenant_usage import TenantCounters, UsageRecord, parse_usage, usage_partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import unreadable_batches
from coldnotify_testkit.record_batches import Batch, Codec, bomb
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka


@contextmanager
def running(kafka: EmbeddedBroker, kafka_config: str = "") -> Iterator[Tenancy]:
    tenancy = Tenancy(ServiceSettings(kafka=kafka.bootstrap, kafka_config=kafka_config), "http")
    tenancy.start()
    try:
        yield tenancy
    finally:
        tenancy.stop()


def write(kafka: EmbeddedBroker, topic: str, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, key.encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def tenant(*domains: str, **agreed: object) -> bytes:
    return json.dumps({"domains": domains, **agreed}).encode()


def usage(kafka: EmbeddedBroker) -> list[tuple[int, UsageRecord]]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test", "enable.partition.eof": True})
    found, unread = [], set(range(8))
    consumer.assign([TopicPartition(TOPICS.usage, partition, 0) for partition in unread])
    while unread:
        for message in consumer.consume(100, 1):
            if message.error() is not None:
                unread.discard(int(message.partition() or 0))
            else:
                value = message.value()
                assert isinstance(value, bytes)
                found.append((int(message.partition() or 0), parse_usage(value)))
    consumer.close()
    return found


def test_what_stands_in_the_topics_counts_and_what_comes_later(fresh_kafka: EmbeddedBroker) -> None:
    write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", in_per_s=1, burst_s=1))
    write(fresh_kafka, TOPICS.tenants, "damaged", b"{")
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "the tenants are known")
        assert tenancy.admit("a", 1, 1) == Admitted("acme")
        assert isinstance(tenancy.admit("a", 1, 1), GateRefused)
        assert set(tenancy.damaged) == {"damaged"}

        write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", "b", in_per_s=1, burst_s=1))
        wait_for(lambda: tenancy.admit("b", 0, 0) == Admitted("acme"), "the new domain is known")
        now_ms = int(time.time() * 1000)
        verdict = {"at_ms": now_ms, "until_ms": now_ms + 20_000, "shares": {tenancy.counts.node: 1.0}}
        write(fresh_kafka, TOPICS.verdicts, "acme", json.dumps(verdict).encode())
        wait_for(lambda: tenancy.verdict_of("acme") is not None, "the verdict is known")
        write(fresh_kafka, TOPICS.tenants, "acme", None)
        wait_for(lambda: tenancy.admit("b", 0, 0) == Admitted("default"), "the tenant is gone")


@pytest.mark.parametrize("names", [[], ["acme", "other"]], ids=["none", "two"])
def test_they_are_known_before_kafka_has_waited_for_more(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str]
) -> None:
    longer_ms = 2 * int(WAIT_S * 1000)
    monkeypatch.setattr(reader, "_FETCH_WAIT_MS", longer_ms)
    # Kafka's client gives up an answer after this, and takes no longer wait for a fetch.
    (tmp_path / "kafka.options").write_text(f"socket.timeout.ms={longer_ms}\n")
    for name in names:
        write(fresh_kafka, TOPICS.tenants, name, tenant(name))
    with running(fresh_kafka, str(tmp_path / "kafka.options")) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "the tenants are known")
        assert [one.name for one in tenancy.table.all()] == names
        write(fresh_kafka, TOPICS.tenants, "later", tenant("later"))
        wait_for(lambda: len(tenancy.table) == len(names) + 1, "what comes later is not waited for, either")


def test_what_is_counted_is_written_in_the_tenants_partition(fresh_kafka: EmbeddedBroker) -> None:
    write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", in_per_s=1, burst_s=1))
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "the tenants are known")
        tenancy.admit("a", 1, 10)
        tenancy.admit("a", 1, 10)
        wait_for(lambda: tenancy.writer.written >= 1, "usage is written")
        tenancy.admit("other", 2, 20)
        node, boot = tenancy.counts.node, tenancy.counts.boot
    records = usage(fresh_kafka)
    assert {(record.node, record.boot) for _, record in records} == {(node, boot)}
    last = {name: (partition, counters) for partition, one in records for name, counters in one.tenants.items()}
    assert last == {
        "acme": (usage_partition_of("acme", 8), TenantCounters(admitted=1, admitted_bytes=10, refused=1)),
        "default": (usage_partition_of("default", 8), TenantCounters(admitted=2, admitted_bytes=20)),
    }, "also what was counted right before the end"


def test_without_the_topics_nobody_is_limited_until_they_are_there(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    for answer in admin.delete_topics([TOPICS.tenants, TOPICS.verdicts, TOPICS.usage]).values():
        answer.result(60)
    wait_for(lambda: TOPICS.tenants not in admin.list_topics(timeout=60).topics, "the topic is gone")
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "that there is no such topic is known")
        assert tenancy.admit("a", 10**6, 1) == Admitted("default")
        topic_plan.apply(admin, topics.load(topics.EMBEDDED_PARTITIONS))
        write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", in_per_s=1, burst_s=1))
        wait_for(lambda: tenancy.admit("a", 0, 0) == Admitted("acme"), "the tenant is known")
        wait_for(lambda: tenancy.writer.written >= 1, "usage is written")


@pytest.mark.parametrize("others", [["d"], ["d", "e", "f", "g", "h"]], ids=["one_record", "filled_at_once"])
def test_a_topic_that_is_made_anew_is_read_anew(fresh_kafka: EmbeddedBroker, others: list[str]) -> None:
    for name in ("a", "b", "c"):
        write(fresh_kafka, TOPICS.tenants, name, tenant(name))
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: len(tenancy.table) == 3, "the tenants are known")
        admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
        admin.delete_topics([TOPICS.tenants])[TOPICS.tenants].result(60)
        wait_for(lambda: TOPICS.tenants not in admin.list_topics(timeout=60).topics, "the topic is gone")
        topic_plan.apply(admin, topics.load(topics.EMBEDDED_PARTITIONS))
        producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
        for name in others:
            producer.produce(TOPICS.tenants, tenant(name), name.encode())
        assert producer.flush(60) == 0
        wait_for(lambda: sorted(one.name for one in tenancy.table.all()) == others, "the new topic is known")


@pytest.mark.parametrize(
    "bad",
    [unreadable_batches.loud(), unreadable_batches.silent(), bomb(Codec.ZSTD, 80)],
    ids=["an error", "silence", "80 MiB of zeros"],
)
def test_agreements_behind_what_nobody_can_read_count_and_it_is_told(fresh_kafka: EmbeddedBroker, bad: Batch) -> None:
    unreadable_batches.write(fresh_kafka.bootstrap, TOPICS.tenants, 0, [bad])
    write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", in_per_s=1, burst_s=1))
    unreadable_batches.write(fresh_kafka.bootstrap, TOPICS.tenants, 0, [bad])
    unreadable_batches.write(fresh_kafka.bootstrap, TOPICS.verdicts, 0, [bad])
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "the tenants are known")
        assert tenancy.admit("a", 0, 0) == Admitted("acme")
        assert set(tenancy.damaged) == {"@0", "@2"}
        write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", "b", in_per_s=1, burst_s=1))
        wait_for(lambda: tenancy.admit("b", 0, 0) == Admitted("acme"), "what is written later is known")
        now_ms = int(time.time() * 1000)
        verdict = {"at_ms": now_ms, "until_ms": now_ms + 20_000, "shares": {tenancy.counts.node: 1.0}}
        write(fresh_kafka, TOPICS.verdicts, "acme", json.dumps(verdict).encode())
        wait_for(lambda: tenancy.verdict_of("acme"), "a verdict behind it counts")


def test_what_kafkas_client_refuses_once_is_tried_again(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[list[TopicPartition]] = []

    class Refusing(RecordConsumer):
        def incremental_assign(self, partitions: list[TopicPartition]) -> None:
            if not refused:
                refused.append(partitions)
                raise KafkaException(KafkaError(KafkaError._STATE))
            super().incremental_assign(partitions)

    monkeypatch.setattr("coldnotify_common.tenancy.reader.RecordConsumer", Refusing)
    write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", in_per_s=1, burst_s=1))
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.admit("a", 0, 0) == Admitted("acme"), "the tenant is known")
    assert refused


def test_a_node_that_is_cut_off_makes_it_read_on_by_another_consumer(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(fresh_kafka, TOPICS.tenants, "acme", tenant("a"))
    with running(fresh_kafka) as tenancy:
        wait_for(lambda: tenancy.not_ready is None, "the tenants are known")
        monkeypatch.setattr(CUT_OFF, "count", CUT_OFF.count + 1)
        write(fresh_kafka, TOPICS.tenants, "acme", tenant("a", "b"))
        wait_for(lambda: tenancy.admit("b", 0, 0) == Admitted("acme"), "the new domain is known")
