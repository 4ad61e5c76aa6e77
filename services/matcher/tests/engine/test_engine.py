"""Sessions: opened, compared, paged, joined to the index, displaced, given up; and what a takeover owes them.

Stands for: engine, state, index, paging, requests
"""

import inspect
import re
from typing import Any

import msgspec
import pytest
from coldnotify_matcher.engine import clients, conflation, forgetting, gateways, index, objects, paging, requests, state
from coldnotify_matcher.engine import engine as engine_module
from coldnotify_matcher.engine.engine import GATEWAY_SILENCE_MS_MAX, STORE_CURSORS_EVERY_MS, Engine
from coldnotify_matcher.engine.paging import PAGE_BYTES_MAX
from coldnotify_matcher.engine.requests import REFUSALS_MAX
from coldnotify_matcher.metrics import EVENTS
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.state import SessionRecord
from coldnotify_testkit.engine_bench import (
    EPOCH,
    GATEWAY,
    INBOXES,
    OTHER_GATEWAY,
    PARTITION,
    PARTITIONS,
    PREFIX,
    Bench,
    answered,
    closed,
    fan_outs,
    kinds,
    opened,
    pages,
    versions,
)

BIG = b'{"version":1,"payload":"' + b"x" * 4000 + b'"}'
"""16 of these fill a page."""


def record_of(bench: Bench, client: str = "client-1") -> SessionRecord:
    return msgspec.json.decode(bench.latest(topics.SESSIONS)[PREFIX + client], type=SessionRecord)


# --- Open


def test_an_open_applies_unregister_then_register() -> None:
    bench = Bench()
    bench.opened("a", "b")
    bench.open(["b", "c"], register=["c"], unregister=["a", "c"], session=2)

    (told,) = [one for one in opened(bench.items()) if one.session == 2]

    assert told.in_sync
    assert told.digest == digest(["b", "c"])
    assert not told.HasField("epoch")


def test_in_sync_the_first_page_follows_at_once_and_is_the_last() -> None:
    bench = Bench()
    bench.version("a", 3)
    bench.version("of no interest", 3)
    bench.open(["a"], register=["a"], cursor=0)

    items = bench.items()

    assert kinds(items) == ["opened", "page"]
    (page,) = pages(items)
    assert (page.ask, page.page, page.last, page.complete) == (1, 1, True, 1), "complete up to the end"


def test_what_the_cursor_covers_is_not_sent_again_but_registrations_are_answered_whatever_it_says() -> None:
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.version(name, 3)
    bench.opened("a", "b")
    bench.open(["a", "b", "c", "never"], register=["c", "never", "a"], cursor=2, session=2)

    page = pages(bench.items())[-1]

    assert versions(page.newest) == [("c", 3), ("never", None), ("a", 3)]
    assert all(newest.answer for newest in page.newest)


def test_what_is_above_the_cursor_comes_in_offset_order_and_is_no_answer() -> None:
    bench = Bench()
    bench.opened("a", "b", "c")
    for name in ("c", "a", "b", "c"):
        bench.version(name, bench.engine.position + 1)
        bench.settle()
    bench.told.clear()
    bench.open(["a", "b", "c"], cursor=0, session=2)

    page = pages(bench.items())[-1]

    assert [(newest.name, newest.offset) for newest in page.newest] == [("a", 1), ("b", 2), ("c", 3)]
    assert not any(newest.answer or newest.behind for newest in page.newest)
    assert page.complete == 3


@pytest.mark.parametrize(
    ("cursor", "epoch", "told_epoch"),
    [(None, EPOCH, None), (0, EPOCH + 1, EPOCH), (0, None, EPOCH), (5, EPOCH, EPOCH), (2**64 - 1, EPOCH, EPOCH)],
)
def test_a_cursor_of_another_epoch_or_above_the_position_counts_as_none(
    cursor: int | None, epoch: int | None, told_epoch: int | None
) -> None:
    bench = Bench()
    bench.version("a", 3)
    bench.opened("a")
    bench.open(["a"], cursor=cursor, epoch=epoch, session=2)

    items = [item for item in bench.items() if item.WhichOneof("item") != "closed"]

    assert versions(pages(items)[0].newest) == [("a", 3)]
    (told,) = opened(items)
    assert (told.epoch if told.HasField("epoch") else None) == told_epoch


def test_an_empty_partition_completes_nothing() -> None:
    bench = Bench()
    bench.open(["a"], register=["a"])

    (page,) = pages(bench.items())

    assert page.last
    assert not page.HasField("complete")


