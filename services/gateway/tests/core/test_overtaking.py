"""What of high priority overtakes, and what it does not: whole frames, in their order, and no cursor moves by it.

Stands for: fan_outs, outputs
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from coldnotify_gateway.core import (
    CRC,
    NAMES,
    Frame,
    SessionState,
    Urgent,
    WaitingFrames,
    encoding,
    overtaking,
    part_bytes,
)
from coldnotify_gateway.core.stream import CHANNELS
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import (
    LOG_1D,
    PAGE_AHEAD,
    Answered,
    BegunStream,
    CompleteStream,
    Entry,
    FanOut,
    Item,
    Newest,
    Opened,
    Page,
)
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_IN_ORDER,
    EXPIRED,
    Ack,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    Hello,
    Message,
    Missed,
    Notification,
    Stream,
)
from coldnotify_testkit.device_frames import ack, hello, parse, use_names
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble, fan_out


def frame(number: int, payload_bytes: int = 0) -> Frame:
    return encoding.plain(
        GatewayFrame(notification=Notification(name=f"o{number}", payload=b"x" * payload_bytes)), CRC.encode
    )


def urgent(number: int) -> Urgent:
    return Urgent(frame(1000 + number), frame(number))


def names(data: bytes) -> list[str]:
    return [one.notification.name for one in parse(data)]


def everything(waiting: WaitingFrames) -> list[str]:
    return names(waiting.take(waiting.size_bytes))


# --- what waits


def test_an_urgent_frame_goes_in_front_of_what_waits_and_comes_again_at_its_place():
    waiting = WaitingFrames()
    waiting.add(frame(1), frame(2))
    waiting.add_urgent(urgent(3))
    waiting.add(frame(4))
    assert everything(waiting) == ["o1003", "o1", "o2", "o3", "o4"]
    assert (waiting.size_bytes, waiting.take(100)) == (0, b"")


def test_urgent_frames_keep_their_own_order():
    waiting = WaitingFrames()
    waiting.add(frame(1))
    for number in (2, 3):
        waiting.add_urgent(urgent(number))
    assert everything(waiting) == ["o1002", "o1003", "o1", "o2", "o3"]


def test_where_nothing_waits_there_is_nothing_to_overtake():
    waiting = WaitingFrames()
    waiting.add_urgent(urgent(1))
    assert everything(waiting) == ["o1"]
    waiting.add_urgent(urgent(2)._replace(at_its_place=None))
    assert everything(waiting) == ["o1002"], "its place is in a page to come"


def test_what_is_taken_is_whole_frames_so_that_something_may_come_between_any_two():
    waiting = WaitingFrames()
    waiting.add(*(frame(number, 90) for number in range(10)))
    part = waiting.take(waiting.size_bytes // 4)
    assert names(part) == ["o0", "o1"]
    waiting.add_urgent(urgent(77))
    assert everything(waiting) == ["o1077", *(f"o{number}" for number in range(2, 10)), "o77"]


def test_one_frame_is_taken_however_long_it_is():
    waiting = WaitingFrames()
    waiting.add(frame(1, 5000), frame(2))
    assert names(waiting.take(10)) == ["o1"]
    assert names(waiting.take(10)) == ["o2"]
    waiting.add(frame(1))
    waiting.add_urgent(Urgent(frame(1002, 5000), None))
    assert names(waiting.take(10)) == ["o1002"]
    assert names(waiting.take(10)) == ["o1"]


def test_what_nobody_will_take_is_forgotten():
    waiting = WaitingFrames()
    waiting.add(frame(1))
    waiting.add_urgent(urgent(2))
    waiting.clear()
    assert (waiting.size_bytes, waiting.take(100)) == (0, b"")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_added_and_taken_nothing_is_lost_and_what_is_in_turn_stays_in_turn(seed):
    random, waiting = Random(seed), WaitingFrames()
    in_turn, ahead, taken, size = [], [], [], 0
    for number in range(300):
        if random.random() < 0.2:
            one = urgent(number)
            if waiting.size_bytes:
                ahead.append(f"o{1000 + number}")
            waiting.add_urgent(one)
            in_turn.append(f"o{number}")
        else:
            waiting.add(frame(number, random.choice([0, 1, 200])))
            in_turn.append(f"o{number}")
        if random.random() < 0.6:
            size = waiting.size_bytes
            part = waiting.take(random.choice([1, 50, 300]))
            assert waiting.size_bytes == size - len(part)
            taken += names(part)
    taken += everything(waiting)
    assert [name for name in taken if name in set(in_turn)] == in_turn
    assert [name for name in taken if name in set(ahead)] == ahead
    assert len(taken) == len(in_turn) + len(ahead)


def test_a_transport_is_handed_a_quarter_of_what_may_wait_and_never_next_to_nothing():
    assert (part_bytes(64 * 1024), part_bytes(12_500), part_bytes(0)) == (16 * 1024, 3125, 1024)


# --- what it says


def test_an_urgent_frame_is_an_answer_and_the_one_at_its_place_says_what_it_always_said():
    newest = Newest(name="o", version=3, offset=9, behind=2, payload=b"1")
    found = overtaking.urgent(newest, NAMES, live=True)
    assert found.at_its_place is not None
    (ahead,), (at_its_place,) = parse(found.ahead.data), parse(found.at_its_place.data)
    assert ahead.notification.answer
    assert (at_its_place.notification.answer, at_its_place.notification.behind) == (False, 2)
    assert (ahead.notification.version, ahead.notification.payload) == (3, b"1")
    assert not newest.answer
    assert overtaking.urgent(newest, NAMES, live=False) == Urgent(found.ahead, None)


# --- whom it is told to


def high(name: str, version: int, offset: int, *sessions: int) -> Item:
    item = fan_out(name, version, offset, *sessions)
    item.fan_out.urgent = True
    return item


def told(wire: WireDouble) -> list[tuple[str, int, bool]]:
    return [
        (one.notification.name, one.notification.version, one.notification.answer)
        for one in wire.take()
        if one.HasField("notification")
    ]


def test_a_live_session_for_which_nothing_waits_gets_the_version_once_and_its_cursor_moves(bench):
    wire = bench.live(hello("a"), use_names())
    bench.inbox(high("o", 5, 9, 1))
    assert told(wire) == [("o", 5, False)]
    counters = bench.gateway.counters
    assert (counters.deliveries, counters.live_dropped) == (1, 0)


def test_what_waits_for_a_live_session_is_overtaken(bench):
    wire = bench.live(hello("a"), use_names())
    wire.stuck = True
    bench.inbox(fan_out("p", 1, 7, 1), fan_out("q", 1, 8, 1), high("o", 5, 9, 1), fan_out("r", 1, 10, 1))
    wire.go_on()
    assert told(wire) == [("o", 5, True), ("p", 1, False), ("q", 1, False), ("o", 5, False), ("r", 1, False)]


def test_a_session_that_is_sent_pages_is_told_at_once_and_stands_where_it_stood(bench):
    wire = bench.opening(hello("a"), use_names())
    (opened,) = bench.take_requests("open")
    ask = opened.open.ask
    bench.inbox(
        Item(opened=Opened(session=1, ask=ask, in_sync=True)),
        Item(page=Page(session=1, ask=ask, page=1, complete=3, newest=[Newest(name="p", version=1, offset=3)])),
    )
    wire.take()
    bench.inbox(high("o", 5, 9, 1))
    assert told(wire) == [("o", 5, True)]
    assert (bench.session(1).state, bench.session(1).objects.complete) == (SessionState.CATCHING, 3)
    bench.say(wire, ack(page=1))
    (catch_up,) = bench.take_requests("catch_up")
    assert catch_up.catch_up.cursor == 3, "the page to come has what was overtaken, and the version once more"


def test_a_slow_session_is_told_in_front_of_what_waits_and_is_caught_up_from_where_it_stood(bench):
    wire = bench.live(hello("a"), use_names(), complete=3)
    wire.stuck = True
    bench.inbox(fan_out("p", 1, 7, 1))
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(fan_out("q", 1, 8, 1), high("o", 5, 9, 1))
    wire.go_on()
    assert told(wire) == [("o", 5, True), ("p", 1, False)]
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (catch_up,) = bench.take_requests("catch_up")
    assert catch_up.catch_up.cursor < 8


def test_who_has_no_welcome_is_told_nothing(bench):
    wire = bench.opening(hello("a"))
    bench.inbox(high("o", 5, 9, 1, 99))
    assert wire.take() == []
    assert bench.gateway.counters.live_dropped == 2


def test_what_the_matcher_says_to_one_that_it_sends_pages_moves_no_cursor_of_one_that_is_live_here(bench):
    wire = bench.live(hello("a"), use_names(), complete=3)
    item = high("o", 5, 9, 1)
    item.fan_out.newest.answer = True
    bench.inbox(item)
    assert told(wire) == [("o", 5, True)]
    bench.inbox(fan_out("p", 1, 10, 99))
    assert bench.session(1).complete_in(bench.session(1).objects) == 3


def test_sessions_with_and_without_names_each_get_theirs(bench):
    by_crc, by_name = bench.live(hello("a")), bench.live(hello("b"), use_names())
    bench.inbox(high("o", 5, 9, 1, 2))
    assert [one.notification.name for one in (*by_crc.take(), *by_name.take())] == ["", "o"]


def of_a_query(name: str, version: int, offset: int, *known: tuple[int, int], session: int = 1) -> Item:
    """To a session that has it by a query: the row of pages, and since which offset it knows it as a member."""
    item = high(name, version, offset, session)
    item.fan_out.pagings.extend(paging for paging, _ in known)
    item.fan_out.known_since.extend(since for _, since in known)
    return item


ROW = 77


def in_a_row(bench: GatewayBench, *, last: bool) -> WireDouble:
    """A session that has had the first page of a row."""
    wire = bench.opening(hello("a"), use_names())
    (opened,) = bench.take_requests("open")
    ask = opened.open.ask
    first = Page(session=1, ask=ask, page=1, paging=ROW, complete=3, last=last)
    bench.inbox(Item(opened=Opened(session=1, ask=ask, in_sync=True)), Item(page=first))
    wire.take()
    return wire


def test_a_member_that_the_pages_so_far_have_named_overtakes_and_another_row_has_named_nothing_here(bench):
    wire = in_a_row(bench, last=False)
    bench.inbox(of_a_query("o", 5, 9, (ROW, 8)))
    assert told(wire) == [("o", 5, True)]
    bench.inbox(of_a_query("o", 6, 10, (ROW + 1, 8)))
    assert told(wire) == []


def test_a_row_that_is_cut_off_has_named_nothing(bench):
    wire = in_a_row(bench, last=False)
    bench.gateway.on_inbox_lost(bench.now_s)
    bench.inbox(of_a_query("o", 5, 9, (ROW, 1)))
    assert told(wire) == []


def test_a_live_session_is_told_of_a_member_in_its_turn_where_it_may_not_know_it(bench):
    wire = in_a_row(bench, last=True)
    wire.stuck = True
    bench.inbox(fan_out("p", 1, 7, 1), of_a_query("o", 5, 9, (ROW, 8)), of_a_query("o", 6, 10, (ROW + 1, 8)))
    wire.go_on()
    assert told(wire) == [("o", 5, True), ("p", 1, False), ("o", 5, False), ("o", 6, False)]


def test_a_slow_session_is_told_of_a_member_that_came_before_anything_was_dropped(bench):
    wire = in_a_row(bench, last=True)
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(of_a_query("o", 5, 9, (ROW, 3)), of_a_query("q", 6, 10, (ROW, 4)))
    assert told(wire) == [("o", 5, True)]


def test_what_does_not_say_as_much_of_each_session_is_malformed(bench):
    wire = in_a_row(bench, last=True)
    bench.inbox(of_a_query("o", 5, 9, (ROW, 3), (ROW, 3)))
    assert (told(wire), bench.gateway.counters.malformed_records) == ([], 1)


def entering(name: str) -> Frame:
    return encoding.notification(Newest(name=name, version=1, offset=5, entered=[1]), CRC)


@pytest.mark.parametrize("live", [True, False])
def test_a_member_does_not_go_in_front_of_what_says_that_it_has_entered(live):
    newest = Newest(name="o", version=2, offset=9)
    waiting = WaitingFrames()
    waiting.add(frame(1), entering("other"))
    waiting.add_urgent(overtaking.urgent(newest, NAMES, live=live, by_query=True))
    assert names(waiting.take(1)) == ["o"], "nothing of it waits"
    everything(waiting)
    waiting.add(frame(1), entering("o"))
    waiting.add_urgent(overtaking.urgent(newest, NAMES, live=live, by_query=True))
    assert [(one.name, one.version) for one in notifications(waiting)][1:] == [("o", 1), ("o", 2)]
    waiting.add(frame(1), entering("o"))
    waiting.add_urgent(overtaking.urgent(newest, NAMES, live=live))
    assert next(notifications(waiting)).version == 2, "it is registered by name"


def notifications(waiting: WaitingFrames) -> Iterator[Notification]:
    while data := waiting.take(10_000):
        yield from (one.notification for one in parse(data))


# --- channels


X, Y = 0xAAAA, 0xBBBB
"""Hashes of two channels."""


def of(channel: int, offset: int, *, paged: bool = False) -> Frame:
    said = Message(channel=channel, offset=offset, back=1, payload=b"1", paged=paged)
    return encoding.stream_entry(Entry(message=said), CRC.encode)


def missed(channel: int, before: int) -> Frame:
    return encoding.stream_entry(Entry(missed=Missed(channel=channel, before=before, reason=EXPIRED)), CRC.encode)


def said(frames: list[GatewayFrame]) -> list[tuple[str, int, bool] | str]:
    """(channel, offset or before, whether it moves no cursor) of messages and what is missed; the kinds of others."""
    found: list[tuple[str, int, bool] | str] = []
    for one in frames:
        kind = one.WhichOneof("frame") or ""
        if kind in ("message", "missed"):
            entry = one.message if kind == "message" else one.missed
            offset = one.message.offset if kind == "message" else one.missed.before
            found.append(("x" if entry.channel == X else "y", offset, entry.paged))
        else:
            found.append(kind)
    return found


def all_that_waits(waiting: WaitingFrames) -> list[tuple[str, int, bool] | str]:
    return said(parse(waiting.take(waiting.size_bytes)))


def test_all_that_waits_of_a_channel_goes_in_front_in_its_order_and_stays_where_it_is_as_well():
    waiting = WaitingFrames()
    waiting.add(frame(1), of(Y, 10), of(X, 11))
    waiting.add(missed(X, 13))
    waiting.add(of(Y, 14))
    waiting.add(of(X, 15))
    size = waiting.size_bytes
    waiting.overtake([X])
    assert waiting.size_bytes > size
    in_turn = ["notification", ("y", 10, False), ("x", 11, False), ("x", 13, False), ("y", 14, False), ("x", 15, False)]
    assert all_that_waits(waiting) == [("x", 11, True), ("x", 13, True), ("x", 15, True), *in_turn]
    assert waiting.size_bytes == 0


def test_what_went_in_front_does_not_go_again_also_if_it_is_on_its_way():
    waiting = WaitingFrames()
    waiting.add(of(Y, 10), of(X, 11))
    waiting.overtake([X])
    assert said(parse(waiting.take(1))) == [("x", 11, True)]
    waiting.add(of(X, 12))
    waiting.add(of(X, 13))
    waiting.overtake([X])
    waiting.overtake([X])
    in_turn = [("y", 10, False), ("x", 11, False), ("x", 12, False), ("x", 13, False)]
    assert all_that_waits(waiting) == [("x", 12, True), ("x", 13, True), *in_turn]
    waiting.add(of(Y, 14), of(X, 15))
    waiting.overtake([X])
    assert all_that_waits(waiting) == [("x", 15, True), ("y", 14, False), ("x", 15, False)]


def test_what_comes_first_anyway_is_not_said_twice():
    waiting = WaitingFrames()
    waiting.overtake([X])
    waiting.add(of(X, 10), of(X, 11), of(Y, 12))
    waiting.overtake([X])
    assert all_that_waits(waiting) == [("x", 10, False), ("x", 11, False), ("y", 12, False)]


def test_what_comes_again_later_goes_behind_what_waits_of_its_channel_and_waits_in_no_turn():
    waiting = WaitingFrames()
    waiting.overtake([X], [of(X, 9, paged=True)])
    assert all_that_waits(waiting) == [("x", 9, True)]
    waiting.add(of(X, 10), of(Y, 11))
    waiting.overtake([X], [of(X, 12, paged=True)])
    waiting.overtake([X], [of(X, 13, paged=True)])
    ahead = [("x", 10, True), ("x", 12, True), ("x", 13, True)]
    assert all_that_waits(waiting) == [*ahead, ("x", 10, False), ("y", 11, False)]
    assert waiting.size_bytes == 0


def test_of_one_that_is_partly_on_its_way_the_rest_goes_in_front():
    waiting = WaitingFrames()
    waiting.add(of(X, 10), of(Y, 11), of(X, 12))
    assert said(parse(waiting.take(len(of(X, 10).data)))) == [("x", 10, False)]
    waiting.overtake([X])
    assert all_that_waits(waiting) == [("x", 12, True), ("y", 11, False), ("x", 12, False)]


@pytest.mark.parametrize(
    "fence",
    [
        encoding.welcome(Opened(in_sync=True), CRC.encode, kinds_wanted=False),
        *encoding.answer(Answered(request=1), CRC),
    ],
)
def test_nothing_goes_in_front_of_what_says_where_channels_begin(fence):
    waiting = WaitingFrames()
    waiting.add(fence, encoding.plain(GatewayFrame(caught_up=CaughtUp()), CRC.encode), of(X, 10))
    waiting.overtake([X])
    waiting.overtake([X], [of(X, 11, paged=True)])
    assert all_that_waits(waiting)[1:] == ["caught_up", ("x", 10, False), ("x", 11, True)]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_overtakes_no_message_comes_before_an_earlier_one_of_its_channel(seed):
    random, waiting = Random(seed), WaitingFrames()
    taken, put = [], []
    for offset in range(300):
        channel = random.choice([X, Y])
        waiting.add(of(channel, offset))
        if random.random() >= 0.8:
            waiting.add(frame(offset))
        put.append(("x" if channel == X else "y", offset, False))
        if random.random() < 0.3:
            waiting.overtake([channel])
        if random.random() < 0.4:
            size = waiting.size_bytes
            part = waiting.take(random.choice([1, 50, 200]))
            assert waiting.size_bytes == size - len(part)
            taken += said(parse(part))
    taken += all_that_waits(waiting)
    messages = [one for one in taken if not isinstance(one, str)]
    assert [one for one in messages if not one[2]] == put, "each is at its place"
    for channel in "xy":
        ahead = [offset for name, offset, paged in messages if name == channel and paged]
        assert all(one < other for one, other in pairwise(ahead)), "none goes in front twice"
        known, mine = -1, [offset for name, offset, _ in put if name == channel]
        for _, offset, _ in (one for one in messages if one[0] == channel):
            if offset > known:
                assert not [one for one in mine if known < one < offset], "nothing lies between"
                known = offset


CHANNELS_EPOCH = 9


def live_with_channels(bench: GatewayBench, *, capabilities: int = 0) -> WireDouble:
    """A session whose objects and channels are live."""
    said_first = Hello(
        protocol=1, domain="d", group="g", client="c", capabilities=capabilities,
        streams=[Stream(epoch=CHANNELS_EPOCH, complete=5)],
    )  # fmt: skip
    wire = bench.opening(encode(ClientFrame(hello=said_first)))
    (request,) = bench.take_requests("open")
    assert request.open.channels_in_order == bool(capabilities)
    bench.inbox(
        Item(opened=Opened(session=1, ask=1, in_sync=True, streams=[BegunStream(log=LOG_1D)])),
        Item(page=Page(session=1, ask=1, page=1, last=True, complete=3, streams=[CompleteStream(complete=5, ask=1)])),
    )
    wire.take()
    return wire


def live_message(channel: int, offset: int, *, urgent: bool = False) -> Item:
    entry = Entry(message=Message(channel=channel, offset=offset, back=1, payload=b"1"))
    return Item(stream_fan_out=FanOut(entry=entry, sessions=struct.pack("<I", 1), urgent=urgent))


def test_a_live_message_takes_its_channel_in_front_of_what_waits(bench):
    wire = live_with_channels(bench)
    wire.stuck = True
    bench.inbox(live_message(Y, 6), live_message(X, 7), live_message(X, 8, urgent=True), live_message(Y, 9))
    wire.go_on()
    in_turn = [("y", 6, False), ("x", 7, False), ("x", 8, False), ("y", 9, False)]
    assert said(wire.take()) == [("x", 7, True), ("x", 8, True), *in_turn]
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 9


def test_where_nothing_waits_a_live_message_comes_once(bench):
    wire = live_with_channels(bench)
    bench.inbox(live_message(Y, 6), live_message(X, 7, urgent=True))
    assert said(wire.take()) == [("y", 6, False), ("x", 7, False)]


def test_who_wants_channels_in_order_has_them_in_order(bench):
    wire = live_with_channels(bench, capabilities=CAPABILITY_IN_ORDER)
    wire.stuck = True
    bench.inbox(live_message(Y, 6), live_message(X, 7, urgent=True))
    wire.go_on()
    assert said(wire.take()) == [("y", 6, False), ("x", 7, False)]


def test_a_slow_session_is_told_in_the_page_to_come_which_begins_with_it(bench):
    wire = live_with_channels(bench)
    wire.stuck = True
    bench.inbox(live_message(Y, 6))
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(live_message(X, 7, urgent=True))
    wire.go_on()
    assert said(wire.take()) == [("y", 6, False)], "messages of its channel may have been left out before it"
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    catch_up = next(one.stream_catch_up for one in bench.take_requests() if one.HasField("stream_catch_up"))
    assert catch_up.cursor == 6


def test_what_is_urgent_of_a_page_goes_in_front_of_pages_of_objects(bench):
    wire = live_with_channels(bench)
    wire.stuck = True
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    asked = next(one.stream_catch_up for one in bench.take_requests() if one.HasField("stream_catch_up"))
    entries = [Entry(message=Message(channel=channel, offset=offset, back=1)) for channel, offset in ((X, 9), (Y, 7))]
    bench.inbox(
        fan_out("o", 1, 4, 1),
        Item(page=Page(session=1, ask=2, page=1, newest=[Newest(name="p", version=1, offset=4)])),
        Item(stream_page=Page(session=1, ask=asked.ask, page=1, entries=entries, complete=7, urgent=[X])),
    )
    wire.go_on()
    told = said(wire.take())
    assert told[0] == ("x", 9, True)
    assert told[-3:] == [("x", 9, True), ("y", 7, True), "page_end"]


def ahead(channel: int, offset: int, *, ask: int = 2, page: int = 1) -> Item:
    entry = Entry(message=Message(channel=channel, offset=offset, back=1))
    return Item(stream_page=Page(session=1, ask=ask, page=page, entries=[entry], kind=PAGE_AHEAD))


def paged(bench: GatewayBench, wire: WireDouble) -> None:
    """A page of channels waits for it, and others are to come."""
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    wire.stuck = True
    entries = [Entry(message=Message(channel=Y, offset=offset, back=1)) for offset in (6, 7)]
    bench.inbox(Item(stream_page=Page(session=1, ask=2, page=1, entries=entries, complete=7)))


def test_while_a_page_is_on_its_way_its_channel_is_told_in_front_of_it(bench):
    wire = live_with_channels(bench)
    paged(bench, wire)
    bench.inbox(ahead(X, 9), ahead(X, 10))
    wire.go_on()
    assert said(wire.take()) == [("x", 9, True), ("x", 10, True), ("y", 6, True), ("y", 7, True), "page_end"]
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 7


def test_what_follows_another_page_than_the_one_on_its_way_is_left(bench):
    """Its client may lack what is before."""
    wire = live_with_channels(bench)
    bench.inbox(ahead(X, 9, ask=1))
    paged(bench, wire)
    bench.inbox(ahead(X, 9, ask=1), ahead(X, 9, page=2))
    wire.go_on()
    bench.say(wire, encode(ClientFrame(ack=Ack(streams=[Stream(page=1)]))))
    bench.inbox(ahead(X, 9))
    assert said(wire.take()) == [("y", 6, True), ("y", 7, True), "page_end"]
