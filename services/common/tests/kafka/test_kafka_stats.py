"""A client's statistics as metrics: from real JSON of librdkafka's form, and from a real client."""

import json
import time

import pytest
from coldnotify_common.kafka.kafka_clients import producer_config
from coldnotify_common.kafka.kafka_stats import STATISTICS, KafkaStatistics
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry, generate_latest

SAID = {
    "name": "rdkafka#consumer-1",
    "msg_cnt": 3,
    "msg_size": 700,
    "tx_bytes": 10,
    "rx_bytes": 20,
    "txmsgs": 1,
    "rxmsgs": 2,
    "brokers": {
        "h:1/bootstrap": {"nodeid": -1, "state": "DOWN", "txerrs": 99},
        "h:1/1": {"nodeid": 1, "state": "UP", "txerrs": 2, "rtt": {"avg": 1500, "p99": 9000}, "throttle": {"avg": 40}},
        "GroupCoordinator": {"nodeid": 1, "state": "DOWN", "txerrs": 1, "rtt": {"avg": 500, "p99": 600}},
    },
    "topics": {
        "objects": {
            "partitions": {
                "0": {"partition": 0, "fetchq_cnt": 5, "app_offset": 90, "hi_offset": 100},
                "1": {"partition": 1, "fetchq_cnt": 0, "app_offset": 50, "hi_offset": 53},
                "2": {"partition": 2, "app_offset": -1001, "hi_offset": -1001},
                "-1": {"partition": -1},
            }
        },
    },
    "cgrp": {"state": "up", "rebalance_cnt": 4},
}


@pytest.fixture
def now_s() -> list[float]:
    return [1000.0]


@pytest.fixture
def statistics(now_s: list[float]) -> KafkaStatistics:
    return KafkaStatistics(lambda: now_s[0])


def text_of(statistics: KafkaStatistics) -> str:
    registry = CollectorRegistry()
    registry.register(statistics)
    return generate_latest(registry).decode()


def test_what_is_told_of_a_client(statistics: KafkaStatistics) -> None:
    statistics.options("reader", "id")["stats_cb"](json.dumps(SAID))
    text = text_of(statistics)
    for line in (
        'connected{kafka_client="reader"} 1.0',
        'waiting_records{kafka_client="reader"} 3.0',
        'waiting_bytes{kafka_client="reader"} 700.0',
        'sent_bytes_total{kafka_client="reader"} 10.0',
        'fetched_records{kafka_client="reader"} 5.0',
        'lag_records{kafka_client="reader",topic="objects"} 13.0',
        'rebalances_total{kafka_client="reader"} 4.0',
        'broker_up{broker="1",kafka_client="reader"} 1.0',
        'broker_send_errors_total{broker="1",kafka_client="reader"} 3.0',
        'broker_round_trip_seconds{broker="1",kafka_client="reader"} 0.0015',
        'broker_throttle_seconds{broker="1",kafka_client="reader"} 0.04',
    ):
        assert f"coldnotify_kafka_{line}\n" in text
    assert 'broker="-1"' not in text


def test_a_client_whose_nodes_are_all_forgotten_is_not_connected(statistics: KafkaStatistics) -> None:
    bootstrap = {"h:1/bootstrap": {"nodeid": -1, "state": "TRY_CONNECT"}}
    statistics.options("lost", "id")["stats_cb"](json.dumps({**SAID, "brokers": bootstrap}))
    assert 'coldnotify_kafka_connected{kafka_client="lost"} 0.0\n' in text_of(statistics)


def test_a_client_that_is_silent_for_long_is_forgotten(statistics: KafkaStatistics, now_s: list[float]) -> None:
    statistics.options("old", "id")["stats_cb"](json.dumps(SAID))
    now_s[0] += 31
    statistics.options("new", "id")["stats_cb"](json.dumps(SAID))
    text = text_of(statistics)
    assert '"old"' not in text
    assert '"new"' in text


@pytest.mark.parametrize("text", ["", "[]", '{"msg_cnt": "many"}', "{"])
def test_what_cannot_be_understood_ends_no_thread(statistics: KafkaStatistics, text: str) -> None:
    statistics.options("odd", "id")["stats_cb"](text)
    assert '"odd"' not in text_of(statistics)


def test_a_real_client_tells() -> None:
    config = producer_config(ServiceSettings(kafka="127.0.0.1:1"), name="test", statistics_interval_ms=50)
    producer = Producer(config)
    deadline_s = time.monotonic() + 60
    while 'waiting_records{kafka_client="test"} 0.0' not in text_of(STATISTICS):
        assert time.monotonic() < deadline_s, "no statistics came"
        producer.poll(0.1)
