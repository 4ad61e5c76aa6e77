"""Descriptions over a real port, with a log in memory: what is merged, what is refused, what comes between."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from urllib.request import Request

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_matcher.asked_writes import LogEnd, NotWritten
from coldnotify_matcher.looking.description_endpoints import DescriptionEndpoints, routes
from coldnotify_schemas.internal_pb2 import Describe, Open
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.step_bell import StepBell
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, PARTITION, PARTITIONS, PREFIX, EngineBench
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.served_routes import served_in_a_thread

TOPICS = TopicNames()

OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)
FAR_AHEAD_MS = 9_000_000_000_000


class Log:
    """The bench's log, read by its matcher after each record; a test may put something in between."""

    def __init__(self, bench: EngineBench, lock: threading.RLock) -> None:  # type: ignore[valid-type]
        self.bench = bench
        self._lock = lock
        self.before_write: Callable[[], object] = lambda: None
        self.after_write: Callable[[], object] = lambda: None
        self.before_end: Callable[[], object] = lambda: None
        self.says_offsets = True

    async def end(self, _admin: object, _partition: int) -> LogEnd:
        self.before_end()
        return LogEnd(self.bench.log.end(TOPICS.objects), self.bench.log.end(TOPICS.sessions))

    async def write(
        self, partition: int, key: bytes, value: bytes, timestamp_ms: int, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> int:
        await asyncio.sleep(0)  # others may come meanwhile
        self.before_write()
        assert partition == PARTITION
        log = self.bench.log
        offset = log.append(TOPICS.objects, key, value, timestamp_ms=timestamp_ms, headers=headers).offset
        self.after_write()
        with self._lock:
            self.bench.settle()
        return offset if self.says_offsets else -1


class Matcher:
    def __init__(self) -> None:
        self.bench = EngineBench()
        lock = threading.RLock()
        partitions = {PARTITION: self.bench.partition}
        clock = SimpleNamespace(stamp_ms=lambda: time.time_ns() // 1_000_000)
        self.worker = SimpleNamespace(partitions=partitions, lock=lock, bell=StepBell(), admin=None, clock=clock)
        self.current: Any = SimpleNamespace(worker=self.worker)
        self.log = Log(self.bench, lock)
        self.port = 0

    def ask(
        self, method: str, object_: str = "o", body: object = None, *, query: str = "", group: str = GROUP
    ) -> FetchedAnswer:
        path = f"/v1/domains/{DOMAIN}/groups/{group}/objects/{object_}/description{query}"
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return fetch(Request(f"http://127.0.0.1:{self.port}{path}", data, method=method))

    def ok(self, method: str, object_: str = "o", body: object = None, *, query: str = "") -> Any:
        answer = self.ask(method, object_, body, query=query)
        assert answer.status == 200, answer.text
        return answer.json()

    def record(self, object_: str, description: object, timestamp_ms: int) -> int:
        """As somebody writes to Kafka."""
        value = json.dumps({"description": description}).encode()
        return self.bench.log.append(
            TOPICS.objects, f"describe:{PREFIX}{object_}".encode(), value, timestamp_ms=timestamp_ms
        ).offset


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    one = Matcher()
    with served_in_a_thread(routes(one.current, one.log)) as port:
        one.port = port
        yield one


def test_a_description_is_put_patched_read_and_deleted(matcher: Matcher) -> None:
    put = matcher.ok("PUT", body={"Room": 410, "Kind": "lamp"})
    assert put["description"] == {"Room": 410, "Kind": "lamp"}
    assert (put["domain"], put["group"], put["object"], put["partition"]) == (DOMAIN, GROUP, "o", PARTITION)
    assert put["revision"] == f"{EPOCH:08x}.{put['offset']}"
    patched = matcher.ok("PATCH", body={"Room": None, "on": True})
    assert patched["description"] == {"Kind": "lamp", "on": True}
    assert patched["version"] > put["version"]
    shown = matcher.ok("GET")
    assert shown == {name: patched[name] for name in ("object", "description", "version", "revision")}
    gone = matcher.ok("DELETE")
    assert gone["description"] is None
    assert matcher.ok("GET") == {name: gone[name] for name in ("object", "description", "version", "revision")}
    last = matcher.bench.log.records[TOPICS.objects][-1]
    assert (last.key, last.value) == (f"describe:{PREFIX}o".encode(), b'{"description":null}')
    assert last.timestamp_ms == gone["version"]


def test_a_change_of_what_clients_have_patched_keeps_their_last_request(matcher: Matcher) -> None:
    bench = matcher.bench
    bench.request(1, "lamp", open=Open(ask=1, register=["door"]))
    bench.request(1, "lamp", describe=Describe(object="o", patch=b'{"Level":1}', ask=1))
    bench.settle()
    assert matcher.ok("PATCH", body={"Room": 410})["description"] == {"Level": 1, "Room": 410}
    first, second = bench.log.records[TOPICS.objects]
    assert first.said.request == second.said.request
    assert first.said.request
    assert not bench.engine.state.patches.is_changing((f"{DOMAIN}/{GROUP}", "o"))


def test_a_patch_of_an_object_that_has_none_makes_one(matcher: Matcher) -> None:
    assert matcher.ok("PATCH", "a%2Fb%20c", {"Room": 1, "gone": None})["object"] == "a/b c"
    assert matcher.ok("GET", "a%2Fb%20c")["description"] == {"Room": 1}


def test_what_is_not_known_is_404_and_what_was_only_published_has_none(matcher: Matcher) -> None:
    answer = matcher.ask("GET", "nothing")
    assert (answer.status, answer.json()["error"]) == (404, f"object: {PREFIX}nothing is not known")
    matcher.bench.version("p", 1)
    matcher.bench.settle()
    assert matcher.ok("GET", "p") == {"object": "p", "description": None, "version": None, "revision": None}


def test_the_version_is_above_the_one_in_force_where_that_is_ahead_of_time(matcher: Matcher) -> None:
    matcher.record("o", {"a": 1}, FAR_AHEAD_MS)
    matcher.bench.settle()
    patched = matcher.ok("PATCH", body={"b": 2})
    assert (patched["version"], patched["description"]) == (FAR_AHEAD_MS + 1, {"a": 1, "b": 2})


def test_patches_at_once_are_all_kept(matcher: Matcher) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda i: matcher.ok("PATCH", body={f"k{i}": i}), range(20)))
    assert matcher.ok("GET")["description"] == {f"k{i}": i for i in range(20)}
    assert len({answer["version"] for answer in answers}) == 20


