"""The delivery ledger over a real port: who lacks what, since when, and what an explanation is made of.

Stands for: ledger, showing
"""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_common.settings import ServiceSettings
from coldnotify_matcher.asked_writes import AskedWrites
from coldnotify_matcher.engine.interests.by_query import deciding, query
from coldnotify_matcher.looking import evaluating, find_endpoints, ledger, overview, state_endpoints
from coldnotify_matcher.looking.state_endpoints import routes
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.names import looking_name
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, PARTITION, EngineBench, query_interest
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.kept_device import KeptGateway
from coldnotify_testkit.served_routes import served_in_a_thread

BASE = f"/v1/domains/{DOMAIN}/groups/{GROUP}"


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


@pytest.fixture
def port(bench: EngineBench) -> Iterator[int]:
    worker: Any = SimpleNamespace(partitions={PARTITION: bench.partition}, followed={}, lock=threading.RLock())
    LOCKS.append(worker.lock)
    current = SimpleNamespace(worker=worker)
    objects = find_endpoints.routes(current, AskedWrites(ServiceSettings()))
    shown = [*ledger.routes(current), *overview.routes(current), *objects, *routes(current)]
    with served_in_a_thread(shown) as port:
        yield port


def get(port: int, path: str) -> tuple[int, Any]:
    answer = fetch(f"http://127.0.0.1:{port}{BASE}{path}")
    return answer.status, answer.json()


def whole_overview(port: int) -> Any:
    return fetch(f"http://127.0.0.1:{port}/v1/overview").json()


def lacking(port: int, query: str = "", object_: str = "o") -> dict[str, Any]:
    status, body = get(port, f"/objects/{object_}/lacking{query}")
    assert status == 200, body
    assert isinstance(body, dict)
    return body


def names(body: dict[str, Any]) -> list[str]:
    return [one["client"] for one in body["items"]]


def three_clients(bench: EngineBench) -> None:
    """c1 and c2 have version 10 at offset 0; c2 sleeps then; c1 has 20 at offset 1; nobody has 30 at offset 2."""
    for number in (1, 2, 3):
        bench.opened("o", session=number, client=f"c{number}")
    bench.publish("o", b'{"version":10}', timestamp_ms=1000)
    bench.settle()
    bench.acks({1: 0, 2: 0})
    bench.leave(complete=0, session=2, client="c2")
    bench.publish("o", b'{"version":20}', timestamp_ms=2000)
    bench.settle()
    bench.acks({1: 1})
    bench.publish("o", b'{"version":30}', timestamp_ms=3000)
    bench.settle()


def test_who_lacks_the_newest_version_and_since_when(port: int, bench: EngineBench) -> None:
    three_clients(bench)

    body = lacking(port)

    assert (body["version"], body["wanted_version"], body["published_ms"]) == (30, 30, 3000)
    assert (body["registered"], body["applied"], body["lacking"], body["asleep"]) == (3, 0, 3, 1)
    assert [(one["client"], one["state"], one["since_ms"], one["cursor"]) for one in body["items"]] == [
        ("c1", "live", 3000, 1),
        ("c2", "asleep", 2000, 0),
        ("c3", "live", 1000, None),
    ]
    assert all(one["last_seen_ms"] == bench.now_ms for one in body["items"])
    bench.acks({1: 2, 3: 2})
    bench.settle()
    assert names(lacking(port)) == ["c2"]


def test_a_page_that_only_looks_is_not_in_the_ledger(port: int, bench: EngineBench) -> None:
    three_clients(bench)
    bench.opened("o", session=9, client=looking_name("0" * 24))
    bench.publish("o", b'{"version":40}', timestamp_ms=4000)
    bench.settle()

    body = lacking(port)

    assert (names(body), body["registered"], body["lacking"]) == (["c1", "c2", "c3"], 3, 3)


@pytest.mark.parametrize(
    ("version", "who", "published", "exact"),
    [
        (5, ["c3"], True, False),
        (10, ["c3"], True, True),
        (11, ["c2", "c3"], True, True),
        (20, ["c2", "c3"], True, True),
        (30, ["c1", "c2", "c3"], True, True),
        (31, ["c1", "c2", "c3"], False, True),
    ],
)
def test_who_lacks_an_older_version(
    port: int, bench: EngineBench, version: int, who: list[str], published: bool, exact: bool
) -> None:
    three_clients(bench)

    body = lacking(port, f"?version={version}")

    assert (names(body), body["published"], body["exact"]) == (who, published, exact)


