"""A consumer is closed when no fetch is under way, and a close that never returns holds nobody up."""

import json
import threading
import time
from typing import Any

import pytest
import structlog
from coldnotify_common.kafka.consumer_close import close_in_time, end_fetches
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Consumer, TopicPartition
from structlog.testing import capture_logs

TOPIC = TopicNames().channels_1d
FETCH_MS = 500
"""Kafka's time to answer a fetch at the end of a partition."""


class Watched:
    """A consumer whose requests that Kafka has not answered are counted."""

    def __init__(self, kafka: str) -> None:
        self._under_way, self._at_us = 0, 0
        config: dict[str, Any] = consumer_config(
            ServiceSettings(kafka=kafka), "watched", enable_partition_eof=True, fetch_wait_max_ms=FETCH_MS
        )
        self.consumer = Consumer({**config, "statistics.interval.ms": 20, "stats_cb": self._on_statistics})

    def _on_statistics(self, text: str) -> None:
        statistics = json.loads(text)
        self._at_us = statistics["ts"]
        self._under_way = sum(one["waitresp_cnt"] + one["outbuf_cnt"] for one in statistics["brokers"].values())

    def under_way(self) -> int:
        """The client takes its statistics by the same clock."""
        now_us = time.monotonic() * 1e6
        wait_for(lambda: self.consumer.poll(0.01) or self._at_us > now_us, "new statistics")
        return self._under_way


@pytest.mark.kafka
def test_fetches_have_ended_before_a_consumer_is_closed(fresh_kafka: EmbeddedBroker) -> None:
    one = Watched(fresh_kafka.bootstrap)
    try:
        one.consumer.assign([TopicPartition(TOPIC, 1, 0)])
        assert wait_for(lambda: one.consumer.poll(0.1), "the end, at which a fetch waits for records")
        end_fetches(one.consumer)
        assert one.under_way() == 0
        assert one.consumer.assignment() == []
    finally:
        one.consumer.close()


@pytest.mark.kafka
def test_a_consumer_without_partitions_or_without_kafka_has_no_fetches(fresh_kafka: EmbeddedBroker) -> None:
    for kafka in (fresh_kafka.bootstrap, "127.0.0.1:1"):
        consumer = Consumer(consumer_config(ServiceSettings(kafka=kafka), "idle"))
        end_fetches(consumer)
        consumer.assign([TopicPartition(TOPIC, 1, 0)])
        end_fetches(consumer)
        assert consumer.assignment() == []
        close_in_time(consumer.close)


def test_a_close_that_never_returns_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.consumer_close.CLOSE_S_MAX", 0.01)
    monkeypatch.setattr("coldnotify_common.kafka.consumer_close._paced", Paced(structlog.get_logger()))
    over = threading.Event()
    with capture_logs() as logged:
        close_in_time(lambda: over.wait(WAIT_S))
    over.set()
    assert [(line["log_level"], "does not close" in line["event"]) for line in logged] == [("warning", True)]
