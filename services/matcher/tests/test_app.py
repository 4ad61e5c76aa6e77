"""The matcher as a process: it starts without Kafka, waits for it, and stops in time whatever Kafka does."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_testkit.kafka import broker, free_port, reset_topics
from coldnotify_testkit.matcher_process import MatcherProcess, Player
from coldnotify_testkit.waiting import wait_for

STOP_S_MAX = 25
"""About 10 s on a machine that has time."""


def test_without_kafka_it_lives_is_not_ready_and_stops_in_time(tmp_path: Path) -> None:
    with MatcherProcess(f"127.0.0.1:{free_port()}", tmp_path / "log") as process:
        wait_for(lambda: process.get("/healthz")[0] == 200, "the HTTP port")
        status, reason = process.get("/readyz")
        assert status == 503
        assert reason.strip()
        wait_for(lambda: "loading anew" in process.log.read_text(), "its trying again")
        assert process.get("/readyz")[0] == 503

        code, seconds = process.stop_timed()

    assert code == 0
    assert seconds < STOP_S_MAX


def test_a_port_that_is_taken_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with MatcherProcess("127.0.0.1:1", tmp_path / "log", matcher_port=port) as process:
            assert process.process.wait(60) == 1
    assert "COLDNOTIFY_MATCHER_PORT" in process.log.read_text()


@pytest.mark.kafka
def test_sigint_is_a_clean_stop_too(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        process.send(signal.SIGINT)

        assert process.process.wait(60) == 0
    assert "Traceback" not in process.log.read_text()


@pytest.mark.kafka
@pytest.mark.own_broker("kills Kafka")
def test_kafka_is_killed_under_it(tmp_path: Path) -> None:
    with broker() as kafka:
        reset_topics(kafka.bootstrap)
        stops_without_kafka(kafka, tmp_path, lambda: os.kill(kafka.pid, signal.SIGKILL))


@pytest.mark.kafka
@pytest.mark.own_broker("suspends Kafka")
def test_kafka_freezes_under_it(own_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    try:
        stops_without_kafka(own_kafka, tmp_path, lambda: freeze(own_kafka.pid))
    finally:
        thaw(own_kafka.pid)


def stops_without_kafka(kafka: EmbeddedBroker, tmp_path: Path, take_away: Callable[[], object]) -> None:
    player = Player(kafka.bootstrap)
    with MatcherProcess(kafka.bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.open("camera")
        player.wait_opened()
        player.close()
        take_away()
        wait_for(lambda: not process.ready, "its saying that it is not ready")
        assert process.get("/healthz")[0] == 200

        code, seconds = process.stop_timed()
    assert code == 0
    assert seconds < STOP_S_MAX


@pytest.mark.kafka
@pytest.mark.own_broker("suspends Kafka")
def test_kafka_comes_back(own_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    with MatcherProcess(own_kafka.bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        freeze(own_kafka.pid)
        try:
            wait_for(lambda: not process.ready, "its saying that it is not ready")
        finally:
            thaw(own_kafka.pid)
        process.wait_serving()
        player = Player(own_kafka.bootstrap)
        player.open("camera")
        player.wait_opened()
        player.version("camera", 1)
        player.wait_told("camera", 1)
        player.close()
