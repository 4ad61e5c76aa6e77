"""Agreements and history in a real Kafka: what is written is read, damaged records beside them are told."""

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicMissing
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.tenant_store import read_history, read_tenants, remove_tenant, write_tenant
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.tenant_usage import HistoryKey, TenantCounters, encode_counters, history_key
from coldnotify_schemas.tenants import Agreement, Tenant
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.unreadable_batches import loud, silent, write
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

LIMIT_S = 60


@pytest.mark.kafka
def test_what_is_written_is_read(fresh_kafka: EmbeddedBroker) -> None:
    settings = ServiceSettings(kafka=fresh_kafka.bootstrap)
    assert len(read_tenants(settings, LIMIT_S).table) == 0
    acme = Tenant("acme", ("a",), Agreement(in_per_s=5), "user-7")
    write_tenant(settings, Tenant("acme", ("b",)), LIMIT_S)
    write_tenant(settings, acme, LIMIT_S)
    write_tenant(settings, Tenant("gone", ("c",)), LIMIT_S)
    remove_tenant(settings, "gone", LIMIT_S)
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
    producer.produce(TOPICS.tenants, b"{", b"broken")
    producer.flush(LIMIT_S)
    found = read_tenants(settings, LIMIT_S)
    assert found.table.all() == [acme]
    assert list(found.damaged) == ["broken"]
    remove_tenant(settings, "broken", LIMIT_S)
    assert read_tenants(settings, LIMIT_S).damaged == {}


@pytest.mark.kafka
def test_what_nobody_can_read_is_told_and_hides_nothing(fresh_kafka: EmbeddedBroker) -> None:
    settings = ServiceSettings(kafka=fresh_kafka.bootstrap)
    write(fresh_kafka.bootstrap, TOPICS.tenants, 0, [silent(), loud()])
    acme = Tenant("acme", ("a",))
    write_tenant(settings, acme, LIMIT_S)
    write(fresh_kafka.bootstrap, TOPICS.tenants, 0, [loud()])
    found = read_tenants(settings, LIMIT_S)
    assert found.table.all() == [acme]
    assert list(found.damaged) == ["@0", "@3"]


@pytest.mark.kafka
def test_the_history_is_that_of_the_tenant_and_since_then(fresh_kafka: EmbeddedBroker) -> None:
    settings, now_s = ServiceSettings(kafka=fresh_kafka.bootstrap), 1_795_384_273.0
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})

    def write(key: str, at_s: float, publishes: int) -> None:
        value = encode_counters(TenantCounters(publishes=publishes))
        producer.produce(TOPICS.usage_history, value, key.encode(), timestamp=int(at_s * 1000))

    for hours_ago in (48, 2, 1):
        at_s = now_s - hours_ago * 3600
        write(history_key("acme", "hour", at_s), at_s, 0)
        write(history_key("acme", "hour", at_s), at_s, hours_ago)
        write(history_key("acme", "day", at_s), at_s, 100)
        write(history_key("acm", "hour", at_s), at_s, 100)
    write("usage:acme:hour:nonsense", now_s, 1)
    assert producer.flush(LIMIT_S) == 0
    assert read_history(settings, "acme", "hour", now_s - 24 * 3600, LIMIT_S) == [
        (HistoryKey("acme", "hour", "2026-11-22T19"), TenantCounters(publishes=2)),
        (HistoryKey("acme", "hour", "2026-11-22T20"), TenantCounters(publishes=1)),
    ]
    assert read_history(settings, "acme", "hour", now_s + 3600, LIMIT_S) == []


@pytest.mark.kafka
def test_a_topic_that_is_missing_is_told(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    admin.delete_topics([TOPICS.tenants])[TOPICS.tenants].result(LIMIT_S)
    wait_for(lambda: TOPICS.tenants not in admin.list_topics(timeout=LIMIT_S).topics, "the topic is gone")
    settings = ServiceSettings(kafka=fresh_kafka.bootstrap)
    with pytest.raises(TopicMissing, match=r"coldnotify\.tenants does not exist: run"):
        read_tenants(settings, LIMIT_S)


def test_a_kafka_that_is_not_there_is_told_within_the_limit() -> None:
    settings = ServiceSettings(kafka="127.0.0.1:1")
    with pytest.raises(KafkaUnavailable):
        read_tenants(settings, 0.5)
    with pytest.raises(KafkaUnavailable):
        write_tenant(settings, Tenant("acme", ("a",)), 0.5)
