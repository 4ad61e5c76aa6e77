"""What the usage job knows of agreements."""

import pytest
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.tenants import Agreement, Tenant, encode_tenant
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from coldnotify_usage import metrics
from coldnotify_usage.agreements import Agreements
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()


@pytest.fixture
def agreements() -> Agreements:
    return Agreements(ServiceSettings())


def value(**agreed: float) -> bytes:
    return encode_tenant(Tenant("one", ("d",), Agreement(**agreed)))  # type: ignore[arg-type]


def test_the_newest_record_counts(agreements: Agreements) -> None:
    agreements.on_tenant(b"one", value(in_per_s=5))
    agreements.on_tenant(b"one", value(in_per_s=6))
    assert agreements.of("one") == Agreement(in_per_s=6)
    assert agreements.of("two") is None


def test_a_tenant_without_limits_or_without_a_record_is_unlimited(agreements: Agreements) -> None:
    agreements.on_tenant(b"one", value(in_per_s=5))
    agreements.on_tenant(b"one", value(burst_s=4))
    assert agreements.of("one") is None
    agreements.on_tenant(b"one", value(in_per_s=5))
    agreements.on_tenant(b"one", None)
    assert agreements.of("one") is None


@pytest.mark.parametrize(
    ("key", "record"), [(None, b"{}"), (b"one", b""), (b"one", b"\xff"), (b"a b", None), (b"one", b'{"in_per_s":-1}')]
)
def test_damaged_records_are_set_aside(agreements: Agreements, key: bytes | None, record: bytes | None) -> None:
    agreements.on_tenant(b"one", value(in_per_s=5))
    before = metrics.SET_ASIDE.labels("agreement")._value.get()
    agreements.on_tenant(key, record)
    assert metrics.SET_ASIDE.labels("agreement")._value.get() == before + 1
    assert agreements.of("one") == Agreement(in_per_s=5)


def write(kafka: EmbeddedBroker, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(TOPICS.tenants, value, key.encode())
    assert producer.flush(60) == 0


@pytest.mark.kafka
def test_a_recreated_topic_of_agreements_is_read_from_its_beginning(fresh_kafka: EmbeddedBroker) -> None:
    for name in ("one", "two", "three"):
        write(fresh_kafka, name, value(in_per_s=5))
    agreements = Agreements(ServiceSettings(kafka=fresh_kafka.bootstrap))
    agreements.start()
    try:
        wait_for(lambda: agreements.loaded, "the agreements are known")
        assert agreements.of("three") == Agreement(in_per_s=5)
        admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
        admin.delete_topics([TOPICS.tenants])[TOPICS.tenants].result(60)
        wait_for(lambda: TOPICS.tenants not in admin.list_topics(timeout=60).topics, "the topic is gone")
        topic_plan.apply(admin, topics.load(topics.EMBEDDED_PARTITIONS))
        write(fresh_kafka, "two", value(in_per_s=7))
        wait_for(lambda: agreements.of("two") == Agreement(in_per_s=7), "the new topic is known")
        wait_for(lambda: agreements.of("one") is agreements.of("three") is None, "what it does not say counts no more")
    finally:
        agreements.stop()