def test_not_in_sync_nothing_follows_until_the_last_chunk() -> None:
    bench = Bench()
    bench.version("a", 3)
    bench.opened("a")
    bench.open(["a", "b"], session=2)
    items = [item for item in bench.items() if item.WhichOneof("item") != "closed"]
    assert kinds(items) == ["opened"]
    assert not opened(items)[0].in_sync

    bench.catch_up(None, ask=2, session=2)
    bench.sync(0, "a", session=2)

    assert bench.items() == []


# --- reg-sync


def test_a_reg_sync_replaces_the_set_and_sends_every_object() -> None:
    bench = Bench()
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
    bench = Bench()
    bench.opened("a")
    bench.open([], session=2)
    bench.items()
    bench.sync(0, last=True, session=2)

    (told,) = opened(bench.items())

    assert (told.in_sync, told.digest) == (True, 0)


def test_the_old_set_stays_in_force_until_the_last_chunk() -> None:
    bench = Bench()
    bench.opened("a")
    bench.open(["b"], session=2)
    bench.sync(0, "b", session=2)
    bench.items()
    bench.load()

    assert [obj.name for obj in bench.engine.clients[f"{PREFIX}client-1"].objects()] == ["a"]


def test_a_reg_sync_that_is_cut_in_the_middle_is_asked_for_anew() -> None:
    bench = Bench()
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
    bench = Bench()
    bench.open(["b", "c"])
    bench.sync(0, "x")
    bench.sync(0, "b")
    bench.sync(1, "c", last=True)

    told = opened(bench.items())

    assert told[-1].in_sync
    assert told[-1].digest == digest(["b", "c"])


def test_all_that_exceeds_the_limit_is_refused_by_name() -> None:
    bench = Bench(registrations_max=3)
    bench.open([f"o{i}" for i in range(6)])
    bench.sync(0, "o0", "o1", "o2", "o3")
    bench.sync(1, "o4", "o5", last=True)

    told = opened(bench.items())[-1]

    assert told.in_sync
    assert [refusal.object for refusal in told.refused] == ["o3", "o4", "o5"]
    assert told.digest == digest(["o0", "o1", "o2"])


def test_an_endless_reg_sync_is_held_in_bounds_and_its_welcome_is_a_frame_that_clients_take() -> None:
    bench = Bench(registrations_max=3)
    bench.open(["x"])
    for chunk in range(1000):
        bench.sync(chunk, *(f"{chunk:03}-{i:0251}" for i in range(2)))
    bench.settle()
    session = bench.engine.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert len(session.synced) == 3 + REFUSALS_MAX
    bench.sync(1000, last=True)

    told = opened(bench.items())[-1]

    assert len(told.refused) == REFUSALS_MAX
    assert told.ByteSize() < GATEWAY_FRAME_BYTES_MAX


def test_check_digest() -> None:
    bench = Bench()
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


# --- pages


def big_partition(bench: Bench, objects: int) -> list[str]:
    names = [f"big-{i:02}" for i in range(objects)]
    for name in names:
        bench.publish(name, BIG)
    return names


def test_pages_hold_64_kib_and_the_session_is_in_the_index_from_the_last_one_on() -> None:
    bench = Bench()
    names = big_partition(bench, 40)
    bench.open(names, register=names, cursor=None)
    got: list[str] = []
    cursor = -1
    for number in range(1, 10):
        (page,) = pages(bench.items())
        assert page.ByteSize() < PAGE_BYTES_MAX + 2 * len(BIG)
        assert (page.page, page.ask) == (number, 1)
        got += [newest.name for newest in page.newest]
        assert page.complete > cursor
        cursor = page.complete
        bench.version(names[0], number + 1)
        if page.last:
            break
        assert bench.items() == [], "not in the index yet: the page to come contains it"
        bench.catch_up(page.complete, page=number, ask=1)
    assert number == 3
    assert set(got) == set(names)
    assert got.count(names[0]) == 2, "it was published anew behind the pages"
    assert fan_outs(bench.items()) == [(names[0], 4, 42, [1])]


