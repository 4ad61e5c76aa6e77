"""What the matcher says to sessions, one rule after the other: fan-outs, Opened, pages, answers, Closed.

Stands for: recovery, pages
"""

import pytest
from coldnotify_gateway.core import SessionState
from coldnotify_gateway.core.claim import PendingOperations
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest, object_crc
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Answered, Closed, Entry, Handed, Inbox, Item, Newest, Page
from coldnotify_schemas.wire_pb2 import (
    INTEREST_SHARE,
    KINDS_SHARES,
    ClientFrame,
    Hello,
    Interest,
    Leases,
    LostLeases,
    Message,
    Missed,
    Refusal,
)
from coldnotify_testkit.device_frames import EPOCH, ack, bye, hello, hold, ping, register, sync, unregister, use_names
from coldnotify_testkit.gateway_bench import fan_out, inbox_outputs, opened, page


def test_fan_out_is_one_frame_for_all_crc_sessions_and_one_for_names(bench):
    crc_1, crc_2 = bench.live(hello("a")), bench.live(hello("b"))
    named = bench.live(hello("c"), use_names())
    bench.inbox(fan_out("camera-config", 5, 9, 1, 2, 3))
    (frame,) = crc_1.take()
    assert (frame.notification.crc, frame.notification.name) == (object_crc("camera-config"), "")
    assert crc_2.take() == [frame]
    (frame,) = named.take()
    assert (frame.notification.crc, frame.notification.name, frame.notification.version) == (0, "camera-config", 5)
    counters = bench.gateway.counters
    assert (counters.fan_outs, counters.deliveries, counters.live_dropped) == (1, 3, 0)


def test_a_fan_out_hands_the_trace_and_the_time_of_its_publish_on(bench):
    bench.live(hello("a"))
    item = fan_out("camera-config", 5, 9, 1)
    item.fan_out.published_ms, item.fan_out.traceparent = 7, "00-a-b-01"
    said = Inbox(format=1, partition=0, generation=1, gateway=bench.GATEWAY, number=bench.number + 1, items=[item])
    (output,) = inbox_outputs(bench.gateway, said, bench.now_s)
    assert (output.published_ms, output.traceparent) == (7, "00-a-b-01")


def test_names_asked_for_while_live_hold_from_there_on(bench):
    wire = bench.live()
    bench.say(wire, use_names())
    bench.inbox(fan_out("a", 1, 1, 1))
    assert wire.take()[0].notification.name == "a"


def test_fan_out_to_sessions_that_are_not_live_or_gone_is_dropped(bench):
    wire = bench.live()
    waiting = bench.opening(hello("b"))
    bench.inbox(fan_out("a", 1, 1, 1, 2, 77))
    assert wire.kinds() == ["notification"]
    assert waiting.kinds() == []
    assert bench.gateway.counters.live_dropped == 2


@pytest.mark.parametrize("packed", [b"\1", b"\1\0\0\0\2\0"])
def test_a_session_list_that_is_none_is_counted(bench, packed):
    wire = bench.live()
    item = fan_out("a", 1, 1, 1)
    item.fan_out.sessions = packed
    bench.inbox(item)
    assert wire.kinds() == []
    assert bench.gateway.counters.malformed_records == 1


def test_opened_in_sync_is_a_welcome_and_waits_for_the_page(bench):
    wire = bench.opening(hello(wanted=("a",), register=("a",)))
    (request,) = bench.take_requests("open")
    assert list(request.open.register) == ["a"]
    assert not request.open.again
    item = opened(1, 1, epoch=EPOCH, said=digest(["a"]))
    item.opened.refused.append(Refusal(object="a", reason="no"))
    bench.inbox(item)
    (frame,) = wire.take()
    assert frame.welcome.in_sync
    assert frame.welcome.epoch == EPOCH
    assert frame.welcome.refused[0].object == "a"
    assert bench.session(1).state is SessionState.CATCHING
    assert bench.session(1).claim.pending == PendingOperations()


def test_another_epoch_voids_the_cursor(bench):
    bench.opening(hello(cursor=55))
    (request,) = bench.take_requests("open")
    assert (request.open.epoch, request.open.cursor) == (EPOCH, 55)
    bench.inbox(opened(1, 1, epoch=8), page(1, 1, last=True))
    session = bench.session(1)
    assert (session.objects.epoch, session.complete_in(session.objects)) == (8, -1)


