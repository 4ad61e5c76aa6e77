"""What identified clients say."""

from typing import cast

import pytest
from coldnotify_gateway.core import Limits, SessionState, requests
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Answered, Handed, Item, Opened, Page
from coldnotify_schemas.wire_pb2 import (
    HELD_BEGUN,
    INTEREST_SHARE,
    ClientFrame,
    HeldMessage,
    HeldShare,
    HeldState,
    Interest,
    Leases,
    Register,
    Since,
    SyncChunk,
)
from coldnotify_testkit.device_frames import ack, bye, hello, hold, ping, register, sync, unregister
from coldnotify_testkit.gateway_bench import GatewayBench, opened


def test_requests_carry_who_asks(bench):
    wire = bench.live()
    bench.say(wire, register(4, "a", "b"), unregister(5, "c"))
    first, second = bench.take_requests("register", "unregister")
    assert (first.format, first.gateway, first.inbox, first.session) == (1, bench.GATEWAY, bench.INBOX, 1)
    assert (first.domain, first.group, first.client) == ("animal.observer", "region-1", "client-1")
    assert (first.register.request, list(first.register.objects)) == (4, ["a", "b"])
    assert (second.unregister.request, list(second.unregister.objects)) == (5, ["c"])


@pytest.mark.parametrize(
    ("frame", "code", "words"),
    [
        (register(1, ""), CloseCode.BAD_NAME, "register: object: '' has 0 bytes"),
        (unregister(1, "x" * 256), CloseCode.BAD_NAME, "unregister: object"),
        (sync(0, "ok", "é" * 128), CloseCode.BAD_NAME, "sync: object"),
        (
            register(1, *map(str, range(65))),
            CloseCode.PROTOCOL_ERROR,
            "register: 65 objects, queries and channels in one frame",
        ),
        (sync(0, *map(str, range(65))), CloseCode.PROTOCOL_ERROR, "sync: 65 objects, queries and channels"),
        (hello(), CloseCode.PROTOCOL_ERROR, "hello: came a second time"),
        (b"\x03abc", CloseCode.PROTOCOL_ERROR, "not a client's frame"),
        (b"\xff\xff\xff\xff\xff\xff", CloseCode.PROTOCOL_ERROR, "varint"),
        (b"\x81\x80\x02", CloseCode.FRAME_TOO_LARGE, "32769 bytes"),
    ],
)
def test_what_must_not_be_closes_the_session_and_names_it(bench, frame, code, words):
    wire = bench.live()
    bench.say(wire, ping(), frame, ping())
    pong, close = wire.take()
    assert pong.HasField("pong")
    assert close.close.code == code
    assert words in close.close.reason
    assert wire.finished
    bench.take_requests("leave")
    bench.say(wire, ping())
    assert wire.kinds() == []


@pytest.mark.parametrize("frame", [b"\0", encode(ClientFrame()), b"\x03\xfa\x01\x00"])
def test_frames_that_mean_nothing_are_skipped(bench, frame):
    wire = bench.live()
    bench.say(wire, frame * 100, ping())
    assert wire.kinds() == ["pong"]


def test_frames_may_come_in_any_pieces(bench):
    wire = bench.live()
    for byte in encode(ClientFrame(register=Register(request=1, objects=["a" * 200]))):
        bench.say(wire, bytes([byte]))
    bench.take_requests("register")


def test_bye_is_the_end_and_says_what_was_acknowledged(bench):
    wire = bench.live(complete=9)
    bench.say(wire, ack(9), bye(), ping())
    (request,) = bench.take_requests("leave")
    assert (request.leave.complete, request.leave.bye) == (9, True)
    assert wire.kinds() == []
    assert wire.finished


def test_acks_are_merged_into_one_record_a_second(bench):
    first, second = bench.live(hello("a"), complete=3), bench.live(hello("b"), complete=3)
    bench.later(1)
    bench.take_requests()
    bench.say(first, ack(1))
    bench.say(first, ack(3))
    bench.say(first, ack(2))
    bench.say(second, ack(3))
    assert bench.take_requests() == []
    bench.later(1.5)
    (request,) = bench.take_requests("acks")
    assert (list(request.acks.sessions), list(request.acks.completes)) == ([1, 2], [3, 3])
    assert (request.session, request.client) == (0, "")
    bench.later(2)
    assert bench.take_requests() == []