@pytest.mark.parametrize(
    ("asked_bytes", "objects"),
    [(0, 16), (1, 1), (1000, 1), (9000, 2), (64 * 1024, 16), (2**32 - 1, 16)],
)
def test_a_page_is_as_large_as_its_gateway_asks_within_bounds(asked_bytes: int, objects: int) -> None:
    bench = Bench()
    names = big_partition(bench, 40)
    bench.open(names, register=names, cursor=None, page_bytes=asked_bytes)
    (page,) = pages(bench.items())
    assert len(page.newest) == objects
    bench.catch_up(page.complete, page=1, ask=1, page_bytes=9000)
    (page,) = pages(bench.items())
    assert (page.page, len(page.newest)) == (2, 2)
    bench.catch_up(page.complete, ask=2, page_bytes=asked_bytes)
    (page,) = pages(bench.items())
    assert (page.page, len(page.newest)) == (1, objects)


def test_owed_answers_go_on_from_page_to_page() -> None:
    bench = Bench()
    names = big_partition(bench, 40)
    end = 39
    bench.open(names, register=names, cursor=end)
    got: list[str] = []
    for number in range(1, 10):
        (page,) = pages(bench.items())
        got += [newest.name for newest in page.newest]
        assert all(newest.answer for newest in page.newest)
        if page.last:
            break
        bench.catch_up(page.complete, page=number, ask=1)
    assert got == names


def test_answers_still_owed_are_not_forgotten_when_the_session_is_caught_up_from_anew() -> None:
    bench = Bench()
    names = big_partition(bench, 20)
    bench.open(names, register=names, cursor=19)
    first = pages(bench.items())[0]
    bench.catch_up(19, page=0, ask=2)  # a slow phase, say

    second = pages(bench.items())[0]

    assert [newest.name for newest in [*first.newest, *second.newest]] == names
    assert (second.ask, second.page) == (2, 1)


def test_what_a_client_unregistered_meanwhile_is_not_in_the_next_page() -> None:
    bench = Bench()
    names = big_partition(bench, 20)
    bench.open(names, register=names)
    page = pages(bench.items())[0]
    bench.unregister(names[-1])
    bench.catch_up(page.complete, page=1, ask=1)

    (page,) = pages(bench.items())

    assert names[-1] not in [newest.name for newest in page.newest]


def test_a_page_that_a_predecessor_sent_goes_on_with_the_next_one() -> None:
    bench = Bench()
    names = big_partition(bench, 40)
    bench.open(names, register=names)
    first = pages(bench.items())[0]
    bench.load()
    bench.told.clear()
    bench.catch_up(first.complete, page=1, ask=1)

    (second,) = pages(bench.items())

    assert (second.page, second.ask) == (2, 1)
    assert second.newest[0].offset == first.complete + 1


@pytest.mark.parametrize(("cursor", "epoch"), [(None, None), (99, None), (0, EPOCH + 1)])
def test_a_catch_up_whose_cursor_does_not_count_begins_at_none(cursor: int | None, epoch: int | None) -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a")
    bench.catch_up(cursor, ask=2, epoch=epoch)

    (page,) = pages(bench.items())

    assert versions(page.newest) == [("a", 1)]
    assert (page.ask, page.page, page.complete) == (2, 1, 0)


def test_a_session_that_is_caught_up_once_more_is_told_of_publishes_once() -> None:
    bench = Bench()
    bench.opened("a")
    bench.catch_up(None, ask=2)
    bench.settle()
    bench.version("a", 1)

    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]


# --- Register, Unregister


def test_a_registration_is_answered_and_told_of_publishes_from_then_on() -> None:
    bench = Bench()
    bench.version("b", 1)
    bench.opened("a")
    bench.register("b", "never", request=9)

    (answer,) = answered(bench.items())

    assert (answer.request, answer.unregistered, answer.digest) == (9, False, digest(["a", "b", "never"]))
    assert versions(answer.newest) == [("b", 1), ("never", None)]
    assert all(newest.answer for newest in answer.newest)
    bench.version("never", 1)
    assert fan_outs(bench.items()) == [("never", 1, 1, [1])]


def test_an_answer_that_does_not_fit_goes_on_in_records_of_no_request() -> None:
    bench = Bench()
    names = big_partition(bench, 40)
    bench.opened()
    bench.register(*names, request=9)

    answers = answered(bench.items())

    assert [answer.request for answer in answers] == [9, 0, 0]
    assert [name for answer in answers for name, _ in versions(answer.newest)] == names
    assert all(answer.ByteSize() < PAGE_BYTES_MAX + 2 * len(BIG) for answer in answers)


def test_unregistered_is_told_of_no_publish_any_more() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a", "b")
    bench.unregister("a", "never", request=4)

    (answer,) = answered(bench.items())

    assert (answer.request, answer.unregistered, answer.digest) == (4, True, digest(["b"]))
    bench.version("a", 2)
    assert bench.items() == []


