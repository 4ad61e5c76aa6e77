"""What waits to be removed, over a real port: it is shown, and confirmed unless clocks are apart."""

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.request import Request

import pytest
from coldnotify_common.clocks import KAFKA, Clocks
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.upkeep.removal_brake import FEW
from coldnotify_matcher.looking.removal_endpoints import routes
from coldnotify_testkit.engine_bench import PARTITION, EngineBench
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.served_routes import served_in_a_thread

AFTER_MS = 180 * 86_400_000


class Matcher:
    """A bench with a port, and clocks that have agreed for two minutes."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.bench = EngineBench(rules=Rules(forgotten_after_ms=AFTER_MS, clocks=self.clocks))
        self.steady_s, self.kafka_ahead_ms = 0.0, 0
        clock = SimpleNamespace(trust=self.clocks)
        partitions = {PARTITION: self.bench.partition}
        worker = SimpleNamespace(partitions=partitions, lock=threading.RLock(), clock=clock)
        self.current: Any = SimpleNamespace(worker=worker)
        self.port = 0

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.steady_s += 1
            self.clocks.look(self.bench.now_ms + self.steady_s * 1000, self.steady_s)
            self.clocks.on_kafka(self.bench.now_ms + self.steady_s * 1000 + self.kafka_ahead_ms, 0)

    def ask(self, method: str = "GET", body: object = None) -> FetchedAnswer:
        data = None if body is None else json.dumps(body).encode()
        return fetch(Request(f"http://127.0.0.1:{self.port}/v1/removals", data, method=method))


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    one = Matcher()
    with served_in_a_thread(routes(one.current)) as port:
        one.port = port
        yield one


def test_what_waits_is_shown_and_goes_once_it_is_confirmed(matcher: Matcher) -> None:
    bench = matcher.bench
    matcher.run(120)
    for session in range(1, FEW + 2):
        bench.opened("a", client=f"client-{session}", session=session)
        bench.leave(client=f"client-{session}", session=session)
    bench.settle()
    for client in bench.engine.state.clients.values():
        client.last_seen_ms -= AFTER_MS
    for _ in range(5):
        bench.tick(1)
    shown = matcher.ask().json()
    assert shown["items"] == [{"partition": PARTITION, "clients_held": FEW + 1, "objects_held": 0}]
    assert 100 < shown["clocks_agree_s"] < 121
    assert shown["clocks_apart"] == []

    matcher.kafka_ahead_ms = 200_000
    matcher.run(3)
    assert matcher.ask().json()["clocks_apart"] == [{"clock": KAFKA, "ahead_ms": 200_000}]
    refused = matcher.ask("PATCH", {"confirmed": True})
    assert (refused.status, KAFKA in refused.json()["error"]) == (409, True)
    matcher.kafka_ahead_ms = 0
    matcher.run(120)

    assert matcher.ask("PATCH", {"confirmed": True}).status == 200
    for _ in range(3):
        bench.tick(1)
    assert not bench.engine.state.clients
    assert matcher.ask().json()["items"] == [{"partition": PARTITION, "clients_held": 0, "objects_held": 0}]


@pytest.mark.parametrize(
    ("body", "words"), [(None, "is not"), ({"confirmed": False}, "is false"), ({"yes": True}, "unknown field")]
)
def test_what_confirms_nothing_is_refused(matcher: Matcher, body: object, words: str) -> None:
    refused = matcher.ask("PATCH", body)
    assert (refused.status, refused.json()["field"]) == (400, "confirmed")
    assert words in refused.json()["error"]


def test_a_matcher_that_begins_anew_says_so(matcher: Matcher) -> None:
    matcher.current.worker = None
    assert matcher.ask().status == 503
    assert matcher.ask("PATCH", {"confirmed": True}).status == 503
