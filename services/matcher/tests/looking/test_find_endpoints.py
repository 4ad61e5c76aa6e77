"""One-time queries over a real port: what is found, page by page, and what a wrong query is told."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web
from coldnotify_common.settings import ServiceSettings
from coldnotify_matcher.asked_writes import AskedWrites
from coldnotify_matcher.looking import find_endpoints
from coldnotify_matcher.looking.evaluating import in_turn
from coldnotify_matcher.looking.find_endpoints import FindEndpoint
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, PREFIX, EngineBench
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread

TOPICS = TopicNames()

NAMES = [f"lamp/{number:04}" for number in range(2500)]


class Matcher:
    def __init__(self) -> None:
        self.bench = EngineBench()
        self.worker = SimpleNamespace(partitions={PARTITION: self.bench.partition}, lock=threading.RLock())
        self.current: Any = SimpleNamespace(worker=self.worker)
        self.found = FindEndpoint(self.current)
        self.port = 0

    def describe(self, object_: str, description: object) -> None:
        value = json.dumps({"description": description}).encode()
        self.bench.log.append(TOPICS.objects, f"describe:{PREFIX}{object_}".encode(), value, timestamp_ms=1)

    def get(self, group: str = GROUP, **query: object) -> tuple[int, Any]:
        path = f"/v1/domains/{DOMAIN}/groups/{group}/objects?{urlencode(query)}"
        answer = fetch(f"http://127.0.0.1:{self.port}{path}")
        return answer.status, answer.json()

    def names(self, query: str) -> list[str]:
        status, body = self.get(query=query, limit=1000)
        assert (status, body["next"]) == (200, None), body
        return [one["object"] for one in body["items"]]


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    one = Matcher()
    with served_in_a_thread(find_endpoints.routes(one.current, AskedWrites(ServiceSettings()))) as port:
        one.port = port
        yield one


def test_a_groups_objects_are_those_published_or_described_and_not_deleted(matcher: Matcher) -> None:
    bench = matcher.bench
    bench.version("published", 7)
    matcher.describe("described", {"Room": 410})
    matcher.describe("both", {"Room": 410, "Kind": "lamp"})
    bench.version("both", 3)
    matcher.describe("deleted", {"Room": 410})
    bench.publish("deleted", b'{"version":2,"deleted":true}')
    matcher.describe("no more", {"Room": 410})
    matcher.describe("no more", None)
    bench.opened("only registered")
    bench.settle()
    for _ in range(2):
        assert matcher.names("has Room or not has Room") == ["both", "described", "published"]
        assert matcher.get(query="Room = 410")[1]["items"] == [
            {"object": "both", "version": 3, "description": {"Kind": "lamp", "Room": 410}},
            {"object": "described", "version": None, "description": {"Room": 410}},
        ]
        assert matcher.get(query="not has Room")[1]["items"] == [
            {"object": "published", "version": 7, "description": None}
        ]
        bench.load()  # of a loaded object only the record is kept, and a look makes nothing of it
        matcher.worker.partitions = {PARTITION: bench.partition}
    assert not [obj for obj in bench.engine.state.objects.made() if obj.name == "published"]


def test_pages_are_in_the_order_of_names_and_say_where_to_go_on(matcher: Matcher) -> None:
    for number, name in enumerate(reversed(NAMES)):
        matcher.describe(name, {"n": number % 2})
    matcher.bench.settle()
    found: list[str] = []
    after: dict[str, str] = {}
    sizes = []
    while True:
        _, body = matcher.get(query="n = 1", limit=500, **after)
        found += [one["object"] for one in body["items"]]
        sizes.append(len(body["items"]))
        if body["next"] is None:
            break
        after = {"after": body["next"]}
    assert found == NAMES[::2]
    assert sizes == [500, 500, 250]
    assert matcher.names("NAME STARTS WITH 'lamp/000'") == NAMES[:10]
    within = {"from": "lamp/0004", "to": "lamp/0009", "query": "n = 1"}
    assert [one["object"] for one in matcher.get(**within)[1]["items"]] == ["lamp/0004", "lamp/0006", "lamp/0008"]


def test_a_page_that_takes_too_long_ends_early_and_the_next_goes_on(matcher: Matcher) -> None:
    for name in NAMES:
        matcher.describe(name, {"n": 1})
    matcher.bench.settle()
    hasty = FindEndpoint(matcher.current, pass_s=-1)
    query = {"query": "NAME = 'lamp/2400'", "limit": "10", "after": "lamp/2380"}
    request: Any = SimpleNamespace(match_info={"domain": DOMAIN, "group": GROUP}, query=query)
    found: list[str] = []
    pages = 0
    while True:
        body = json.loads(hasty.objects(request).text or "")
        found += [one["object"] for one in body["items"]]
        pages += 1
        if body["next"] is None:
            break
        query["after"] = body["next"]
    assert (found, pages > 10) == (["lamp/2400"], True)


def test_the_worker_goes_on_while_a_query_is_evaluated(matcher: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher.describe("o", {"n": 1})
    matcher.bench.settle()
    lock, evaluated = matcher.worker.lock, []

    def matches(_name: str, _description: object) -> bool:
        with ThreadPoolExecutor() as other:
            evaluated.append(other.submit(lock.acquire, timeout=0).result(60))
        return True

    monkeypatch.setattr(find_endpoints, "query_of", lambda _text: SimpleNamespace(matches=matches, text="n = 1"))
    assert matcher.get(query="n = 1")[0] == 200
    assert evaluated == [True]


def test_a_wrong_query_is_told_where_and_what_was_expected(matcher: Matcher) -> None:
    matcher.bench.settle()
    status, body = matcher.get(query="Room = 410\nAND Kind")
    assert status == 400
    expected = "expected =, !=, <, <=, >, >=, LIKE or IN behind the key 'Kind', found the end of the query"
    assert body == {
        "error": f"query: line 2, column 9: {expected}", "field": "query", "line": 2, "column": 9, "expected": expected,
    }  # fmt: skip
    assert matcher.get(query="")[1]["column"] == 1
    assert matcher.get(query="b = 1 and a=2")[1] == {"query": "a = 2 AND b = 1", "items": [], "next": None}
    assert matcher.get(query="a = 1", limit=0)[1]["field"] == "limit"
    assert matcher.get(query="a = 1", group="a%20b")[1]["field"] == "group"


def test_one_query_is_evaluated_at_a_time(matcher: Matcher) -> None:
    matcher.bench.settle()
    found = FindEndpoint(matcher.current, turn_s=0.05)
    request: Any = SimpleNamespace(match_info={"domain": DOMAIN, "group": GROUP}, query={"query": "a = 1"})
    with in_turn(), pytest.raises(web.HTTPServiceUnavailable) as refused:
        found.objects(request)
    assert (refused.value.text, refused.value.headers["Retry-After"]) == ("other queries are being evaluated", "1")
    assert found.objects(request).status == 200


def test_without_a_query_all_are_listed_as_before(matcher: Matcher) -> None:
    matcher.bench.version("a", 1)
    matcher.bench.settle()
    status, body = matcher.get()
    assert (status, [one["object"] for one in body["items"]]) == (200, ["a"])
    assert body["items"][0]["registered"] == 0
