"""What the matcher's HTTP port shows, over a real port: paged, with errors that name the parameter."""

import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from coldnotify_common.settings import ServiceSettings
from coldnotify_matcher.asked_writes import AskedWrites
from coldnotify_matcher.looking import find_endpoints, state_endpoints
from coldnotify_matcher.looking.state_endpoints import routes
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, PARTITIONS, EngineBench
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread

TOPICS = TopicNames()

BASE = f"/v1/domains/{DOMAIN}/groups/{GROUP}"
OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)


class FakeWorker:
    """What looking in needs of a worker."""

    def __init__(self, partitions: dict[int, MatcherPartition]) -> None:
        self.partitions = partitions
        self.followed: dict[int, MatcherPartition] = {}
        self.lock = threading.RLock()


class Current:
    """Where it is to be found."""

    worker: Any = None


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


@pytest.fixture
def current(bench: EngineBench) -> Current:
    one = Current()
    one.worker = FakeWorker({PARTITION: bench.partition})
    return one


@pytest.fixture
def port(current: Current) -> Iterator[int]:
    shown = [*find_endpoints.routes(current, AskedWrites(ServiceSettings())), *routes(current)]
    with served_in_a_thread(shown) as port:
        yield port


def get(port: int, path: str) -> tuple[int, Any]:
    answer = fetch(f"http://127.0.0.1:{port}{path}")
    return answer.status, answer.json()


def test_partitions(port: int, bench: EngineBench) -> None:
    bench.opened("a")
    bench.version("a", 1)
    bench.settle()

    status, body = get(port, "/v1/partitions")

    assert status == 200
    assert body["items"] == [
        {
            "partition": PARTITION,
            "phase": "owned",
            "read_to_end": True,
            "generation": 1,
            "position": 1,
            "requests": 0,
            "messages": 0,
            "objects": 1,
            "clients": 1,
            "online": 1,
            "unsayable": 0,
            "unsayable_first": [],
        }
    ]


def test_a_client_and_what_it_lacks(port: int, bench: EngineBench) -> None:
    bench.opened("a", "b")
    bench.version("a", 5)
    bench.version("b", 6)
    bench.acks({1: 0})
    bench.settle()

    status, body = get(port, f"{BASE}/clients/client-1")

    assert status == 200
    assert body["registrations"]["items"] == [
        {"object": "a", "version": 5, "offset": 0, "applied": True, "callbacks": None},
        {"object": "b", "version": 6, "offset": 1, "applied": False, "callbacks": None},
    ]
    assert (body["online"], body["session"], body["session_state"]) == (True, 1, "live")
    assert (body["registered"], body["lacking"], body["cursor"]) == (2, 1, 0)


def test_an_object_whose_name_has_slashes(port: int, bench: EngineBench) -> None:
    bench.opened("a/b c")
    bench.publish("a/b c", b'{"version":5,"payload":{"x":[1]},"source":"client-9","expires_at":9}')
    bench.settle()

    status, body = get(port, f"{BASE}/objects/{urllib.parse.quote('a/b c')}")

    assert status == 200
    assert body == {
        "object": "a/b c",
        "version": 5,
        "incarnation": 0,
        "offset": 0,
        "published_ms": 1,
        "deleted": False,
        "source": "client-9",
        "payload": {"x": [1]},
        "expires_at": 9,
        "registered": 1,
        "online": 1,
        "description": None,
        "described_ms": None,
    }


def test_an_object_is_shown_with_its_description(port: int, bench: EngineBench) -> None:
    record = b'{"description":{"Room":410,"on":true}}'
    bench.log.append(TOPICS.objects, f"describe:{DOMAIN}/{GROUP}/a".encode(), record, timestamp_ms=5)
    bench.settle()
    _, body = get(port, f"{BASE}/objects/a")
    assert (body["description"], body["described_ms"]) == ({"Room": 410, "on": True}, 5)
    assert (body["version"], body["registered"]) == (None, 0)
    assert "a" not in bench.engine.state.objects, "a look makes nothing of it"


def test_an_object_that_was_never_published(port: int, bench: EngineBench) -> None:
    bench.opened("a")

    _, body = get(port, f"{BASE}/objects/a")

    assert (body["version"], body["offset"], body["payload"], body["registered"]) == (None, None, None, 1)


@pytest.mark.parametrize("what", ["clients", "objects"])
def test_lists_come_in_pages(port: int, bench: EngineBench, what: str) -> None:
    for i in range(5):
        bench.opened(f"o{i}", session=i + 1, client=f"c{i}")
    seen, after = [], ""
    while True:
        status, body = get(port, f"{BASE}/{what}?limit=2{after}")
        assert status == 200
        assert len(body["items"]) <= 2
        seen += [one[what[:-1]] for one in body["items"]]
        if body["next"] is None:
            break
        after = f"&after={body['next']}"

    assert seen == [f"{what[0]}{i}" for i in range(5)]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("prefix=b", ["b", "b/1", "b/2"]),
        ("prefix=b/", ["b/1", "b/2"]),
        ("from=b/1&to=c", ["b/1", "b/2"]),
        ("from=b/1&prefix=b&after=b/1", ["b/2"]),
        ("to=b", ["a"]),
        ("prefix=x", []),
    ],
)
def test_a_span_of_names(port: int, bench: EngineBench, span: str, expected: list[str]) -> None:
    for name in ("c", "b/2", "b/1", "b", "a"):
        bench.version(name, 1)
    bench.settle()
    status, body = get(port, f"{BASE}/objects?{span}")
    assert (status, [one["object"] for one in body["items"]], body["next"]) == (200, expected, None)