# --- sessions come, go and displace each other


def test_a_new_session_displaces_the_old_one() -> None:
    bench = Bench()
    bench.opened("a")
    bench.open(["a"], session=5, gateway=OTHER_GATEWAY)

    assert closed(bench.items()) == [(1, CloseCode.DISPLACED)]

    bench.told.clear()
    bench.version("a", 1)
    assert bench.items() == []
    assert fan_outs(bench.items(OTHER_GATEWAY)) == [("a", 1, 0, [5])]


def test_an_open_again_displaces_nobody() -> None:
    bench = Bench()
    bench.opened("a", session=1)
    bench.opened("a", session=5, gateway=OTHER_GATEWAY)
    bench.told.clear()
    bench.open(["a"], session=1, again=True)

    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]

    bench.version("a", 1)
    bench.settle()
    assert fan_outs(bench.told[OTHER_GATEWAY].items) == [("a", 1, 0, [5])]


def test_an_open_again_of_a_client_without_session_is_as_good_as_any() -> None:
    bench = Bench()
    bench.open(["a"], register=["a"], again=True)

    assert opened(bench.items())[0].in_sync


def test_the_same_session_announced_again_stays_the_same() -> None:
    bench = Bench()
    bench.opened("a")
    bench.open(["a"], again=True)

    items = bench.items()

    assert kinds(items) == ["opened", "page"]
    bench.version("a", 1)
    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]


@pytest.mark.parametrize("body", ["register", "unregister", "sync", "catch_up", "check_digest"])
def test_requests_of_an_unknown_session_are_dropped_and_it_is_told(body: str) -> None:
    bench = Bench()
    bench.opened("a")
    empty: dict[str, Any] = {body: {}}
    bench.request(99, **empty)

    assert closed(bench.items()) == [(99, CloseCode.UNKNOWN_SESSION)]


def test_a_leave_of_an_unknown_session_is_nothing() -> None:
    bench = Bench()
    bench.opened("a")
    bench.leave(session=99)
    bench.leave(session=1, client="client-99")

    assert bench.items() == []
    assert bench.engine.clients[f"{PREFIX}client-1"].session is not None


def test_a_leave_ends_the_session_with_what_its_client_acknowledged() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a")
    bench.leave(complete=0)
    bench.settle()
    bench.version("a", 2)

    assert fan_outs(bench.items()) == []
    record = record_of(bench)
    assert (record.online, record.cursor) == (False, 0)


def test_a_session_that_is_over_does_not_come_back_under_its_number() -> None:
    bench = Bench()
    bench.opened("a", "b", session=1)
    bench.opened("a", "b", session=2, gateway=OTHER_GATEWAY)
    bench.request(2, gateway=OTHER_GATEWAY, unregister={"request": 1, "objects": ["b"]})
    bench.request(2, gateway=OTHER_GATEWAY, leave={})
    bench.told.clear()
    bench.open(["a"], session=1, again=True)
    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]

    bench.version("b", 1)

    assert fan_outs(bench.items()) == []


def test_a_replayed_open_of_before_does_not_bring_a_session_back() -> None:
    bench = Bench()
    bench.opened("a", session=1)
    bench.register("b", session=1)
    bench.opened("a", "b", session=2)
    bench.committed = (0, 0)
    bench.told.clear()

    bench.load()

    items = bench.told[GATEWAY].take()
    assert set(closed(items)) == {(1, CloseCode.UNKNOWN_SESSION)}
    assert [told.session for told in opened(items)] == [2]
    session = bench.engine.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert session.number == 2


# --- acknowledgements


def test_acks_are_clamped_and_never_go_down() -> None:
    bench = Bench()
    bench.opened("a")
    for version in (1, 2, 3):
        bench.version("a", version)
    bench.settle()
    client = bench.engine.clients[f"{PREFIX}client-1"]

    bench.acks({1: 1, 99: 2})
    bench.settle()
    assert client.cursor == 1
    bench.acks({1: 2**63})
    bench.settle()
    assert client.cursor == 2
    bench.acks({1: 0})
    bench.settle()
    assert client.cursor == 2


def test_the_clients_own_cursor_is_the_truth_even_if_it_is_lower() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a", cursor=0)
    bench.acks({1: 0})
    bench.open(["a"], session=2)

    page = pages(bench.items())[-1]

    assert versions(page.newest) == [("a", 1)]
    assert record_of(bench).cursor == -1


