"""Fixtures of the tests of experiments: their servers use the Kafka that a worker's tests share, one after another."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_loadtest import servers
from coldnotify_loadtest.command import main
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import zygote
from coldnotify_testkit.kafka import delete_topics


class _Lent(EmbeddedBroker):
    """The worker's broker: it runs already, its topics go at the start and at the end. With users it is a real one."""

    config: BrokerConfig
    _lender: Callable[[], EmbeddedBroker]

    def __init__(self, _data_dir: Path, **_options: object) -> None:
        self._broker = self._lender()
        self.config = self._broker.config

    @property
    def pid(self) -> int:
        return self._broker.pid if self._is_lent else super().pid

    @property
    def _is_lent(self) -> bool:
        return "_broker" in vars(self)

    def start(self) -> None:
        if self._is_lent:
            delete_topics(self.bootstrap, TopicNames())
        else:
            super().start()

    def wait_ready(self, timeout: float = servers.READY_S) -> None:
        if not self._is_lent:
            super().wait_ready(timeout)

    def stop(self, timeout: float = servers.READY_S) -> int | None:
        if not self._is_lent:
            return super().stop(timeout)
        delete_topics(self.bootstrap, TopicNames())
        return None


@pytest.fixture(autouse=True)
def _servers_share_a_kafka(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Its broker is started by the first server. Services are forked."""
    broker: Callable[[], EmbeddedBroker] = lambda: request.getfixturevalue("kafka")  # noqa: E731
    monkeypatch.setattr(servers, "EmbeddedBroker", type("Lent", (_Lent,), {"_lender": staticmethod(broker)}))
    monkeypatch.setattr(servers, "spawn", zygote.spawn)


@pytest.fixture
def _a_kafka_for_each_server(_servers_share_a_kafka: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that run at once, or have another number of partitions: members of a group that was served with more
    of them are assigned those for as long as they are in it."""
    monkeypatch.setattr(servers, "EmbeddedBroker", EmbeddedBroker)


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs an experiment quickly, with changed parameters ("cases=matcher"), and gives its result's rows."""

    def run(name: str, *changes: str) -> list[dict[str, Any]]:
        assert main(["--quick", *(f"--set={change}" for change in changes), "--results", str(tmp_path), name]) == 0
        rows: list[dict[str, Any]] = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
        return rows

    return run
