"""Which queries a group's clients have registered, over a real port."""

from collections.abc import Iterator
from threading import RLock
from types import SimpleNamespace

import pytest
from coldnotify_matcher.looking import query_endpoints, state_endpoints
from coldnotify_schemas import wire_pb2
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, EngineBench, query_interest
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread

BASE = f"/v1/domains/{DOMAIN}/groups/{GROUP}"


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


@pytest.fixture
def port(bench: EngineBench) -> Iterator[int]:
    worker = SimpleNamespace(partitions={PARTITION: bench.partition}, followed={}, lock=RLock())
    current = SimpleNamespace(worker=worker)
    shown = [*query_endpoints.routes(current), *state_endpoints.routes(current)]
    with served_in_a_thread(shown) as port:
        yield port


def register(bench: EngineBench, session: int, client: str, *texts: str) -> None:
    bench.opened("a", session=session, client=client)
    queries = [query_interest(text) for text in texts]
    bench.request(session, client, register=wire_pb2.Register(request=1, interests=queries))
    bench.settle()
    bench.catch_up(None, ask=2, session=session, client=client)
    bench.settle()


def test_by_their_texts_with_who_has_them(bench: EngineBench, port: int) -> None:
    bench.describe("lamp", b'{"description":{"Room":1}}', timestamp_ms=1)
    register(bench, 1, "one", "Room = 1", "has Dark")
    register(bench, 2, "two", "Room=1")
    register(bench, 3, "three", "Room = 1")
    bench.leave(session=3, client="three")
    bench.settle()

    first = fetch(f"http://127.0.0.1:{port}{BASE}/queries?limit=2").json()
    rest = fetch(f"http://127.0.0.1:{port}{BASE}/queries?after={first['next'].replace(' ', '+')}").json()

    assert [*first["items"], *rest["items"]] == [
        {"query": "Room = 1", "canonical": "Room = 1", "members": 1, "clients_count": 2, "online": 1,
         "clients": ["one", "three"]},
        {"query": "Room=1", "canonical": "Room = 1", "members": 1, "clients_count": 1, "online": 1, "clients": ["two"]},
        {"query": "has Dark", "canonical": "HAS Dark", "members": 0, "clients_count": 1, "online": 1,
         "clients": ["one"]},
    ]  # fmt: skip
    assert rest["next"] is None


def test_those_of_one_client(bench: EngineBench, port: int) -> None:
    register(bench, 1, "one", "has Dark")
    shown = fetch(f"http://127.0.0.1:{port}{BASE}/clients/one").json()
    assert shown["queries"] == [{"query": "has Dark", "members": 0, "refused": None}]
    bench.leave(client="one")
    bench.settle()
    shown = fetch(f"http://127.0.0.1:{port}{BASE}/clients/one").json()
    assert shown["queries"] == [{"query": "has Dark", "members": None, "refused": None}]
