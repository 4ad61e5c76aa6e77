import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from coldnotify_common.kafka import kafka_clients
from coldnotify_common.kafka.kafka_clients import (
    KafkaUnavailable,
    admin_config,
    ask_twice,
    connect,
    consumer_config,
    describe_topic,
    producer_config,
)
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

SETTINGS = ServiceSettings(kafka="127.0.0.1:1")


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Somebody listens there and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_librdkafka_takes_our_configurations() -> None:
    Consumer(consumer_config(SETTINGS, "lamps", session_timeout_ms=6000)).close()
    producer = Producer(producer_config(SETTINGS, message_timeout_ms=1000, linger_ms=5))
    assert producer.flush(0) == 0
    assert AdminClient(admin_config(SETTINGS)) is not None


def test_what_keeps_the_promises_is_set() -> None:
    producer = producer_config(SETTINGS)
    assert (producer["acks"], producer["enable.idempotence"]) == ("all", True)
    consumer = consumer_config(SETTINGS, "lamps")
    assert (consumer["auto.offset.reset"], consumer["enable.auto.commit"]) == ("error", False)


def test_more_options_come_with_underscores_and_callbacks_keep_theirs() -> None:
    config = consumer_config(SETTINGS, "lamps", session_timeout_ms=7, stats_cb=print)
    assert config["session.timeout.ms"] == 7
    assert config["stats_cb"] is print
    assert producer_config(SETTINGS, on_delivery=print)["on_delivery"] is print


def test_a_kafka_that_does_not_answer_is_told_within_the_limit(silent_address: str) -> None:
    admin = AdminClient(admin_config(ServiceSettings(kafka=silent_address)))
    with pytest.raises(KafkaUnavailable, match=r"coldnotify\.objects"):
        describe_topic(admin, "coldnotify.objects", timeout_s=1)


class StaleAdmin:
    """An AdminClient that asks a dead node until it has looked who there is."""

    def __init__(self) -> None:
        self.looked = False
        self.limits_s: list[float] = []

    def list_topics(self, timeout: float) -> None:
        self.looked = True

    def ask(self, limit_s: float) -> str:
        self.limits_s.append(limit_s)
        if not self.looked:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "answer"


def test_a_kafka_that_is_away_does_not_keep_a_client_from_being_made() -> None:
    connect(Producer(producer_config(SETTINGS)), timeout_s=0.1)
    consumer = Consumer(consumer_config(SETTINGS, "lamps"))
    connect(consumer, timeout_s=0.1)
    consumer.close()


def test_a_question_to_a_dead_node_is_asked_again_after_a_look_within_the_time() -> None:
    admin = StaleAdmin()
    assert ask_twice(cast("AdminClient", admin), admin.ask, 9) == "answer"
    assert admin.limits_s == [3, 3]
    assert ask_twice(cast("AdminClient", admin), admin.ask, 9) == "answer"
    assert len(admin.limits_s) == 3


def test_a_missing_topic_is_not_asked_for_twice() -> None:
    admin = StaleAdmin()

    def ask(_limit_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    with pytest.raises(KafkaException):
        ask_twice(cast("AdminClient", admin), ask, 9)
    assert not admin.looked


def test_an_admin_client_that_is_of_no_use_for_a_while_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    now_s = [100.0]

    def describe(admin: object, _topic: str, _timeout_s: float) -> str:
        asked.append(admin)
        if admin is asked[0]:
            raise KafkaUnavailable("it does not answer")
        return "a description"

    monkeypatch.setattr(kafka_clients, "describe_topic", describe)
    monkeypatch.setattr(kafka_clients, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    looks = kafka_clients.TopicLooks(SETTINGS)
    for _ in range(5):
        with pytest.raises(KafkaUnavailable):
            looks.describe("coldnotify.objects", 1)
        now_s[0] += 5
    assert looks.describe("coldnotify.objects", 1) == "a description"
    assert len(set(map(id, asked))) == 2