def test_a_repeat_is_not_lacked(port: int, bench: EngineBench) -> None:
    bench.opened("o")
    bench.version("o", 1)
    bench.settle()
    bench.acks({1: 0})
    bench.version("o", 1)
    bench.settle()

    assert names(lacking(port)) == []


def test_the_source_has_what_it_made_and_nobody_lacks_what_was_never_published(port: int, bench: EngineBench) -> None:
    bench.opened("o", "never", session=1, client="c1")
    bench.opened("o", session=2, client="c2")
    bench.publish("o", b'{"version":1,"source":"c1"}')
    bench.settle()

    assert names(lacking(port)) == ["c2"]
    never = lacking(port, object_="never")
    assert (never["version"], never["registered"], never["lacking"]) == (None, 1, 0)


def test_many_come_in_pages_and_are_looked_at_in_parts(
    port: int, bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_endpoints, "LOCKED_S", 0)
    for number in range(5):
        bench.opened("o", session=number + 1, client=f"c{number}")
    bench.version("o", 1)
    bench.settle()

    first = lacking(port, "?limit=3")
    rest = lacking(port, f"?limit=3&after={first['next']}")

    assert names(first) + names(rest) == [f"c{number}" for number in range(5)]
    assert (first["lacking"], rest["next"]) == (5, None)


def test_subscribers_come_in_pages_with_what_makes_them_receive_the_object(port: int, bench: EngineBench) -> None:
    with_query(bench, "NOT HAS a", "by-query", 1)
    with_query(bench, "HAS a", "by-another", 2)
    bench.opened("o", session=3, client="by-name")
    bench.opened("other", session=4, client="of-another")
    bench.opened("o", session=5, client=looking_name("0" * 24))
    gateway = KeptGateway(bench)
    device = gateway.device("device").connect()
    gateway.run()
    device.subscribe("#")
    gateway.run()
    bench.leave(session=1, client="by-query")
    bench.version("o", 1)
    bench.settle()
    gateway.run()
    bench.settle()
    bench.acks({3: bench.partition.engine.state.position})
    bench.settle()
    first = get(port, "/objects/o/subscribers?limit=2")[1]
    assert (first["object"], first["subscribers"], first["next"]) == ("o", 3, "by-query")
    shown = [*first["items"], *get(port, f"/objects/o/subscribers?after={first['next']}")[1]["items"]]
    assert [(one["client"], one["by"], one["state"], one["applied"]) for one in shown] == [
        ("by-name", "name", "live", True),
        ("by-query", "query", "asleep", False),
        ("device", "filter", "live", False),
    ]
    assert all(one["last_seen_ms"] for one in shown)


def test_an_object_named_like_the_endpoint_can_be_asked_for(port: int, bench: EngineBench) -> None:
    bench.opened("a/lacking")
    bench.version("a/lacking", 1)
    bench.settle()

    assert names(lacking(port, object_="a%2Flacking")) == ["client-1"]
    assert get(port, "/objects/a%2Flacking")[1]["version"] == 1


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/objects/o/lacking?version=-1", 400, "version: '-1'"),
        ("/objects/o/lacking?version=9223372036854775808", 400, "version: "),
        (f"/objects/o/lacking?version={4400 * chr(48)}1", 400, "version: "),
        ("/objects/nothing/lacking", 404, "object: "),
        ("/objects/nothing/subscribers", 404, "object: "),
        ("/objects/o/subscribers?limit=0", 400, "limit: "),
        ("/clients/a%20b/explanation", 400, "client: "),
        ("/clients/c1/explanation?object=", 400, "object: "),
    ],
)
def test_errors_name_what_is_wrong(port: int, bench: EngineBench, path: str, status: int, words: str) -> None:
    bench.opened("o")
    got, body = get(port, path)
    assert (got, words in body["error"]) == (status, True), body