def test_opened_of_an_older_asking_is_stale(bench):
    bench.answers_beats = True
    wire = bench.opening()
    bench.later(11)
    first, second = [request for request in bench.take_requests() if request.HasField("open")]
    assert (first.open.ask, second.open.ask) == (1, 2)
    assert second.open.again
    assert wire.kinds() == ["wait"]
    bench.inbox(opened(1, 1))
    assert wire.kinds() == []
    assert bench.gateway.counters.stale_answers == 1
    bench.inbox(opened(1, 2))
    assert wire.kinds() == ["welcome"]


def test_an_opened_of_a_live_session_says_what_the_matcher_holds_and_the_next_ping_is_compared_with_it(bench):
    """Somebody else asked in its name: a set that ends at once, say, and is empty."""
    wire = bench.live(hello(wanted=("a",)))
    bench.inbox(opened(1, 1, said=digest([])))
    assert wire.kinds() == []
    assert bench.session(1).state is SessionState.LIVE
    bench.say(wire, ping(digest(["a"])))
    (request,) = bench.take_requests("check_digest")
    assert request.check_digest.digest == digest(["a"])


def test_pages_come_one_by_one_as_the_client_acknowledges(bench):
    wire = bench.opening()
    bench.take_requests("open")
    bench.inbox(opened(1, 1), page(1, 1, 1, 3, 4))
    assert wire.kinds() == ["welcome", "notification", "notification", "page_end"]
    bench.inbox(page(1, 1, 1, 3, 4))  # twice
    assert wire.kinds() == []
    bench.say(wire, ack(page=7))
    assert bench.take_requests() == []
    bench.say(wire, ack(complete=4, page=1), ack(page=1))
    (request,) = bench.take_requests("catch_up")
    assert (request.catch_up.cursor, request.catch_up.ask, request.catch_up.page) == (4, 1, 1)
    bench.inbox(page(1, 1, 1, 3, 4))  # said once more by a matcher that took over
    assert wire.kinds() == []
    bench.inbox(page(1, 1, 2, 6, last=True))
    frames = wire.take()
    assert [frame.WhichOneof("frame") for frame in frames] == ["notification", "caught_up"]
    assert frames[1].caught_up.complete == 6
    assert bench.session(1).state is SessionState.LIVE


def test_a_page_of_an_older_asking_is_stale(bench):
    """What a session got live after the older asking would be missing between the two pages."""
    bench.answers_beats = True
    wire = bench.live(complete=4)
    bench.gateway.on_blocked(wire, bench.now_s)
    for _ in range(2):
        bench.do(bench.gateway.on_drained(wire, bench.now_s))
        bench.later(11)
    assert bench.session(1).question.number == 3
    bench.inbox(page(1, 2, 1, 5, last=True))
    assert wire.kinds() == []
    bench.inbox(page(1, 3, 1, 5, last=True))
    assert wire.kinds() == ["notification", "caught_up"]


def test_answers_in_a_page_move_nothing(bench):
    wire = bench.opening()
    answer = Newest(name="a", version=1, offset=50, answer=True)
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, newest=[answer])))
    assert wire.take()[1].notification.answer
    bench.take_requests()
    bench.say(wire, ack(page=1))
    (request,) = bench.take_requests("catch_up")
    assert not request.catch_up.HasField("cursor")


def test_a_page_of_the_latest_asking_to_a_live_session_means_that_the_matcher_begins_anew(bench):
    """A new matcher has read the Open once more. What it publishes meanwhile, it believes to be in its pages."""
    wire = bench.live(complete=4)
    bench.inbox(page(1, 1, 1, 5))
    (request,) = bench.take_requests("catch_up")
    assert (request.catch_up.cursor, request.catch_up.ask, request.catch_up.page) == (4, 2, 0)
    assert wire.kinds() == []
    bench.inbox(fan_out("a", 1, 6, 1))
    assert wire.kinds() == []


