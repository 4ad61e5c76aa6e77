"""Pages that wait until the sets of their client's queries are known."""

import pytest
from coldnotify_matcher.engine import Step
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet, QuerySets
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_streams.core.partition_turns import Spent
from coldnotify_testkit.counted_turns import turn_of
from coldnotify_testkit.engine_bench import EPOCH, EngineBench, pages, query_interest

FIRST, SECOND = "has a", "has b"


class Computing:
    """Sets are computed when a test says so."""

    done = False


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> type[Computing]:
    compute = QuerySets.compute

    def held(self: QuerySets, position: int, spent: Spent) -> list[QuerySet]:
        return compute(self, position, spent) if Computing.done else []

    monkeypatch.setattr(QuerySets, "compute", held)
    Computing.done = False
    return Computing


def opened(*texts: str) -> EngineBench:
    """A client with these queries, whose first page waits."""
    bench = EngineBench()
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    queries = [query_interest(text) for text in texts]
    digest = sum(map(query_hash, texts)) % MODULUS
    bench.request(open=internal_pb2.Open(digest=digest, interests=queries, epoch=EPOCH, ask=1))
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
    bench.request(register=wire_pb2.Register(request=1, interests=[query_interest(SECOND)]))
    bench.settle()
    computing.done = True
    bench.settle()
    page = pages(bench.items())[-1]
    assert page.last
    assert sorted(page.answered) == sorted([query_hash(FIRST), query_hash(SECOND)])


def test_a_page_does_not_wait_for_a_query_that_is_wanted_no_more(computing: type[Computing]) -> None:
    bench = opened(FIRST)
    bench.request(unregister=wire_pb2.Unregister(request=1, interests=[query_hash(FIRST)]))
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


def test_pages_of_many_clients_for_one_set_are_made_in_turns(computing: type[Computing]) -> None:
    bench = EngineBench()
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    bench.read()
    for number in range(5):
        open_ = internal_pb2.Open(digest=query_hash(FIRST), interests=[query_interest(FIRST)], epoch=EPOCH, ask=1)
        bench.request(number + 1, client=f"client-{number}", open=open_)
    opens = list(enumerate(bench.log.requests))
    engine = bench.engine
    for _ in range(5):  # each turn has its first one, whatever it takes
        assert engine.on_requests(opens, bench.now_ms, turn_of(0)) == 1
        del opens[0]
    computing.done = True
    engine.take_step(bench.now_ms)
    assert engine.next_due_ms() == 0
    told, turns = 0, 0
    while engine.unfinished:
        engine.flush(bench.now_ms, turn_of(0))
        turns += 1
        last = [page for page in pages_of(engine.take_step(bench.now_ms)) if page.last]
        assert len(last) <= 1
        told += len(last)
    assert told == 5
    assert turns >= 5
    assert not bench.engine.unfinished


def pages_of(step: Step) -> list[internal_pb2.Page]:
    return [item.page for _, record in step.inboxes for item in record.items if item.HasField("page")]


def test_opens_that_were_superseded_stay_so_where_a_turn_ends_between_them() -> None:
    bench = EngineBench()
    open_ = internal_pb2.Open(epoch=EPOCH, ask=1)
    bench.request(1, open=open_)
    bench.request(9, client="other", open=open_)
    again = internal_pb2.Open(epoch=EPOCH, ask=2, again=True)
    bench.request(1, open=again)
    requests = list(enumerate(bench.log.requests))
    while requests:
        del requests[: bench.engine.on_requests(requests, bench.now_ms, turn_of(0))]
    told = [item for _, record in bench.engine.take_step(0).inboxes for item in record.items]
    assert [item.opened.ask for item in told if item.HasField("opened")] == [1, 2]
    assert not any(item.HasField("closed") for item in told), "the second one stands for the first"
