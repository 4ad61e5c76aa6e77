"""What tenants have agreed, at a gateway: read from the first publish on, and refused with the reason."""

import json
import time

import pytest
from coldnotify_gateway.publish_limits import PublishAgreements
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.tenant_usage import VERDICT_S, TenantCounters, Verdict, encode_verdict
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()


def test_nobody_publishes_and_nothing_is_read() -> None:
    agreements = PublishAgreements(GatewaySettings(kafka="127.0.0.1:1"))
    agreements.stop()
    assert agreements.tenancy.not_ready is not None


@pytest.mark.kafka
def test_a_tenant_that_publishes_too_much_is_told_when_to_come_back(fresh_kafka: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap})
    producer.produce(TOPICS.tenants, json.dumps({"domains": ["lamps"], "in_per_s": 0.001}), b"lamps")
    assert producer.flush(60) == 0
    agreements = PublishAgreements(GatewaySettings(kafka=fresh_kafka.bootstrap))
    try:
        wait_for(lambda: agreements.ask("lamps", 100) is not None, "the agreement is read, and used up")
        too_much = agreements.ask("lamps", 100)
        assert too_much is not None
        assert too_much.reason.startswith("tenant lamps is above its agreement: in_per_s is 0.001")
        assert too_much.retry_ms > 1000
        assert agreements.ask("others", 100) is None
    finally:
        agreements.stop()


def test_one_object_too_many_is_refused_in_the_words_of_http_and_counted() -> None:
    agreements = PublishAgreements(GatewaySettings(kafka="127.0.0.1:1"))
    try:
        tenancy = agreements.tenancy
        tenancy.on_tenant(b"lamps", json.dumps({"domains": ["lamps"], "objects_max": 2}).encode())
        assert agreements.full("lamps", "a") is None, "how many there are, nobody has said yet"
        now_ms = round(time.time() * 1000)
        verdict = Verdict(at_ms=now_ms, until_ms=now_ms + 1000 * VERDICT_S, gauges=TenantCounters(objects=3))
        tenancy.on_verdict(b"lamps", encode_verdict(verdict))
        words = "tenant lamps is above its agreement: objects_max is 2; there are 3, and object a is none of them"
        assert agreements.full("lamps", "a") == (words, 10_000)
        assert agreements.full("others", "a") is None
        assert not tenancy.refused
        assert agreements.refuse_object("lamps", "a") == (words, 10_000)
        assert tenancy.refused == {("lamps", "objects_max"): 1}
        assert agreements.refuse_object("others", "a") is None
    finally:
        agreements.stop()