def test_with_a_revision_only_what_was_seen_is_changed(matcher: Matcher) -> None:
    first = matcher.ok("PUT", body={"a": 1}, query="?if_revision=none")
    assert matcher.ask("PUT", body={"a": 2}, query="?if_revision=none").status == 409
    second = matcher.ok("PATCH", body={"b": 2}, query=f"?if_revision={first['revision']}")
    refused = matcher.ask("DELETE", query=f"?if_revision={first['revision']}")
    assert refused.status == 409
    assert refused.json()["field"] == "if_revision"
    assert refused.json()["revision"] == second["revision"]
    assert refused.json()["description"] == {"a": 1, "b": 2}
    assert matcher.ok("DELETE", query=f"?if_revision={second['revision']}")["description"] is None


def test_a_patch_that_somebodys_record_outdoes_on_the_way_is_merged_into_that(matcher: Matcher) -> None:
    matcher.ok("PUT", body={"a": 1})

    def comes_first() -> None:
        matcher.log.before_write = lambda: None
        matcher.record("o", {"theirs": True}, FAR_AHEAD_MS)

    matcher.log.before_write = comes_first
    patched = matcher.ok("PATCH", body={"b": 2})
    assert (patched["description"], patched["version"]) == ({"theirs": True, "b": 2}, FAR_AHEAD_MS + 1)
    assert matcher.ok("GET")["revision"] == patched["revision"]


def test_with_a_revision_that_is_a_conflict(matcher: Matcher) -> None:
    first = matcher.ok("PUT", body={"a": 1})
    matcher.log.before_write = lambda: matcher.record("o", {"theirs": True}, FAR_AHEAD_MS)
    answer = matcher.ask("PATCH", body={"b": 2}, query=f"?if_revision={first['revision']}")
    assert (answer.status, answer.json()["description"]) == (409, {"theirs": True})


@pytest.mark.parametrize("theirs", [{"theirs": True}, {"b": 2}])
def test_what_comes_behind_it_is_not_undone(matcher: Matcher, theirs: Any) -> None:
    def comes_behind() -> None:
        matcher.log.after_write = lambda: None
        matcher.record("o", theirs, FAR_AHEAD_MS)

    matcher.log.after_write = comes_behind
    patched = matcher.ok("PATCH", body={"b": 2})
    assert patched["description"] == {"b": 2}
    assert matcher.ok("GET")["description"] == theirs
    assert matcher.ok("GET")["version"] == FAR_AHEAD_MS


def test_a_matcher_that_lost_the_partition_before_writes_nothing(matcher: Matcher) -> None:
    def lost() -> None:
        matcher.worker.partitions.clear()

    matcher.log.before_end = lost
    answer = matcher.ask("PATCH", body={"b": 2})
    assert (answer.status, answer.json()["outcome"], answer.headers["Retry-After"]) == (503, "not written", "1")
    assert matcher.bench.log.records[TOPICS.objects] == []


