"""An MQTT member against a broker of testkit: has the filters that it wants, whatever it loses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from coldnotify_checker.histories import (
    Event,
    MqttConnected,
    MqttDisconnected,
    MqttPublish,
    MqttSubscribe,
    MqttTold,
    MqttUnsubscribe,
    read_histories,
)
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.mqtt_member import MqttMember
from coldnotify_testkit.mqtt_double import HOST, MqttDouble
from coldnotify_testkit.waiting import wait_for

NAME = "camera.control/meters/meter-1"
START = {"do": "start", "client": NAME, "protocol": 5, "kept": True, "filters": [{"filter": "state/+", "qos": 1}]}
PUBLISH = {"do": "publish", "topic": "state/door", "retain": True, "qos": 1, "deletes": False, "raw": False}

Kind = TypeVar("Kind", bound=Event)


@pytest.fixture
def broker() -> Iterator[MqttDouble]:
    with MqttDouble() as broker:
        yield broker
        broker.shutdown()


class Lives:
    """One device, process after process."""

    def __init__(self, directory: Path, broker: MqttDouble) -> None:
        self.state, self.broker, self._directory = directory / "state.json", broker, directory
        self.lives = 0
        self.member: MqttMember

    def starts(self, **said: Any) -> "Lives":
        self.lives += 1
        file = self._directory / f"{self.lives}.jsonl"
        self.member = MqttMember(NAME, [f"{HOST}:{self.broker.port}"], self.state, HistoryFile(file))
        return self.does(START | said).does({"do": "connect"})

    def does(self, command: dict[str, Any]) -> "Lives":
        self.member.do(command)
        return self

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Lines of this process."""
        events = read_histories([self._directory / f"{self.lives}.jsonl"])
        return [event for event in events if isinstance(event, kind)]

    def crashes(self) -> None:
        self.member.do({"do": "disconnect"})
        wait_for(lambda: bool(self.of(MqttDisconnected)), "it left")


@pytest.fixture
def lives(tmp_path: Path, broker: MqttDouble) -> Lives:
    return Lives(tmp_path, broker)


def test_it_has_the_filters_that_it_wants(lives: Lives) -> None:
    lives.starts()
    wait_for(lives.state.exists, "its filter is on its disk")
    lives.does({"do": "subscribe", "filter": "mixed", "qos": 1}).does({"do": "unsubscribe", "filter": "state/+"})
    session = lives.broker.sessions
    wait_for(lambda: NAME in session and session[NAME].filters == ["mixed"], "the broker knows what it wants")
    assert lives.of(MqttUnsubscribe)[0].filters == ["state/+"]
    lives.crashes()


@pytest.mark.parametrize("wiped", [False, True])
def test_a_device_with_its_disk_trusts_a_session_that_is_present(lives: Lives, *, wiped: bool) -> None:
    lives.starts()
    wait_for(lives.state.exists, "its filter is on its disk")
    lives.crashes()
    if wiped:
        lives.state.unlink()
    lives.starts()
    wait_for(lambda: bool(lives.of(MqttConnected)), "it is back")
    wait_for(lambda: lives.state.exists(), "its filter is on its disk")
    lives.does(PUBLISH | {"number": 7})
    wait_for(lambda: any(one.payload == {"number": 7} for one in lives.of(MqttTold)), "it is told")
    assert bool(lives.of(MqttSubscribe)) == wiped
    assert lives.of(MqttConnected)[0].present
    lives.crashes()


def test_it_subscribes_again_in_a_session_of_its_own(lives: Lives) -> None:
    lives.starts(protocol=4, kept=False)
    wait_for(lives.state.exists, "its filter is on its disk")
    lives.does({"do": "crash"})
    wait_for(lambda: len(lives.of(MqttSubscribe)) == 2, "the second SUBSCRIBE")
    assert [one.present for one in lives.of(MqttConnected)] == [False, False]
    lives.crashes()


def test_payloads_are_json_bytes_and_deletions(lives: Lives) -> None:
    lives.starts()
    wait_for(lambda: lives.state.exists(), "it is there")
    for number, how in enumerate(({}, {"raw": True}, {"deletes": True})):
        lives.does(PUBLISH | {"number": number} | how)
    wait_for(lambda: len(lives.of(MqttPublish)) == 3, "three publishes")
    assert [one.payload for one in lives.of(MqttPublish)] == [
        {"number": 0},
        {"base64": "/wB7Im51bWJlciI6IDF9"},
        {"base64": ""},
    ]
    lives.crashes()
