"""Requests that the gateway makes by itself: asked again, announcements after a loss; who asks for descriptions."""

import pytest
from coldnotify_gateway.core import SessionState
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.internal_pb2 import Item, Opened
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_DESCRIPTIONS,
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    CAPABILITY_UNSETTLED,
    KINDS_DESCRIPTIONS,
)
from coldnotify_testkit.device_frames import EPOCH, ack, hello, register, sync, unregister
from coldnotify_testkit.gateway_bench import beat_answer, fan_out, opened, page


def test_after_the_last_chunk_the_matcher_is_asked_again(bench):
    bench.answers_beats = True
    wire = bench.opening(hello(wanted=("a",)))
    bench.inbox(opened(1, 1, in_sync=False))
    bench.say(wire, sync(0, "a", last=True))
    bench.take_requests()
    bench.later(12)
    (request,) = [request for request in bench.take_requests() if request.HasField("open")]
    assert (request.open.ask, request.open.again, request.open.digest) == (2, True, digest(["a"]))


def test_a_gap_announces_every_session_before_anything_else_in_the_record(bench):
    live, waiting = bench.live(hello("a", wanted=("x",)), complete=3), bench.opening(hello("b", register=("y",)))
    bench.take_requests()
    bench.inbox(fan_out("a", 1, 6, 1), beat_answer(6), number=bench.number + 2)
    first, second = bench.take_requests("open", "open")
    assert (first.open.cursor, first.open.digest, first.open.again) == (3, digest(["x"]), True)
    assert list(second.open.register) == ["y"]
    assert live.kinds() == waiting.kinds() == []
    assert bench.gateway.counters.gaps == 1
    bench.inbox(opened(1, first.open.ask, said=digest(["x"])), page(1, first.open.ask, last=True))
    assert live.kinds() == ["caught_up"]  # no second Welcome


def test_a_slow_session_asks_after_it_is_drained_not_at_the_gap(bench):
    wire = bench.live(complete=3)
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(number=bench.number + 5)
    assert bench.take_requests() == []
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("open")
    assert (request.open.cursor, request.open.again) == (3, True)


@pytest.mark.parametrize(("in_sync", "asked"), [(False, "open"), (True, "catch_up")])
def test_a_slow_session_that_is_to_be_opened_again_is_so_once_it_is_drained(bench, in_sync, asked):
    wire = bench.live(complete=3)
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(Item(opened=Opened(session=1, in_sync=in_sync)))
    assert bench.take_requests() == []
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    bench.take_requests(asked)


def test_a_new_matcher_is_asked_by_those_that_have_waited_for_the_old_one(bench):
    bench.opening(hello("a"))
    bench.later(4)
    bench.opening(hello("b"))
    bench.take_requests()
    bench.new_matcher()
    (request,) = bench.take_requests("open")
    assert (request.session, request.open.ask) == (1, 2)


def test_an_announcement_says_what_the_client_applied_too(bench):
    wire = bench.live(complete=3)
    bench.new_matcher()
    bench.inbox(fan_out("x", 1, 6, 1), number=2)
    (request,) = bench.take_requests("open")
    assert not request.open.HasField("acked")
    bench.say(wire, ack(complete=3))
    bench.inbox(fan_out("x", 2, 7, 1), number=4)
    (request,) = bench.take_requests("open")
    assert (request.open.cursor, request.open.acked) == (3, 3)
    bench.live(hello("b", cursor=2), complete=3)
    bench.inbox(fan_out("x", 3, 8, 2), number=9)
    *_, request = bench.take_requests("open", "open")
    assert (request.open.cursor, request.open.acked) == (3, 2)


def test_two_beats_that_do_not_agree_announce_all_sessions(bench):
    wire = bench.live(hello("a", wanted=("x",)), complete=3)
    bench.inbox(beat_answer(9, agreed=False))
    assert bench.take_requests() == []
    bench.inbox(beat_answer(9))
    bench.inbox(beat_answer(9, agreed=False))
    assert bench.take_requests() == []
    bench.inbox(beat_answer(9, agreed=False))
    (request,) = bench.take_requests("open")
    assert (request.open.cursor, request.open.digest, request.open.ask) == (9, digest(["x"]), 2)
    assert bench.session(1).state is SessionState.OPENING
    assert bench.gateway.counters.announcements == 1
    bench.inbox(opened(1, 2, said=digest(["x"])))
    assert wire.kinds() == []
    assert bench.session(1).state is SessionState.CATCHING


