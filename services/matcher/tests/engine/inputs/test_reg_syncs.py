"""Reg-sync: a client says its whole set, in chunks; and the digest that tells whether it has to."""

from coldnotify_matcher.engine.clients.sessions import NO_ASK
from coldnotify_matcher.engine.inputs.registering.registration_requests import REFUSALS_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX
from coldnotify_testkit.engine_bench import (
    PREFIX,
    EngineBench,
    kinds,
    opened,
    pages,
    versions,
)


def test_not_in_sync_nothing_follows_until_the_last_chunk() -> None:
    bench = EngineBench()
    bench.version("a", 3)
    bench.opened("a")
    bench.open(["a", "b"], session=2)
    items = [item for item in bench.items() if item.WhichOneof("item") != "closed"]
    assert kinds(items) == ["opened"]
    assert not opened(items)[0].in_sync

    bench.sync(0, "a", session=2)
    assert bench.items() == []


def test_a_question_for_pages_of_a_session_that_is_sent_none_is_answered_by_a_doubt() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["a", "b"], session=2)
    bench.items()
    bench.catch_up(None, ask=2, session=2)
    (told,) = opened(bench.items())
    assert (told.session, told.ask, told.in_sync) == (2, NO_ASK, False)


def test_a_reg_sync_replaces_the_set_and_sends_every_object() -> None:
    bench = EngineBench()
    bench.version("b", 3)
    bench.opened("a", "b")
    bench.open(["b", "c"], session=2, cursor=0)
    bench.sync(0, "b", session=2)
    bench.items()
    bench.sync(1, "c", last=True, session=2)

    items = bench.items()

    assert kinds(items) == ["opened", "page"]
    assert opened(items)[0].in_sync
    assert opened(items)[0].digest == digest(["b", "c"])
    (page,) = pages(items)
    assert sorted(versions(page.newest)) == [("b", 3), ("c", None)]
    assert {newest.name for newest in page.newest if newest.answer} == {"c"}
    assert (page.ask, page.page, page.last) == (1, 1, True)


def test_an_empty_set_is_one_empty_chunk() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open([], session=2)
    bench.items()
    bench.sync(0, last=True, session=2)

    (told,) = opened(bench.items())

    assert (told.in_sync, told.digest) == (True, 0)


def test_the_old_set_stays_in_force_until_the_last_chunk() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["b"], session=2)
    bench.sync(0, "b", session=2)
    bench.items()
    bench.load()

    assert [obj.name for obj in bench.engine.state.clients[f"{PREFIX}client-1"].objects()] == ["a"]


def test_a_reg_sync_that_is_cut_in_the_middle_is_asked_for_anew() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["b", "c"], session=2)
    bench.sync(0, "b", session=2)
    bench.settle()
    bench.load()  # the chunk was only in memory
    bench.told.clear()
    bench.sync(1, "c", last=True, session=2)

    (told,) = opened(bench.items())
    assert not told.in_sync

    bench.sync(0, "b", session=2)
    bench.sync(1, "c", last=True, session=2)
    assert opened(bench.items())[0].digest == digest(["b", "c"])


def test_index_0_begins_anew() -> None:
    bench = EngineBench()
    bench.open(["b", "c"])
    bench.sync(0, "x")
    bench.sync(0, "b")
    bench.sync(1, "c", last=True)

    told = opened(bench.items())

    assert told[-1].in_sync
    assert told[-1].digest == digest(["b", "c"])


def test_all_that_exceeds_the_limit_is_refused_by_name() -> None:
    bench = EngineBench(registrations_max=3)
    bench.open([f"o{i}" for i in range(6)])
    bench.sync(0, "o0", "o1", "o2", "o3")
    bench.sync(1, "o4", "o5", last=True)

    told = opened(bench.items())[-1]

    assert told.in_sync
    assert [refusal.object for refusal in told.refused] == ["o3", "o4", "o5"]
    assert told.digest == digest(["o0", "o1", "o2"])


def test_an_endless_reg_sync_is_held_in_bounds_and_its_welcome_is_a_frame_that_clients_take() -> None:
    bench = EngineBench(registrations_max=3)
    bench.open(["x"])
    for chunk in range(1000):
        bench.sync(chunk, *(f"{chunk:03}-{i:0251}" for i in range(2)))
    bench.settle()
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert len(bench.engine.state.half_sets.said(session)) == 3 + REFUSALS_MAX
    bench.sync(1000, last=True)

    told = opened(bench.items())[-1]

    assert len(told.refused) == REFUSALS_MAX
    assert told.ByteSize() < GATEWAY_FRAME_BYTES_MAX


def test_check_digest() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a")
    bench.request(check_digest=internal_pb2.CheckDigest(digest=digest(["a"]), ask=5))
    items = bench.items()
    assert kinds(items) == ["opened"], "no pages"
    assert (opened(items)[0].in_sync, opened(items)[0].ask) == (True, 5)

    bench.request(check_digest=internal_pb2.CheckDigest(digest=digest(["a", "b"]), ask=6))
    (told,) = opened(bench.items())
    assert (told.in_sync, told.ask) == (False, 6)

    bench.sync(0, "a", "b", last=True)
    (page,) = pages(bench.items())
    assert page.ask == 6
    assert len(page.newest) == 2


def test_a_set_that_is_said_twice_is_paged_from_where_the_gateway_stands() -> None:
    """Two matchers asked for the set: the gateway has the first page of the first answer, and drops that of the second.

    Of the second answer a page under the same number would go on behind what the gateway never took.
    """
    bench = EngineBench()
    bench.opened("a", "b", "c")
    large = b'{"version":%d,"payload":"' + b"x" * 900 + b'"}'
    for version, name in enumerate("abc", 1):
        bench.publish(name, large % version)
    bench.open(["a", "b", "c", "d"], session=2, page_bytes=1024)
    bench.items()
    bench.sync(0, "a", "b", "c", "d", last=True, session=2)
    (taken,) = pages(bench.items())
    assert versions(taken.newest) == [("d", None), ("a", 1)]

    bench.publish("a", large % 4)
    bench.sync(0, "a", "b", "c", "d", last=True, session=2)
    (dropped,) = pages(bench.items())
    assert versions(dropped.newest) == [("d", None), ("b", 2)]

    bench.catch_up(taken.complete, page=1, ask=1, session=2, paging=taken.paging)
    (second,) = pages(bench.items())
    assert versions(second.newest) == [("b", 2), ("c", 3), ("a", 4)]
    assert (second.ask, second.page) == (1, 2)