def test_a_new_matcher_is_told_again_what_was_acknowledged(bench):
    """The one before may not have stored it: the ledger would name who has applied all."""
    first, second = bench.live(hello("a"), complete=3), bench.live(hello("b"), complete=3)
    bench.live(hello("c"), complete=3)
    bench.say(first, ack(2))
    bench.say(second, ack(3))
    bench.later(1.5)
    bench.take_requests()
    bench.new_matcher()
    bench.later(3)
    (acks,) = [request.acks for request in bench.take_requests() if request.HasField("acks")]
    assert dict(zip(acks.sessions, acks.completes, strict=True)) == {1: 2, 2: 3}


def test_acknowledgements_say_of_which_epoch_they_are(bench):
    """A matcher of another one handles once more what the one before had not committed."""
    wire = bench.opening()
    bench.inbox(
        Item(opened=Opened(session=1, ask=1, in_sync=True, epoch=77)),
        Item(page=Page(session=1, ask=1, page=1, last=True, complete=3)),
    )
    bench.say(wire, ack(3))
    bench.later(1.5)
    (acks,) = [request.acks for request in bench.take_requests() if request.HasField("acks")]
    assert (list(acks.completes), acks.epoch) == ([3], 77)
    bench.say(wire, bye())
    (leave,) = [request.leave for request in bench.take_requests() if request.HasField("leave")]
    assert (leave.complete, leave.epoch) == (3, 77)


def test_many_acknowledgements_are_several_requests(bench, monkeypatch):
    monkeypatch.setattr(requests, "ACKS_MAX", 2)
    for name in "abc":
        bench.say(bench.live(hello(name), complete=3), ack(3))
    bench.later(1.5)
    acks = [request.acks for request in bench.take_requests() if request.HasField("acks")]
    assert [list(said.sessions) for said in acks][-2:] == [[1, 2], [3]]


def test_what_looks_like_an_ack_within_another_frame_is_a_part_of_it(bench):
    wire = bench.live(complete=3)
    bench.later(1)
    bench.take_requests()
    bench.say(wire, encode(ClientFrame(register=Register(request=1, objects=["a" * 64])))[:10])
    bench.say(wire, ack(3))
    bench.later(1.5)
    assert all(request.WhichOneof("body") != "acks" for request in bench.take_requests())


def test_acks_before_the_opened_belong_to_an_unknown_epoch(bench):
    wire = bench.opening()
    bench.say(wire, ack(5), bye())
    open_, leave = bench.take_requests("open", "leave")
    assert open_.open.ask == 1
    assert not leave.leave.HasField("complete")


def test_pong_says_nothing_of_completeness_before_the_welcome(bench):
    wire = bench.opening(hello(cursor=4))
    bench.say(wire, ping())
    assert not wire.take()[0].pong.HasField("complete")
    bench.inbox(Item(opened=Opened(session=1, ask=1)))
    bench.say(wire, ping())
    assert not wire.take()[1].pong.HasField("complete")


def test_another_digest_is_checked_once_and_the_session_stays_live(bench):
    wire = bench.live(hello(wanted=("a",)))
    bench.say(wire, ping(digest(["a"])), ping())
    assert bench.take_requests() == []
    bench.say(wire, ping(digest(["b"])), ping(digest(["b"])))
    (request,) = bench.take_requests("check_digest")
    assert (request.check_digest.digest, request.check_digest.ask) == (digest(["b"]), 2)
    assert bench.session(1).state is SessionState.LIVE
    wire.take()
    bench.inbox(Item(opened=Opened(session=1, ask=2, in_sync=True, digest=digest(["b"]))))
    assert wire.kinds() == []
    bench.say(wire, ping(digest(["b"])))
    assert bench.take_requests() == []


def test_after_a_takeover_the_agreed_digest_is_checked_once_more(bench):
    wire = bench.live(hello(wanted=("a",)))
    bench.new_matcher()
    bench.take_requests()
    bench.say(wire, ping(), ping(digest(["a"])))
    (request,) = bench.take_requests("check_digest")
    bench.inbox(Item(opened=Opened(session=1, ask=request.check_digest.ask, in_sync=True, digest=digest(["a"]))))
    bench.say(wire, ping(digest(["a"])))
    assert bench.take_requests() == []