def test_an_announcement_that_finds_another_epoch_sends_the_client_away(bench):
    """It has a cursor that is void, and only a Welcome says so: to its next Hello."""
    wire = bench.live(hello(cursor=3))
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    bench.inbox(opened(1, request.open.ask, epoch=EPOCH + 1))
    assert wire.take()[0].close.code == CloseCode.UNKNOWN_SESSION


def test_an_announcement_that_is_not_in_sync_is_told(bench):
    wire = bench.live()
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    bench.inbox(opened(1, request.open.ask, in_sync=False))
    assert not wire.take()[0].welcome.in_sync
    assert bench.session(1).state is SessionState.UNSYNCED


@pytest.mark.parametrize("in_sync", [True, False])
def test_an_open_repeats_the_hellos_report_of_all_that_is_unsettled_until_the_welcome(bench, in_sync):
    bench.answers_beats = True
    wire = bench.opening(hello(wanted=("a",), capabilities=CAPABILITY_UNSETTLED))
    bench.later(12)
    first, *_, last = [request.open for request in bench.requests if request.HasField("open")]
    assert first.all_unsettled
    assert (last.again, last.all_unsettled) == (True, True)
    bench.inbox(opened(1, last.ask, in_sync=in_sync))
    if not in_sync:
        bench.say(wire, sync(0, "a", last=True))
    bench.take_requests()
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    assert (request.open.again, request.open.all_unsettled) == (True, False)


DESCRIBING = CAPABILITY_NAMES | CAPABILITY_QUERIES | CAPABILITY_DESCRIPTIONS


@pytest.mark.parametrize("capabilities", [CAPABILITY_NAMES | CAPABILITY_QUERIES, DESCRIBING])
def test_the_matcher_hears_with_each_open_who_asks_for_descriptions(bench, capabilities):
    asked = capabilities == DESCRIBING
    device = bench.opening(hello("a", capabilities=capabilities))
    assert bench.requests[-1].open.descriptions is asked
    bench.inbox(opened(1, 1), page(1, 1, last=True))
    bench.say(device, register(1, "b"))
    assert bench.requests[-1].descriptions is asked
    bench.say(device, unregister(2, "b"))
    assert not bench.requests[-1].descriptions
    unsynced = bench.opening(hello("b", capabilities=capabilities))
    bench.inbox(opened(2, 1, in_sync=False))
    bench.say(unsynced, sync(0, last=True))
    assert bench.requests[-1].descriptions is asked


def test_a_matcher_that_has_not_heard_of_a_session_hears_that_shares_are_handed_on(bench):
    device = bench.opening(hello("a"))
    assert bench.requests[-1].open.shares
    bench.inbox(opened(1, 1), page(1, 1, last=True))
    bench.say(device, register(1, "b"))
    assert bench.requests[-1].shares
    bench.say(device, unregister(2, "b"))
    assert not bench.requests[-1].shares
    unsynced = bench.opening(hello("b"))
    bench.inbox(opened(2, 1, in_sync=False))
    bench.say(unsynced, sync(0, last=True))
    assert bench.requests[-1].shares


@pytest.mark.parametrize(("before", "after"), [(KINDS_DESCRIPTIONS, 0), (0, KINDS_DESCRIPTIONS)])
def test_a_session_ends_where_another_release_takes_over_that_tells_descriptions_otherwise(bench, before, after):
    """Its client would go on with descriptions that nobody told it."""
    wire = bench.opening(hello("a", capabilities=DESCRIBING))
    first = opened(1, 1)
    first.opened.kinds = before
    bench.inbox(first, page(1, 1, last=True))
    assert wire.take()[0].welcome.kinds == before
    bench.inbox(opened(1, 0, in_sync=False))
    announced = bench.requests[-1].open
    assert announced.descriptions
    again = opened(1, announced.ask)
    again.opened.kinds = after
    bench.inbox(again)
    (closed,) = wire.take()
    assert closed.close.code == CloseCode.UNKNOWN_SESSION
