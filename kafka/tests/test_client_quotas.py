"""Quotas of Kafka's own, with a real Kafka: who is above one is slowed down, until it is removed."""

import threading

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.client_quotas import remove_producer_quota, set_producer_quota
from coldnotify_kafka.errors import QuotaNotAppliedError
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient, NewTopic

EVERYBODY = "ANONYMOUS"
"""Whom a Kafka without authentication takes everybody for."""


@pytest.mark.kafka
@pytest.mark.own_broker("sets a quota for everybody")
def test_a_principal_above_its_quota_is_slowed_down_until_the_quota_is_removed(own_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    admin.create_topics([NewTopic("quotas", 1)])["quotas"].result(60)
    throttled = threading.Event()

    def on_throttle(event: ThrottleEvent) -> None:
        throttled.set()

    producer = Producer({"bootstrap.servers": own_kafka.bootstrap, "throttle_cb": on_throttle})

    def is_throttled() -> bool:
        throttled.clear()
        producer.produce("quotas", b"x" * 10_000)
        producer.flush(60)
        producer.poll(0)
        return throttled.is_set()

    assert not is_throttled()
    set_producer_quota(own_kafka.bootstrap, EVERYBODY, 1000)
    try:
        wait_for(is_throttled, "a producer above the quota is throttled")
    finally:
        remove_producer_quota(own_kafka.bootstrap, EVERYBODY)
    wait_for(lambda: not is_throttled(), "the quota is gone")
    remove_producer_quota(own_kafka.bootstrap, EVERYBODY)


@pytest.mark.kafka
def test_the_error_contains_the_output_of_kafkas_tool(kafka: EmbeddedBroker) -> None:
    with pytest.raises(QuotaNotAppliedError, match=r"the quota of user-7: .*nowhere"):
        set_producer_quota(kafka.bootstrap, "user-7", 1000, command_config="/nowhere")
    with pytest.raises(QuotaNotAppliedError, match=r"in 0\.01 s"):
        set_producer_quota(kafka.bootstrap, "user-7", 1000, timeout_s=0.01)