def test_a_digest_that_really_differs_begins_a_reg_sync(bench):
    wire = bench.live(hello(wanted=("a",)))
    bench.say(wire, ping(digest(["b"])))
    bench.inbox(Item(opened=Opened(session=1, ask=2)))
    _, frame = wire.take()
    assert frame.HasField("welcome")
    assert not frame.welcome.in_sync
    assert bench.session(1).state is SessionState.UNSYNCED


def test_a_digest_that_differs_while_pages_come_is_checked_after_them(bench):
    wire = bench.opening(hello(wanted=("a",)))
    (request,) = bench.take_requests("open")
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=True, digest=request.open.digest)))
    bench.say(wire, ping(digest(["b"])))
    assert bench.take_requests() == []
    item = Item()
    item.page.session, item.page.ask, item.page.page, item.page.last = 1, 1, 1, True
    bench.inbox(item)
    bench.take_requests("check_digest")


def test_a_digest_said_before_an_operation_is_not_asked_about_again(bench):
    bench.answers_beats = True
    wire = bench.live(hello(wanted=("a",)))
    bench.say(wire, ping(digest(["b"])), register(1, "b"))
    bench.take_requests("check_digest", "register")
    bench.later(12)
    assert all(request.HasField("beat") for request in bench.take_requests())
    assert not bench.session(1).question.checks


def test_a_check_without_an_answer_is_repeated(bench):
    bench.answers_beats = True
    wire = bench.live(hello(wanted=("a",)))
    bench.say(wire, ping(digest(["b"])))
    bench.take_requests()
    bench.later(12)
    (request,) = [request for request in bench.take_requests() if request.HasField("check_digest")]
    assert request.check_digest.ask == 3


def test_a_session_that_was_slow_during_a_check_is_announced_not_caught_up(bench):
    """The matcher may have found it not in sync, and answers nothing but an Open then."""
    wire = bench.live(hello(wanted=("a",)), complete=2)
    bench.say(wire, ping(digest(["b"])))
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.take_requests()
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("open")
    assert (request.open.digest, request.open.cursor) == (digest(["b"]), 2)


def test_too_many_unanswered_requests_are_dropped_and_come_again_later():
    bench = GatewayBench(Limits(requests_unanswered_max=2))
    wire = bench.live()
    bench.say(wire, *[register(i, "a") for i in (1, 2, 3)])
    assert len(bench.take_requests()) == 2
    assert bench.gateway.counters.requests_dropped == 1
    bench.inbox(Item(answered=Answered(session=1, request=1)))
    bench.say(wire, register(3, "a"), register(4, "a"))
    assert len(bench.take_requests()) == 1
    bench.later(31)
    bench.take_requests()
    bench.say(wire, register(4, "a"))
    bench.take_requests("register")


def test_a_set_that_is_sent_again_and_again_in_vain_makes_the_gateway_ask_anew():
    """A matcher that loaded the session answers by an asking that is not the session's."""
    bench = GatewayBench()
    bench.answers_beats = True
    wire = bench.opening(hello(keepalive_s=60))
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=False)))
    bench.new_matcher()
    bench.take_requests()
    for _ in range(3):
        bench.say(wire, sync(0, "a", last=True))
        bench.inbox(Item(opened=Opened(session=1, ask=0, in_sync=True)))
        bench.later(4)
    assert [request.open.ask for request in bench.take_requests() if request.HasField("open")] == [2]


def test_sync_chunks_are_passed_on_up_to_their_limit():
    """A client that is not in sync could otherwise fill the requests topic as fast as it can send."""
    bench = GatewayBench(Limits(sync_chunks_max=3))
    wire = bench.opening(hello(keepalive_s=60))
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=False)))
    bench.take_requests()
    bench.say(wire, *[sync(0, "a") for _ in range(5)])
    assert len(bench.take_requests()) == 3
    assert bench.gateway.counters.requests_dropped == 2
    bench.later(31)
    bench.take_requests()
    bench.say(wire, sync(0, "a"), sync(1, last=True))
    bench.take_requests("sync", "sync")
    assert wire.finished is False
    bench.say(wire, sync(3, "b"))
    (*_, close) = wire.take()
    assert (close.close.code, close.close.reason[:13]) == (CloseCode.PROTOCOL_ERROR, "sync: chunk 3")