def test_cursors_are_stored_every_30_s() -> None:
    bench = Bench()
    bench.opened("a")
    bench.version("a", 1)
    bench.acks({1: 0})
    assert bench.settle().state == []
    for _ in range(3):
        bench.beat(1)
        assert bench.tick(STORE_CURSORS_EVERY_MS // 3 - 1).state == []
    bench.beat(1)

    (write,) = bench.tick(10).state

    assert write.topic == topics.SESSIONS
    assert record_of(bench).cursor == 0
    assert bench.tick(10_000).state == [], "once is enough"


def test_what_a_session_was_sent_and_its_client_did_not_acknowledge_is_not_taken_for_applied() -> None:
    bench = Bench()
    for version in range(1, 6):
        bench.version("a", version)
    bench.opened("a", cursor=2)
    client = bench.engine.clients[f"{PREFIX}client-1"]
    assert client.cursor == 2
    for acked, applied in ((3, 3), (None, clients.NO_CURSOR)):
        said = internal_pb2.Open(
            digest=client.digest, epoch=EPOCH, cursor=4, ask=2, again=True, acked=acked, register=["a"]
        )
        bench.request(open=said)
        bench.settle()
        assert client.cursor == applied


# --- beats


def test_a_beat_is_agreed_when_count_and_checksum_are_the_matchers_too() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a", session=3, client="client-3")
    bench.opened("a", session=4, client="client-4")

    def beat(*sessions: int) -> internal_pb2.BeatAnswer:
        bench.beat(*sessions)
        (item,) = bench.items()
        return item.beat

    agreed = beat(3, 4)
    assert (agreed.agreed, agreed.complete) == (True, 0)
    assert not beat(3).agreed
    assert not beat(3, 5).agreed
    assert not beat(3).HasField("complete"), "not true of a session that the matcher does not know"


def test_the_answer_to_a_beat_repeats_its_serial() -> None:
    bench = Bench()
    bench.beat(serial=7)
    bench.beat(serial=2**64 - 1)

    assert [item.beat.serial for item in bench.items()] == [7, 2**64 - 1]


def test_before_anything_was_published_there_is_no_position() -> None:
    bench = Bench()
    bench.beat()

    (item,) = bench.items()

    assert item.beat.agreed
    assert not item.beat.HasField("complete")


def test_a_gateway_that_falls_silent_loses_its_sessions() -> None:
    bench = Bench()
    bench.opened("a")
    bench.opened("a", session=2, client="client-2", gateway=OTHER_GATEWAY)
    bench.now_ms += GATEWAY_SILENCE_MS_MAX
    bench.beat(2, gateway=OTHER_GATEWAY)
    bench.settle()
    bench.tick(1)
    bench.told.clear()

    bench.version("a", 1)

    assert fan_outs(bench.items()) == []
    assert fan_outs(bench.told[OTHER_GATEWAY].items) == [("a", 1, 0, [2])]
    assert not record_of(bench).online
    bench.beat(1)
    assert not bench.items()[0].beat.agreed


def test_a_gateway_that_is_heard_in_time_keeps_them() -> None:
    bench = Bench()
    bench.opened("a")
    bench.tick(GATEWAY_SILENCE_MS_MAX)

    assert bench.engine.clients[f"{PREFIX}client-1"].session is not None


def test_sessions_of_a_gateway_that_was_silent_are_announced_and_live_again_told_once() -> None:
    bench = Bench()
    bench.opened("a", "b")
    bench.tick(GATEWAY_SILENCE_MS_MAX + 1)
    bench.open(["a"], unregister=["b"], again=True)
    numbers = [record.number for record in bench.told[GATEWAY].records]
    items = bench.items()
    assert kinds(items) == ["opened", "page"]
    assert [record.number for record in bench.told[GATEWAY].records][-1] == numbers[-1] + 1, "its numbers go on"

    bench.version("a", 1)
    bench.version("b", 1)

    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]


# --- takeover


def test_a_takeover_is_said_to_every_inbox() -> None:
    bench = Bench()
    bench.load()

    notices = bench.notices[-INBOXES:]

    assert all((n.gateway, n.number, n.generation, n.partition) == (0, 0, 2, PARTITION) for n in notices)
    assert not any(n.items for n in notices)


def test_what_the_predecessor_had_not_committed_is_fanned_out_by_the_offset_of_the_newest() -> None:
    bench = Bench()
    bench.opened("a", "b", "c")
    bench.version("c", 1)
    bench.settle()
    bench.told.clear()
    for name, version in (("b", 1), ("a", 1), ("b", 2)):
        bench.version(name, version)
    bench.step()  # and dies

    bench.load()

    assert fan_outs(bench.told[GATEWAY].items) == [("a", 1, 2, [1]), ("b", 2, 3, [1])]