def test_a_matcher_that_lost_it_meanwhile_does_not_say_that_it_is_done(matcher: Matcher) -> None:
    matcher.log.after_write = matcher.worker.partitions.clear
    answer = matcher.ask("PATCH", body={"b": 2})
    assert (answer.status, answer.json()["outcome"]) == (503, "unknown: it may be written")


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ([LogEnd(1 << 40, 0)], "not written"),
        ([LogEnd(0, 1 << 40)], "not written"),
        ([LogEnd(0, 0), LogEnd(1 << 40, 0)], "unknown: it may be written"),
        ([LogEnd(0, 0), LogEnd(0, 1 << 40)], "unknown: it may be written"),
    ],
)
async def test_nothing_is_done_or_said_until_all_is_read(matcher: Matcher, ends: list[LogEnd], outcome: str) -> None:
    """Also the claims: one that is not read yet may be a successor's."""
    left = iter(ends)

    async def end(_admin: object, _partition: int) -> LogEnd:
        return next(left)

    matcher.log.end = end  # type: ignore[method-assign]
    pages = DescriptionEndpoints(matcher.current, matcher.log, change_s=0.3)
    response = await pages.patch(_request({"b": 2}))
    assert (response.status, json.loads(response.text or "")["outcome"]) == (503, outcome)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(NotWritten("Kafka is away"), "unknown: it may be written"), (KafkaUnavailable("Kafka is away"), "not written")],
)
def test_kafka_that_is_away_is_503(matcher: Matcher, error: Exception, outcome: str) -> None:
    def fail() -> None:
        raise error

    if isinstance(error, NotWritten):
        matcher.log.before_write = fail
    else:
        matcher.log.before_end = fail
    answer = matcher.ask("DELETE")
    assert (answer.status, answer.json()) == (503, {"error": "Kafka is away", "outcome": outcome})


def test_a_record_whose_place_kafka_does_not_say_is_found_by_its_version(matcher: Matcher) -> None:
    matcher.log.says_offsets = False
    assert matcher.ok("PUT", body={"a": 1})["offset"] is None
    matcher.log.after_write = lambda: matcher.record("o", {"theirs": True}, FAR_AHEAD_MS)
    assert matcher.ask("PUT", body={"a": 2}).json()["outcome"] == "unknown: it may be written"


async def test_beyond_a_bound_nothing_is_changed(matcher: Matcher) -> None:
    pages = DescriptionEndpoints(matcher.current, matcher.log, changes_max=0)
    response = await pages.delete(_request(None))
    assert (response.status, json.loads(response.text or "")["outcome"]) == (503, "not written")


async def test_one_domain_has_half_of_what_may_be_changed_at_a_time(matcher: Matcher) -> None:
    pages = DescriptionEndpoints(matcher.current, matcher.log, changes_max=2)
    pages._changes.take(DOMAIN)
    refused = json.loads((await pages.delete(_request(None))).text or "")
    assert refused == {"error": "too many descriptions of this domain are being changed", "outcome": "not written"}
    pages._changes.give_back(DOMAIN)
    pages._changes.take("other")
    assert (await pages.delete(_request(None))).status == 200
    assert pages._changes.taken == 1


def test_another_matchers_group_is_refused(matcher: Matcher) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        body = {"a": 1} if method in ("PUT", "PATCH") else None
        assert matcher.ask(method, body=body, group=OTHER_GROUP).status == 503
    matcher.bench.partition.phase = OwningPhase.LOADING
    assert matcher.ask("PUT", body={"a": 1}).json()["outcome"] == "not written"


@pytest.mark.parametrize(
    ("method", "body", "query", "field", "words"),
    [
        ("PUT", b"[1]", "", "description", "is not an object"),
        ("PUT", b"{", "", "description", "is not JSON"),
        ("PUT", {"a": None}, "", "description", "'a'"),
        ("PUT", {"9": 1}, "", "description", "'9' is not a key"),
        ("PATCH", b"[1]", "", "patch", "is not an object"),
        ("PATCH", {"9": None}, "", "description", "'9' is not a key"),
        ("PATCH", {"a": [1]}, "", "description", "'a'"),
        ("PATCH", b"{" + b" " * 65536 + b"}", "", "patch", "65538 bytes"),
        ("PUT", {"a": 1}, "?if_revision=7", "if_revision", "'7'"),
    ],
)
def test_errors_name_what_is_wrong(
    matcher: Matcher, method: str, body: object, query: str, field: str, words: str
) -> None:
    answer = matcher.ask(method, body=body, query=query)
    assert (answer.status, answer.json()["field"]) == (400, field)
    assert words in answer.json()["error"]
    assert matcher.bench.log.records[TOPICS.objects] == []


def test_a_name_that_is_none_is_refused(matcher: Matcher) -> None:
    assert matcher.ask("DELETE", "o" * 256).json()["field"] == "object"
    assert matcher.ask("DELETE", group="a%20b").json()["field"] == "group"


def _request(body: object) -> Any:
    async def read() -> bytes:
        return json.dumps(body).encode()

    names = {"domain": DOMAIN, "group": GROUP, "object": "o"}
    return SimpleNamespace(match_info=names, query={}, read=read)
