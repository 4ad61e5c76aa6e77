"""Looks that wait until the partition is read to the end of its log, over a real port."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_matcher.asked_writes import LogEnd
from coldnotify_matcher.looking import find_endpoints
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.step_bell import StepBell
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, EngineBench
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.served_routes import served_in_a_thread

TOPICS = TopicNames()
LIMIT_S = 60


class Matcher:
    """One whose log goes on while it stands still, until `step`."""

    def __init__(self) -> None:
        self.bench = EngineBench()
        lock, partitions = threading.RLock(), {PARTITION: self.bench.partition}
        self.worker = SimpleNamespace(partitions=partitions, lock=lock, bell=StepBell(), admin=None)
        self.current: Any = SimpleNamespace(worker=self.worker)
        self.asked = threading.Event()
        self.on_end: Callable[[], object] = lambda: None
        self.port = 0

    async def end(self, _admin: object, _partition: int) -> LogEnd:
        self.on_end()
        end = LogEnd(self.bench.log.end(TOPICS.objects), self.bench.log.end(TOPICS.sessions))
        self.asked.set()
        return end

    def step(self) -> None:
        with self.worker.lock:
            self.bench.settle()
        self.worker.bell.ring()

    def get(self, path: str) -> FetchedAnswer:
        return fetch(f"http://127.0.0.1:{self.port}/v1/domains/{DOMAIN}/groups/{GROUP}/objects{path}")


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    one = Matcher()
    one.bench.version("o", 1)
    one.bench.settle()
    one.bench.version("o", 2)
    with served_in_a_thread(find_endpoints.routes(one.current, one)) as port:
        one.port = port
        yield one


@pytest.mark.parametrize(
    "path", ["/o?consistent=1", "?consistent=1", "?names=o&consistent=1", "?prefix=o&consistent=1"]
)
def test_a_consistent_look_has_all_that_was_there_before_it(
    matcher: Matcher, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("coldnotify_matcher.looking.reading_up.LOOK_S", LIMIT_S)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(matcher.get, path)
        assert matcher.asked.wait(LIMIT_S)
        assert matcher.get(path.replace("1", "0")).json().get("version", 1) == 1
        assert not answer.done()
        matcher.step()
        shown = answer.result(LIMIT_S).json()
    (one,) = shown.get("items", [shown])
    assert one["version"] == 2


def test_a_look_does_not_wait_for_ever(matcher: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_matcher.looking.reading_up.LOOK_S", 0.05)
    answer = matcher.get("/o?consistent=1")
    assert (answer.status, "is not read to the end of its log" in answer.text) == (503, True)


def test_a_lost_partition_is_not_answered_for(matcher: Matcher) -> None:
    matcher.on_end = matcher.worker.partitions.clear
    answer = matcher.get("/o?consistent=1")
    assert (answer.status, "given up meanwhile" in answer.text) == (503, True)


def test_without_kafka_nobody_can_say(matcher: Matcher) -> None:
    def away() -> None:
        raise KafkaUnavailable("Kafka does not answer")

    matcher.on_end = away
    answer = matcher.get("?consistent=1")
    assert (answer.status, "Kafka does not answer" in answer.text) == (503, True)


def test_a_wrong_word_is_refused(matcher: Matcher) -> None:
    answer = matcher.get("?consistent=yes")
    assert (answer.status, answer.json()["field"]) == (400, "consistent")
