"""Pages that wait until the sets of their client's queries are known."""

import pytest
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet, Sets
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.engine_bench import EPOCH, Bench, pages

FIRST, SECOND = "has a", "has b"


class Computing:
    """Sets are computed when a test says so."""

    done = False


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> type[Computing]:
    compute = Sets.compute

    def held(self: Sets, position: int) -> list[QuerySet]:
        return compute(self, position) if Computing.done else []

    monkeypatch.setattr(Sets, "compute", held)
    Computing.done = False
    return Computing


def opened(*texts: str) -> Bench:
    """A client with these queries, whose first page waits."""
    bench = Bench()
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    queries = [wire_pb2.Query(text=text) for text in texts]
    digest = sum(map(query_hash, texts)) % MODULUS
    bench.request(open=internal_pb2.Open(digest=digest, queries=queries, epoch=EPOCH, ask=1))
    bench.settle()
    return bench


def test_a_session_that_its_gateway_holds_for_live_is_to_ask_anew_while_its_page_waits(
    computing: type[Computing],
) -> None:
    bench = opened(FIRST)
    (page,) = pages(bench.items())
    assert (page.page, page.last, page.HasField("complete")) == (0, False, False)
    computing.done = True
    bench.settle()
    page = pages(bench.items())[-1]
    assert (page.page, page.last, list(page.answered)) == (1, True, [query_hash(FIRST)])


def test_a_query_that_is_registered_while_a_page_waits_is_waited_for(computing: type[Computing]) -> None:
    bench = opened(FIRST)
    bench.request(register=wire_pb2.Register(request=1, queries=[wire_pb2.Query(text=SECOND)]))
    bench.settle()
    computing.done = True
    bench.settle()
    page = pages(bench.items())[-1]
    assert page.last
    assert sorted(page.answered) == sorted([query_hash(FIRST), query_hash(SECOND)])


def test_a_page_does_not_wait_for_a_query_that_is_wanted_no_more(computing: type[Computing]) -> None:
    bench = opened(FIRST)
    bench.request(unregister=wire_pb2.Unregister(request=1, queries=[query_hash(FIRST)]))
    bench.settle()
    page = pages(bench.items())[-1]
    assert (page.page, page.last, list(page.answered)) == (1, True, [])


def test_the_cursor_passes_an_offset_with_the_last_frame_of_it() -> None:
    Computing.done = True
    bench = opened(FIRST)
    bench.publish("x", b'{"version":1}')
    bench.request(register=wire_pb2.Register(request=1, objects=["x"]))
    bench.settle()
    offset = bench.publish("x", b'{"version":2,"deleted":true}')
    bench.settle()
    bench.told.clear()
    bench.catch_up(offset - 1, ask=2)
    bench.settle()
    said = [newest for page in pages(bench.items()) for newest in page.newest]
    assert [(newest.offset, newest.behind, list(newest.left)) for newest in said] == [
        (offset, 1, []),
        (offset, 0, [query_hash(FIRST)]),
    ]


def test_a_query_for_which_a_successor_has_no_room_is_refused_and_not_silent() -> None:
    bench = opened(FIRST)
    bench.leave()
    bench.load()
    bench.engine.state.members.sets._queries_max = 0
    bench.told.clear()
    bench.request(2, open=internal_pb2.Open(digest=query_hash(FIRST), epoch=EPOCH, cursor=0, ask=1))
    (page,) = pages(bench.items())
    (refusal,) = page.refused
    assert (page.last, refusal.query) == (True, query_hash(FIRST))
    assert refusal.reason.startswith("query: its partition has 0 queries")
    (client,) = bench.engine.clients.values()
    assert (client.queries, client.digest) == ({}, 0)