def test_named_objects_are_all_as_of_one_position(port: int, bench: EngineBench) -> None:
    bench.version("b", 4)
    bench.version("a", 5)
    bench.settle()
    status, body = get(port, f"{BASE}/objects?names=b,nothing,a,b")
    assert status == 200
    assert [(one["object"], one["version"]) for one in body["items"]] == [("b", 4), ("nothing", None), ("a", 5)]
    assert (body["as_of"], body["next"]) == (bench.engine.state.position, None)
    assert get(port, f"{BASE}/objects/nothing")[0] == 404, "a look makes no object"


def test_a_clients_registrations_come_in_pages(port: int, bench: EngineBench) -> None:
    bench.opened(*(f"o{i}" for i in range(5)))

    _, body = get(port, f"{BASE}/clients/client-1?limit=2&after=o1")

    assert [one["object"] for one in body["registrations"]["items"]] == ["o2", "o3"]
    assert body["registrations"]["next"] == "o3"


@pytest.mark.parametrize(
    ("path", "status", "names"),
    [
        (f"{BASE}/clients?limit=0", 400, "limit"),
        (f"{BASE}/clients?limit=1001", 400, "limit"),
        (f"{BASE}/objects?limit=x", 400, "limit"),
        (f"{BASE}/objects?prefix={'o' * 256}", 400, "prefix"),
        (f"{BASE}/objects?to=", 400, "to"),
        (f"{BASE}/objects?names=a,,b", 400, "names"),
        (f"{BASE}/objects?names={','.join(map(str, range(101)))}", 400, "names"),
        (f"{BASE}/objects?names=a&limit=1", 400, "limit"),
        (f"{BASE}/objects?names=a&query=x", 400, "query"),
        (f"{BASE}/clients/a%20b", 400, "client"),
        (f"/v1/domains/a%20b/groups/{GROUP}/clients", 400, "domain"),
        (f"/v1/domains/{DOMAIN}/groups/{'g' * 65}/objects", 400, "group"),
        (f"{BASE}/objects/{'o' * 256}", 400, "object"),
        (f"{BASE}/clients/nobody", 404, "client"),
        (f"{BASE}/objects/nothing", 404, "object"),
        (f"/v1/domains/{DOMAIN}/groups/{OTHER_GROUP}/objects", 503, OTHER_GROUP),
    ],
)
def test_errors_name_what_is_wrong(port: int, bench: EngineBench, path: str, status: int, names: str) -> None:
    bench.opened("a")

    got, body = get(port, path)

    assert got == status
    assert names in body["error"]
    if status == 400:
        assert body["field"] == names


def test_before_there_is_a_worker(port: int, current: Current) -> None:
    current.worker = None

    assert get(port, "/v1/partitions") == (200, {"items": []})
    assert get(port, f"{BASE}/clients")[0] == 503


def test_a_step_that_lasts_holds_up_only_those_who_look_in(
    port: int, current: Current, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_endpoints, "LOCK_TIMEOUT_S", 0.2)
    with current.worker.lock:
        status, body = get(port, "/v1/partitions")
        assert status == 503
        assert "one step" in body["error"]
        assert fetch(f"http://127.0.0.1:{port}/healthz").status == 200
    assert get(port, "/v1/partitions")[0] == 200


def test_a_look_that_takes_long_lets_the_worker_go_on(
    current: Current, bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_endpoints, "LOCKED_S", 0)
    bench.settle()
    look = state_endpoints.Look(current)
    taken: list[int] = []
    stepping = threading.Event()

    def work() -> None:
        stepping.set()
        for _ in range(3):
            with current.worker.lock:
                taken.append(len(seen))

    seen: list[int] = []
    worker = threading.Thread(target=work)
    with current.worker.lock:  # so that it waits before the look begins
        worker.start()
        assert stepping.wait(30)
    for number in look.each(bench.partition, iter(int, 1)):  # endless
        seen.append(number)
        if len(taken) == 3:
            break
        assert len(seen) < 1_000_000
    worker.join(30)
    assert not worker.is_alive()


def test_a_look_ends_where_the_partition_goes_meanwhile(
    current: Current, bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_endpoints, "LOCKED_S", 0)
    bench.settle()
    look = state_endpoints.Look(current)
    looked = look.each(bench.partition, iter(int, 1))
    next(looked)
    current.worker.partitions = {}
    with pytest.raises(web.HTTPServiceUnavailable):
        next(looked)
    assert current.worker.lock.acquire(timeout=1)
