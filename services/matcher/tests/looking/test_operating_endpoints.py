"""Operators' requests over a real port, with a log in memory: what is done, refused, and not known to be done."""

import asyncio
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.request import Request

import pytest
from coldnotify_matcher.asked_writes import NotWritten
from coldnotify_matcher.looking.operating_endpoints import OperatingEndpoints
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.step_bell import StepBell
from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY, GROUP, PARTITION, PARTITIONS, PREFIX, EngineBench, closed
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.served_routes import served_in_a_thread

OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)


class Matcher:
    """A bench with a port; `handles`: requests are handled once written; `loses`: the partition is given up then."""

    def __init__(self) -> None:
        self.bench = EngineBench()
        self.handles, self.refuses, self.says_offsets, self.loses = True, False, True, False
        self._lock = threading.RLock()
        partitions = {PARTITION: self.bench.partition}
        self.worker = SimpleNamespace(partitions=partitions, lock=self._lock, bell=StepBell(), admin=None)
        self.current: Any = SimpleNamespace(worker=self.worker)
        self.port = 0

    async def write_request(self, partition: int, key: bytes, value: bytes) -> int:
        await asyncio.sleep(0)
        if self.refuses:
            raise NotWritten("Kafka has not acknowledged the record: no rights")
        request = internal_pb2.Request.FromString(value)
        assert partition == PARTITION
        assert key == f"{request.domain}/{request.group}/{request.client}".encode()
        self.bench.log.requests.append(request)
        offset = len(self.bench.log.requests) - 1
        if self.loses:
            self.bench.partition.phase = OwningPhase.LOADING
        if self.handles:
            self.bench.settle()
            self.worker.bell.ring()
        return offset if self.says_offsets else -1

    def ask(
        self,
        method: str,
        client: str = "client-1",
        body: object = None,
        *,
        query: str = "",
        group: str = GROUP,
        channels: bool = False,
    ) -> FetchedAnswer:
        path = f"/v1/domains/{DOMAIN}/groups/{group}/{'channels' if channels else 'clients'}/{client}{query}"
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return fetch(Request(f"http://127.0.0.1:{self.port}{path}", data, method=method))


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    from aiohttp import web

    one = Matcher()
    pages = OperatingEndpoints(one.current, one, change_s=5)
    group = "/v1/domains/{domain}/groups/{group}"
    path = f"{group}/clients/{{client}}"
    routes = [
        web.patch(path, pages.disconnect),
        web.delete(path, pages.forget),
        web.delete(f"{group}/channels/{{channel}}/shares/{{share}}", pages.forget_share),
    ]
    with served_in_a_thread(routes) as port:
        one.port = port
        yield one


def about(outcome: str, *, online: bool, registered: int) -> dict[str, object]:
    where = {"domain": DOMAIN, "group": GROUP, "client": "client-1"}
    return {**where, "outcome": outcome, "was_online": online, "was_registered": registered}


def test_a_client_is_disconnected_and_then_forgotten(matcher: Matcher) -> None:
    matcher.bench.opened("a", "b")

    answer = matcher.ask("PATCH", body={"online": False}, query="?reason=disk+full")

    assert (answer.status, answer.json()) == (200, about("disconnected", online=True, registered=2))
    (item,) = matcher.bench.told[GATEWAY].take()
    assert item.closed.code == CloseCode.DISCONNECTED
    assert item.closed.reason == "an operator has ended this session: disk full"
    assert matcher.ask("PATCH", body={"online": False}).json() == about("not_connected", online=False, registered=2)

    matcher.bench.open(["a", "b"], session=2)
    matcher.bench.settle()
    matcher.bench.told[GATEWAY].take()
    answer = matcher.ask("DELETE")
    assert (answer.status, answer.json()) == (200, about("forgotten", online=True, registered=2))
    assert closed(matcher.bench.told[GATEWAY].items) == [(2, CloseCode.DISCONNECTED)]
    again = matcher.ask("DELETE")
    assert (again.status, again.json()["error"]) == (404, f"client: {PREFIX}client-1 is not known")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is not"),
        ({"online": True}, "a client connects by itself"),
        ({"online": 0}, "Expected `bool`"),
        ({"online": False, "x": 1}, "unknown field"),
        (b'{"online":\xff}', "is not"),
    ],
)
def test_what_else_is_asked_is_refused_by_its_field(matcher: Matcher, body: object, words: str) -> None:
    matcher.bench.opened("a")
    answer = matcher.ask("PATCH", body=body)
    assert (answer.status, answer.json()["field"]) == (400, "online")
    assert words in answer.json()["error"]


@pytest.mark.parametrize("reason", ["x" * 201, "a%0Ab"])
def test_a_reason_is_short_and_one_line(matcher: Matcher, reason: str) -> None:
    answer = matcher.ask("DELETE", query=f"?reason={reason}")
    assert (answer.status, answer.json()["field"]) == (400, "reason")


def test_whom_it_does_not_serve_it_does_not_touch(matcher: Matcher) -> None:
    answer = matcher.ask("DELETE", group=OTHER_GROUP)
    assert (answer.status, answer.json()["outcome"]) == (503, "not done")
    assert answer.headers["Retry-After"] == "1"
    assert matcher.bench.log.requests == []


def test_what_kafka_does_not_take_or_place_may_be_done(matcher: Matcher) -> None:
    matcher.bench.opened("a")
    matcher.refuses = True
    answer = matcher.ask("DELETE")
    assert (answer.status, answer.json()["outcome"]) == (503, "unknown: it may be done")
    assert "no rights" in answer.json()["error"]
    matcher.refuses, matcher.says_offsets = False, False
    assert matcher.ask("DELETE").json()["outcome"] == "unknown: it may be done"


def test_who_loses_the_partition_meanwhile_says_that_it_may_be_done(matcher: Matcher) -> None:
    matcher.bench.opened("a")
    matcher.handles, matcher.loses = False, True
    answer = matcher.ask("DELETE")
    assert (answer.status, answer.json()["outcome"]) == (503, "unknown: it may be done")
    assert "was given up meanwhile" in answer.json()["error"]


def test_a_share_that_is_not_there_is_not_known(matcher: Matcher) -> None:
    answer = matcher.ask("DELETE", "tasks/shares/workers", channels=True)
    assert (answer.status, answer.json()["error"]) == (404, f"share: {PREFIX}tasks has no share workers")
    assert matcher.bench.log.requests == []