UNKNOWN_STATE, UNKNOWN_SINCE = cast(HeldState, 9), cast(Since, 99)
SHARE = Interest(kind=INTEREST_SHARE, text="tasks", share="workers", attributes=["a", "b"])


def test_a_share_is_registered_and_synced_as_its_client_says_it(bench):
    wire = bench.live()
    bench.say(wire, encode(ClientFrame(register=Register(request=1, interests=[SHARE]))))
    (request,) = bench.take_requests("register")
    assert list(request.register.interests) == [SHARE]
    assert bench.session(1).channels is None  # what a share hands out is in no stream
    synced = bench.opening(hello("b"))
    (request,) = bench.take_requests("open")
    assert request.open.shares
    bench.inbox(opened(2, 1, in_sync=False))
    bench.say(synced, encode(ClientFrame(sync=SyncChunk(last=True, interests=[SHARE]))))
    (request,) = bench.take_requests("sync")
    assert list(request.sync.interests) == [SHARE]


def test_a_hold_is_passed_on_as_it_is(bench):
    wire = bench.live()
    held = HeldShare(share=7, lease_s=30, prefetch=2, messages=[HeldMessage(offset=5, hand_out=2, state=HELD_BEGUN)])
    bench.say(wire, hold(1, held, every=True))
    (request,) = bench.take_requests("hold")
    assert (request.session, request.hold.number, request.hold.all) == (1, 1, True)
    assert list(request.hold.shares) == [held]


def test_a_hold_before_the_welcome_is_dropped(bench):
    wire = bench.opening(hello())
    bench.take_requests("open")
    bench.say(wire, hold(1))
    assert bench.take_requests() == []
    assert bench.gateway.counters.requests_dropped == 1


def test_holds_without_an_answer_are_dropped_above_the_limit(bench):
    wire = bench.live()
    for number in range(1, 80):
        bench.say(wire, hold(number))
    bench.take_requests(*["hold"] * 64)
    bench.inbox(Item(handed=Handed(session=1, leases=Leases(number=1))))
    bench.say(wire, hold(80))
    bench.take_requests("hold")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (hold(0), "hold: number: is 0"),
        (hold(1, *[HeldShare()] * 65), "hold: shares: are 65"),
        (hold(1, *[HeldShare(messages=[HeldMessage()] * 501)] * 2), "hold: messages: are 1002"),
        (hold(1, HeldShare(lease_s=2)), "hold: lease_s: is 2 (from 3 to 43200)"),
        (hold(1, HeldShare(lease_s=43_201)), "hold: lease_s"),
        (hold(1, HeldShare(prefetch=1_001)), "hold: prefetch"),
        (hold(1, HeldShare(messages=[HeldMessage(offset=1 << 63)])), "hold: offset"),
        (hold(1, HeldShare(messages=[HeldMessage(after_s=86_401)])), "hold: after_s"),
        (hold(1, HeldShare(messages=[HeldMessage(state=UNKNOWN_STATE)])), "hold: state: 9"),
    ],
)
def test_an_impossible_hold_closes_the_session_and_names_the_field(bench, frame, words):
    wire = bench.live()
    bench.say(wire, frame)
    (close,) = wire.take()
    assert close.close.code == CloseCode.PROTOCOL_ERROR
    assert words in close.close.reason


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (Interest(kind=INTEREST_SHARE, text="tasks"), "share: "),
        (Interest(kind=INTEREST_SHARE, text="", share="workers"), "channel: "),
        (Interest(kind=INTEREST_SHARE, text="tasks", share="w", attributes=["b", "a"]), "attributes: are not sorted"),
        (Interest(kind=INTEREST_SHARE, text="tasks", share="w", since=UNKNOWN_SINCE), "since: 99"),
    ],
)
def test_an_impossible_share_closes_the_session_and_names_the_field(bench, share, words):
    wire = bench.live()
    bench.say(wire, encode(ClientFrame(register=Register(request=1, interests=[share]))))
    (close,) = wire.take()
    assert words in close.close.reason