def test_without_a_commit_sessions_are_caught_up_from_their_stored_cursors() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.version(name, 1)
    bench.opened("a", "b", cursor=0)
    bench.acks({1: 0})
    bench.committed = (len(bench.log.requests), None)
    bench.told.clear()

    bench.load()

    assert fan_outs(bench.told[GATEWAY].items) == [("b", 1, 1, [1])]


def test_sessions_of_another_epoch_are_told_to_come_back() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a", cursor=0)
    bench.told.clear()
    cluster = bench.cluster
    bench.cluster = type(cluster)(cluster.partitions, cluster.inboxes, "other", cluster.requests_topic_id, EPOCH + 1)

    bench.load()

    assert closed(bench.told[GATEWAY].take()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert not record_of(bench).online
    assert record_of(bench).cursor == -1


def test_registering_for_what_was_published_while_loading_and_after() -> None:
    bench = Bench()
    bench.opened("a")
    bench.version("a", 1)
    bench.load()
    bench.told.clear()
    bench.version("a", 2)

    assert fan_outs(bench.items()) == [("a", 2, 1, [1])]


# --- the state topics


@pytest.mark.parametrize("topic", [topics.REGISTRATIONS, topics.SESSIONS])
@pytest.mark.parametrize("by", ["null", "zombie"])
def test_what_a_zombie_or_a_null_overwrote_is_written_again(topic: str, by: str) -> None:
    bench = Bench()
    bench.opened("a")
    bench.load()
    before = bench.latest(topic)
    key, value = next((key, value) for key, value in before.items() if key.startswith(PREFIX))
    zombies = None if by == "null" else value.replace(b'"generation":2', b'"generation":1')
    bench.log.append(topic, key.encode(), zombies)
    bench.settle()

    after = bench.latest(topic)

    if topic == topics.REGISTRATIONS:
        assert b'"a"' in after[key]
    assert b'"generation":2' in after[key]


def test_a_zombies_bucket_of_a_client_that_is_not_known_any_more_is_removed() -> None:
    bench = Bench()
    bench.load()
    key = f"{PREFIX}gone/0"
    bench.log.append(topics.REGISTRATIONS, key.encode(), b'{"format":1,"generation":1,"applied":0,"objects":["a"]}')
    bench.settle()

    assert key not in bench.latest(topics.REGISTRATIONS)


def test_every_state_record_says_its_generation() -> None:
    bench = Bench()
    for session in (1, 2):
        bench.opened("a", session=session)
        bench.load()
    bench.opened("a", session=3)

    for topic in (topics.REGISTRATIONS, topics.SESSIONS):
        generations = [msgspec.json.decode(record.value or b"")["generation"] for record in bench.log.records[topic]]
        assert generations == sorted(generations)
        assert generations[-1] == (3 if topic == topics.SESSIONS else 1)


def test_the_same_requests_twice_are_the_same_state_once() -> None:
    bench = Bench()
    bench.version("a", 1)
    bench.opened("a", "b")
    bench.register("c")
    bench.unregister("a")
    bench.open(["b", "c", "d"], session=2)
    bench.sync(0, "b", "c", "d", last=True, session=2)
    bench.acks({2: 0})
    bench.settle()
    before = {topic: bench.latest(topic) for topic in (topics.REGISTRATIONS,)}
    bench.committed = (0, 0)
    bench.load()

    assert {topic: bench.latest(topic) for topic in (topics.REGISTRATIONS,)} == before
    client = bench.engine.clients[f"{PREFIX}client-1"]
    assert client.session is not None
    assert (client.session.number, client.cursor) == (2, 0)


def test_every_count_has_its_metric() -> None:
    names = set(_counted_names())

    assert names <= set(EVENTS)


def _counted_names() -> list[str]:
    modules = (engine_module, clients, conflation, forgetting, gateways, index, objects, paging, requests, state)
    source = "".join(inspect.getsource(module) for module in modules)
    names = re.findall(r'"([a-z_]+)"', "".join(re.findall(r"\.count\((.*)\)", source)))
    assert len(set(names)) > 10, "the calls look otherwise now"
    return names


def test_an_engine_begins_with_nothing() -> None:
    engine = Engine(PARTITION, PARTITIONS, EPOCH)

    assert not engine.take_step(0)
    assert engine.position == 0