def test_what_an_explanation_is_made_of(port: int, bench: EngineBench) -> None:
    three_clients(bench)
    bench.publish("o", b'{"verson":40}', timestamp_ms=4000)
    bench.settle()

    _, body = get(port, "/clients/c2/explanation?object=o")

    assert (body["client"]["online"], body["client"]["cursor"]) == (False, 0)
    assert body["lacking"] == [{"object": "o", "version": 30, "since_ms": 2000, "callbacks": None}]
    asked = body["object"]
    assert (asked["client_registered"], asked["client_applied"], asked["since_ms"]) == (True, False, 2000)
    assert [(one["offset"], one["timestamp_ms"]) for one in body["rejected"]] == [(3, 4000)]
    _, body = get(port, "/clients/nobody/explanation?object=nothing")
    assert (body["client"], body["object"], body["generation"]) == (None, None, 1)


def test_all_who_look_say_the_same_of_what_a_client_lacks(port: int, bench: EngineBench) -> None:
    bench.opened("own", "others", "told", client="c1")
    bench.opened("own", session=2, client="c2")
    bench.version("told", 1)
    bench.settle()
    bench.acks({1: 0})
    bench.publish("own", b'{"version":1,"source":"c1"}')
    bench.publish("others", b'{"version":1,"source":"c2"}')
    bench.settle()

    client = bench.engine.state.clients[f"{DOMAIN}/{GROUP}/c1"]
    _, explained = get(port, "/clients/c1/explanation?object=own")
    _, shown = get(port, "/clients/c1")
    matrix = {row["client"]: row for row in get(port, "/matrix")[1]["items"]}
    slowest = {one["client"]: one["lacking"] for one in whole_overview(port)["slowest"]}

    assert [obj.name for obj in client.unapplied()] == ["others"]
    assert [one["object"] for one in explained["lacking"]] == ["others"]
    assert (explained["client"]["lacking"], shown["lacking"], matrix["c1"]["lacking"], slowest["c1"]) == (1, 1, 1, 1)
    assert (explained["object"]["client_applied"], explained["object"]["client_is_source"]) == (True, True)
    applied = {one["object"]: one["applied"] for one in shown["registrations"]["items"]}
    assert applied == {"own": True, "others": False, "told": True}
    cells = dict(zip([one["object"] for one in get(port, "/matrix")[1]["objects"]], matrix["c1"]["cells"], strict=True))
    assert cells == {"own": "has", "others": "lacks", "told": "told"}
    assert names(lacking(port, object_="own")) == ["c2"]
    assert names(lacking(port, object_="others")) == ["c1"]


def with_query(bench: EngineBench, text: str, client: str, session: int) -> None:
    open_ = internal_pb2.Open(digest=query_hash(text), interests=[query_interest(text)], epoch=EPOCH, ask=1)
    bench.request(session, client, open=open_)
    bench.settle()