def test_an_earlier_asking_answered_once_more_makes_a_live_session_ask(bench):
    """A new matcher lost the session, and finds it again in an Open that it reads once more."""
    wire = bench.live(hello(wanted=("x",)), complete=4)
    bench.say(wire, ping(digest(("y",))))
    (request,) = bench.take_requests("check_digest")
    bench.inbox(opened(1, request.check_digest.ask))
    wire.take()
    bench.new_matcher()
    bench.inbox(opened(1, 1), page(1, 1, 1, 5, last=True))
    (request,) = bench.take_requests("catch_up")
    assert (request.catch_up.cursor, request.catch_up.ask) == (4, 3)
    bench.inbox(page(1, 3, 1, 5, last=True))
    assert wire.kinds() == ["notification", "caught_up"]
    bench.inbox(opened(1, 1, in_sync=False))
    (request,) = bench.take_requests("open")
    assert (request.open.cursor, request.open.ask) == (5, 4)


def test_what_is_for_a_session_that_left_is_dropped(bench):
    wire = bench.opening()
    bench.say(wire, bye())
    bench.inbox(
        opened(1, 1),
        page(1, 1, last=True),
        Item(answered=Answered(session=1, request=1)),
        Item(closed=Closed(session=1, code=6)),
    )
    assert wire.kinds() == []
    assert wire.finished
    assert bench.gateway.sessions() == []


def test_not_in_sync_and_the_whole_set(bench):
    wire = bench.opening(hello(wanted=("a", "b"), cursor=9))
    bench.take_requests()
    bench.inbox(opened(1, 1, in_sync=False))
    (frame,) = wire.take()
    assert not frame.welcome.in_sync
    bench.say(wire, sync(0, "a"))
    bench.later(14)  # it is the client's turn: nothing is asked again
    bench.say(wire, sync(1, "b", last=True))
    assert [r.WhichOneof("body") for r in bench.take_requests() if not r.HasField("beat")] == ["sync", "sync"]
    bench.inbox(opened(1, 1, said=digest(["a", "b"])), page(1, 1, 1, 2))
    assert wire.kinds() == ["welcome", "notification", "page_end"]
    # All is on its way: what is asked for after a loss must not begin above it.
    assert bench.session(1).complete_in(bench.session(1).objects) == 2


def test_chunks_of_a_round_that_is_over_are_dropped(bench):
    wire = bench.live()
    bench.say(wire, sync(3, "a"))
    bench.take_requests(*[])
    assert bench.take_requests() == []


def test_answers_are_written_in_any_state_and_their_digest_is_the_agreed_one(bench):
    wire = bench.opening()
    bench.say(wire, register(1, "a"), unregister(2, "b"))
    bench.take_requests("open", "register", "unregister")
    newest = Newest(name="a", version=3, offset=1, answer=True)
    more = Newest(name="c", answer=True)
    bench.inbox(
        Item(answered=Answered(session=1, request=1, newest=[newest], digest=11)),
        Item(answered=Answered(session=1, newest=[more])),  # a further part of the same answer
        Item(answered=Answered(session=1, request=2, unregistered=True, digest=12)),
    )
    assert wire.kinds() == ["registered", "notification", "notification", "unregistered"]
    assert bench.session(1).claim.agreed == 12


def test_closed_is_told_and_no_leave_follows(bench):
    wire = bench.live()
    bench.inbox(Item(closed=Closed(session=1, code=CloseCode.DISPLACED, reason="elsewhere")))
    (frame,) = wire.take()
    assert (frame.close.code, frame.close.reason) == (CloseCode.DISPLACED, "elsewhere")
    assert wire.finished
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    assert bench.take_requests() == []


@pytest.mark.parametrize("slow", [False, True])
def test_who_is_in_stays_in_though_a_new_matcher_knows_of_too_many(bench, slow):
    """It handles the session's first Open once more, by what it knows of the tenant by then."""
    wire = bench.live()
    if slow:
        bench.gateway.on_blocked(wire, bench.now_s)
    bench.take_requests()
    bench.new_matcher()
    bench.take_requests()
    bench.inbox(Item(closed=Closed(session=1, code=CloseCode.ABOVE_AGREEMENT, reason="clients_max is 5")))
    (request,) = bench.take_requests("open")
    assert (request.open.again, request.open.never_opened) == (True, False)
    assert not wire.finished
    bench.inbox(opened(1, request.open.ask), page(1, request.open.ask, last=True))
    assert wire.kinds() == ["caught_up"]