@pytest.fixture
def unlocked(bench: EngineBench, port: int, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the worker could have had its lock, at each evaluation."""
    found: list[bool] = []
    of = query.CanonicalQuery

    def asked(self: query.CanonicalQuery, name: str, description: Description) -> bool:
        def try_it() -> None:
            if got := LOCKS[-1].acquire(timeout=0):
                LOCKS[-1].release()
            found.append(got)

        other = threading.Thread(target=try_it)
        other.start()
        other.join(30)
        return predicate(self.tree)(name, description)

    predicate = query.predicate_of

    def predicate_of(tree: Any) -> Any:
        return lambda name, description: asked(of(tree), name, description)

    monkeypatch.setattr(deciding, "predicate_of", predicate_of)
    monkeypatch.setattr(evaluating, "query_of", lambda text: Asked(text, asked))
    return found


class Asked(query.CanonicalQuery):
    """One that says when it is evaluated."""

    __slots__ = ()

    def __init__(self, text: str, asked: Any) -> None:
        super().__init__(query.query_of(text).tree)
        self.matches = lambda name, description: asked(self, name, description)


LOCKS: list[Any] = []


def test_queries_are_held_against_an_object_without_the_workers_lock(
    port: int, bench: EngineBench, unlocked: list[bool]
) -> None:
    with_query(bench, "NOT HAS a", "asleep", 1)
    with_query(bench, "HAS a", "elsewhere", 2)
    for session, client in ((1, "asleep"), (2, "elsewhere")):
        bench.leave(session=session, client=client)
    bench.version("o", 1)
    bench.settle()

    assert names(lacking(port)) == ["asleep"]
    asked = len(unlocked)
    about = get(port, "/clients/asleep/explanation?object=o")[1]["object"]
    assert about["client_queries"] == [
        {"query": "NOT HAS a", "member": True, "why": "HAS a is false, there is no a"},
    ]
    assert (about["client_registered"], about["client_applied"]) == (True, False)
    assert (asked, len(unlocked), set(unlocked)) == (2, 3, {True})
    other = get(port, "/clients/elsewhere/explanation?object=o")[1]["object"]
    assert (other["client_registered"], other["client_applied"]) == (False, False)


def test_of_a_client_that_is_away_it_is_said_that_nothing_is_known_of_its_queries(
    port: int, bench: EngineBench
) -> None:
    with_query(bench, "NOT HAS a", "unit", 1)
    online = get(port, "/clients/unit/explanation")[1]
    assert (online["lacking"], online["queries_unknown"], online["queries_missed"]) == ([], 0, False)
    bench.leave(session=1, client="unit")
    bench.version("o", 1)
    bench.settle()
    away = get(port, "/clients/unit/explanation")[1]
    assert (away["lacking"], away["queries_unknown"], away["queries_missed"]) == ([], 1, True)


def test_a_version_that_is_too_large_for_a_device_is_shown_as_such(port: int, bench: EngineBench) -> None:
    gateway = KeptGateway(bench)
    bench.publish("a/1", b'{"version":1,"payload":"%s"}' % (b"x" * 100))
    bench.version("a/2", 1)
    small, any_ = gateway.device("small").connect(packet_bytes_max=80), gateway.device("any").connect()
    gateway.run()
    for device in (small, any_):
        device.subscribe("a/#")
    gateway.run()
    bench.settle()

    def too_large(client: str, name: str) -> object:
        return get(port, f"/clients/{client}/explanation?object={name}")[1]["object"]["client_too_large"]

    assert [too_large("small", name) for name in ("a/1", "a/2")] == [True, False]
    assert too_large("any", "a/1") is False
    small.leave()
    gateway.run()
    assert too_large("small", "a/1") is False, "nobody knows what it takes when it is back"


def test_the_ledger_knows_filters_and_what_is_kept(port: int, bench: EngineBench) -> None:
    gateway = KeptGateway(bench)
    bench.version("a/1", 1)
    will = internal_pb2.Will(topic="gone", payload=b"x")
    device, other = gateway.device("kept").connect(expiry_s=60, will=will), gateway.device("other").connect()
    gateway.run()
    device.subscribe("a/#", options=0x10, identifier=4)
    other.subscribe("b")
    gateway.run()
    device.reads = False
    bench.version("a/1", 2)
    bench.version("b", 2)
    gateway.run()
    bench.settle()
    assert names(lacking(port, object_="a/1")) == ["kept"]
    assert lacking(port, object_="a/1")["by_query"] == 0
    assert names(lacking(port, object_="b")) == []
    assert lacking(port, object_="b")["registered"] == 1
    explained = get(port, "/clients/kept/explanation?object=a/1")[1]
    assert (explained["client"]["will"], explained["client"]["will_due_ms"]) == ("gone", None)
    assert (explained["object"]["client_registered"], explained["object"]["client_applied"]) == (True, False)
    shown = get(port, "/clients/kept")[1]
    assert (shown["kept"], shown["expiry_s"], shown["registered"], shown["will"]) == ("mqtt 5.0", 60, 1, "gone")
    assert get(port, "/clients/other")[1]["will"] is None
    assert shown["filters"] == [{"filter": "a/#", "options": 16, "identifier": 4, "answered": True}]
    device.reads = True
    bench.version("a/1", 3)
    gateway.run()
    bench.settle()
    assert names(lacking(port, object_="a/1")) == []
    device.reads = False
    device.subscribe("b")
    gateway.run()
    assert names(lacking(port, object_="b")) == ["kept"], "the answer is not acknowledged"