def test_who_has_had_no_answer_yet_may_be_refused(bench):
    wire = bench.opening()
    (first,) = bench.take_requests("open")
    assert (first.open.again, first.open.never_opened) == (False, False)
    bench.inbox(number=bench.number + 2)
    (second,) = bench.take_requests("open")
    assert (second.open.again, second.open.never_opened) == (True, True)
    wire.take()
    bench.inbox(Item(closed=Closed(session=1, code=CloseCode.ABOVE_AGREEMENT, reason="clients_max is 5")))
    assert wire.kinds() == ["close"]
    assert wire.finished


def test_a_page_without_a_number_is_none(bench):
    """No page is due while the client has one to acknowledge, and 0 is no page's number."""
    wire = bench.opening()
    bench.inbox(opened(1, 1), page(1, 1))
    wire.take()
    bench.inbox(page(1, 1, 0, last=True))
    assert wire.kinds() == []
    assert bench.session(1).state is SessionState.CATCHING
    bench.take_requests()
    bench.say(wire, ack(page=1))
    (request,) = bench.take_requests("catch_up")
    assert request.catch_up.page == 1


def handed(session: int, *offsets: int, number: int = 0) -> Item:
    """Leases that answer a Hold, if `number` is given, and hand-outs of these messages."""
    entries = [Entry(message=Message(channel=7, offset=one, hand_out=1, hold=1)) for one in offsets]
    leases = Leases(number=number, lost=[LostLeases(share=7, offsets=[3])]) if number else None
    return Item(handed=Handed(session=session, leases=leases, entries=entries))


def test_hand_outs_follow_the_answer_and_move_no_cursor(bench):
    wire = bench.live(complete=3)
    item = handed(1, 50, 51, number=4)
    item.handed.entries.append(Entry(missed=Missed(channel=7, after=51, before=60, hand_out=1, hold=4)))
    bench.inbox(item)
    leases, first, second, notice = wire.take()
    assert (leases.leases.number, list(leases.leases.lost[0].offsets)) == (4, [3])
    assert [(one.message.offset, one.message.paged, one.message.hand_out) for one in (first, second)] == [
        (50, True, 1), (51, True, 1)
    ]  # fmt: skip
    assert (notice.missed.before, notice.missed.paged) == (60, True)
    assert bench.session(1).streams[0].complete == 3
    assert bench.session(1).channels is None


def test_hand_outs_are_written_to_slow_sessions_and_those_behind(bench):
    slow, behind = bench.live(hello("a"), complete=3), bench.opening(hello("b"))
    bench.inbox(opened(2, 1))
    bench.gateway.on_blocked(slow, bench.now_s)
    behind.take()
    bench.inbox(handed(1, 50), handed(2, 51, number=1))
    assert slow.kinds() == ["message"]
    assert behind.kinds() == ["leases", "message"]


def test_hand_outs_before_the_welcome_are_dropped(bench):
    wire = bench.opening(hello())
    bench.inbox(handed(1, 50))
    assert wire.kinds() == []


@pytest.mark.parametrize("loses", ["gap", "takeover", "slow"])
def test_a_member_is_asked_for_all_its_leases_where_hand_outs_may_be_lost(bench, loses):
    member, other = bench.live(hello("a"), complete=3), bench.live(hello("b"), complete=3)
    bench.say(member, hold(1))
    if loses == "slow":
        bench.gateway.on_blocked(member, bench.now_s)
    if loses == "takeover":
        bench.new_matcher()
    else:
        bench.inbox(number=bench.number + 2)
    frames = member.take()
    assert frames
    assert all(frame.HasField("leases") and not frame.leases.number for frame in frames)
    assert other.kinds() == []


@pytest.mark.parametrize("kind", [INTEREST_SHARE, None])
def test_the_welcome_says_to_those_who_ask_that_shares_are_known(bench, kind):
    interests = [] if kind is None else [Interest(kind=kind, text="tasks", share="workers")]
    said = Hello(protocol=1, domain="d", group="g", client="c", interests=interests)
    wire = bench.opening(encode(ClientFrame(hello=said)))
    item = opened(1, 1)
    item.opened.kinds = KINDS_SHARES
    bench.inbox(item)
    assert wire.take()[0].welcome.kinds == (0 if kind is None else KINDS_SHARES)
