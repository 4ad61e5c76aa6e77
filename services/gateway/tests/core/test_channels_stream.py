"""A session's channels at the gateway: live, in pages, slow, lost; and where only the client knows how far it is."""

import struct
from collections.abc import Sequence

import pytest
from coldnotify_gateway.core.channels_stream import PAGE_S, ChannelsStream, has_channels
from coldnotify_gateway.core.outputs import Produce
from coldnotify_gateway.core.stream import CHANNELS, Stage
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.interests import by_channel, digest_of
from coldnotify_schemas.internal_pb2 import (
    LOG_1D,
    LOG_30D,
    Answered,
    BeatAnswer,
    BegunStream,
    CompleteStream,
    Entry,
    FanOut,
    Item,
    Opened,
    Page,
)
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    INTEREST_PATTERN,
    INTEREST_QUERY,
    KINDS_CHANNELS,
    KINDS_NAMES,
    RETENTION,
    SINCE_NOW,
    SINCE_OLDEST,
    SINCE_POSITION,
    Ack,
    ClientFrame,
    GatewayFrame,
    Hello,
    Interest,
    Message,
    Missed,
    Position,
    Register,
    Since,
    Stream,
    SyncChunk,
)
from coldnotify_testkit.device_frames import hello, ping
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

TASKS = by_channel("tasks")
EPOCH = 77


def hello_with(*channels: Interest, cursor: int | None = 40, epoch: int | None = EPOCH) -> bytes:
    """The Hello of a client that is registered for the channel tasks."""
    return encode(
        ClientFrame(
            hello=Hello(
                protocol=1,
                domain="animal.observer",
                group="region-1",
                client="client-1",
                digest=digest_of([TASKS]),
                interests=channels,
                streams=[Stream(epoch=epoch, complete=cursor)],
            )
        )
    )


def of_channel(name: str, since: Since = SINCE_NOW, at: int = 0, attributes: Sequence[str] = ()) -> Interest:
    return Interest(kind=INTEREST_CHANNEL, text=name, since=since, at=at, attributes=attributes)


def message(offset: int, back: int = 1) -> Entry:
    return Entry(message=Message(channel=TASKS.hash, offset=offset, back=back, payload=b"{}"))


def fan_out(entry: Entry, *sessions: int) -> Item:
    return Item(stream_fan_out=FanOut(entry=entry, sessions=struct.pack(f"<{len(sessions)}I", *sessions)))


def opened(session: int, ask: int, *, epoch: int | None = None, positions: tuple[Position, ...] = ()) -> Item:
    return Item(
        opened=Opened(
            session=session,
            ask=ask,
            in_sync=True,
            digest=digest_of([TASKS]),
            streams=[BegunStream(log=LOG_1D, epoch=epoch, positions=positions)],
            kinds=KINDS_NAMES | KINDS_CHANNELS,
        )
    )


def page_of(
    session: int, ask: int, page: int, *entries: Entry, last: bool = False, complete: int | None = None
) -> Item:
    return Item(
        stream_page=Page(session=session, ask=ask, page=page, paging=9, entries=entries, last=last, complete=complete)
    )


def live(bench: GatewayBench, complete: int = 41) -> WireDouble:
    """A session whose objects and channels are live."""
    wire = bench.opening(hello_with())
    (request,) = bench.take_requests("open")
    assert (request.open.streams[0].epoch, request.open.streams[0].cursor) == (EPOCH, 40)
    bench.inbox(
        opened(1, request.open.ask),
        Item(page=Page(session=1, ask=1, page=1, last=True, streams=[CompleteStream(complete=complete, ask=1)])),
    )
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == complete
    wire.take()
    return wire


def test_nothing_lacks_caught_up_says_so_and_it_is_live() -> None:
    bench = GatewayBench()
    wire = bench.opening(hello_with())
    (request,) = bench.take_requests("open")
    bench.inbox(
        opened(1, request.open.ask),
        Item(page=Page(session=1, ask=1, page=1, last=True, complete=5, streams=[CompleteStream(complete=41, ask=1)])),
    )
    welcome, caught_up = wire.take()
    assert welcome.WhichOneof("frame") == "welcome"
    assert not welcome.welcome.kinds
    assert caught_up.caught_up.streams[0].complete == 41
    bench.inbox(fan_out(message(42), 1))
    (frame,) = wire.take()
    assert (frame.message.offset, frame.message.paged) == (42, False)
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 42


def test_a_message_that_comes_again_moves_no_cursor() -> None:
    bench = GatewayBench()
    wire = live(bench)
    first = message(42)
    first.message.paged, first.message.name = True, "tasks"
    bench.inbox(fan_out(first, 1))
    (frame,) = wire.take()
    assert (frame.message.name, frame.message.paged) == ("tasks", True)
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 41
    bench.inbox(fan_out(message(42), 1))
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 42


def test_a_pattern_alone_makes_a_stream_of_channels() -> None:
    assert has_channels([Interest(kind=INTEREST_PATTERN, text="^tasks")])
    assert not has_channels([Interest(kind=INTEREST_QUERY, text="HAS a")])


def test_an_unchanged_wake_is_27_bytes_longer() -> None:
    without, with_channels = GatewayBench(), GatewayBench()
    plain = without.opening(hello(wanted=("tasks",), cursor=5))
    without.inbox(
        Item(opened=Opened(session=1, ask=1, in_sync=True, digest=digest(["tasks"]))),
        Item(page=Page(session=1, ask=1, page=1, last=True, complete=5)),
    )
    wire = with_channels.opening(hello_with())
    with_channels.inbox(
        opened(1, 1),
        Item(page=Page(session=1, ask=1, page=1, last=True, complete=5, streams=[CompleteStream(complete=41, ask=1)])),
    )
    assert len(wire.data) - len(plain.data) == 11
    bare = Hello(protocol=1, domain="d", group="g", client="c", digest=1, epoch=1, cursor=5)
    said = Hello()
    said.CopyFrom(bare)
    said.streams.add(epoch=EPOCH, complete=40)
    assert said.ByteSize() - bare.ByteSize() == 16


def test_pages_come_one_by_one_and_the_last_makes_it_live() -> None:
    bench = GatewayBench()
    wire = bench.opening(hello_with())
    bench.take_requests("open")
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    wire.take()
    bench.inbox(fan_out(message(44), 1))
    assert wire.take() == []  # a page to come contains it
    bench.inbox(page_of(1, 1, 1, message(42, back=2), complete=42))
    first, end = wire.take()
    assert first.message.paged
    assert (end.page_end.stream, end.page_end.page, end.page_end.complete, end.page_end.last) == (1, 1, 42, False)
    bench.inbox(page_of(1, 1, 2, message(43)))  # nobody has asked for it
    assert wire.take() == []
    bench.say(wire, encode(ClientFrame(ack=Ack(streams=[Stream(page=1)]))))
    (request,) = bench.take_requests("stream_catch_up")
    asked = request.stream_catch_up
    assert (asked.ask, asked.page, asked.cursor, asked.epoch, asked.paging) == (1, 1, 42, EPOCH, 9)
    bench.inbox(page_of(1, 1, 2, message(43), message(44), last=True, complete=44))
    assert [frame.WhichOneof("frame") for frame in wire.take()] == ["message", "message", "page_end"]
    bench.inbox(fan_out(message(45), 1))
    assert wire.kinds() == ["message"]


def test_what_is_missed_is_passed_on() -> None:
    bench = GatewayBench()
    wire = live(bench)
    missed = Missed(channel=TASKS.hash, after=41, before=50, reason=RETENTION)
    bench.inbox(fan_out(Entry(missed=missed), 1))
    (frame,) = wire.take()
    assert frame.missed == missed
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 49


def test_a_full_connection_is_caught_up_from_where_it_stood() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(fan_out(message(42), 1))
    assert wire.take() == []
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    channels, _ = bench.take_requests("stream_catch_up", "catch_up")
    assert (channels.stream_catch_up.cursor, channels.stream_catch_up.ask, channels.stream_catch_up.page) == (
        41,
        2,
        0,
    )
    bench.inbox(page_of(1, 1, 1, message(42), last=True, complete=42))  # an answer to the ask before
    assert wire.take() == []
    bench.inbox(page_of(1, 2, 1, message(42), last=True, complete=42))
    assert wire.kinds() == ["message", "page_end"]


def test_pong_and_beats_say_how_far_it_is() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.later(6)
    log = CompleteStream(log=LOG_1D, complete=60)
    other = CompleteStream(log=LOG_30D, complete=99)
    bench.inbox(Item(beat=BeatAnswer(agreed=True, complete=7, serial=1, streams=[log, other])))
    bench.say(wire, ping())
    (pong,) = wire.take()
    assert pong.pong.streams[0].complete == 60


def test_acks_and_the_leave_say_what_is_applied() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.say(wire, encode(ClientFrame(ack=Ack(streams=[Stream(complete=41)]))))
    bench.later(2)
    acks = [request.acks for request in bench.take_requests() if request.HasField("acks")]
    assert [(list(said.streams[0].sessions), list(said.streams[0].completes)) for said in acks] == [([1], [41])]
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    (leave,) = [request.leave for request in bench.take_requests() if request.HasField("leave")]
    assert leave.streams[0].complete == 41


def test_a_new_matcher_is_told_what_was_acknowledged_once_the_channels_are_live() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.say(wire, encode(ClientFrame(ack=Ack(streams=[Stream(complete=41)]))))
    bench.later(2)
    bench.take_requests()
    bench.new_matcher()
    bench.inbox(Item(opened=Opened(session=1, in_sync=False, digest=digest_of([TASKS]))))
    bench.later(4)
    asked = bench.take_requests()
    assert not any(request.acks.streams for request in asked), "of which epoch the log is now is not known"
    (said,) = [request.open for request in asked if request.HasField("open")]
    page = Page(
        session=1, ask=said.ask, page=1, last=True, streams=[CompleteStream(complete=42, ask=said.streams[0].ask)]
    )
    bench.inbox(
        Item(
            opened=Opened(
                session=1, ask=said.ask, in_sync=True, digest=digest_of([TASKS]), streams=[BegunStream(log=LOG_1D)]
            )
        ),
        Item(page=page),
    )
    bench.later(6)
    acks = [request.acks for request in bench.take_requests() if request.HasField("acks")]
    assert [(list(said.streams[0].sessions), list(said.streams[0].completes)) for said in acks] == [([1], [41])]


def test_after_a_gap_it_is_announced_from_where_it_stood() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.inbox(fan_out(message(42), 1))
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    assert (request.open.streams[0].cursor, request.open.streams[0].ask) == (42, 2)
    wire.take()
    bench.inbox(fan_out(message(44), 1))
    assert wire.take() == []


def test_where_only_the_client_knows_it_comes_back_itself() -> None:
    bench = GatewayBench()
    wire = bench.opening(hello_with(of_channel("tasks", since=SINCE_POSITION, at=10)))
    (request,) = bench.take_requests("open")
    assert [channel.at for channel in request.open.interests] == [10]
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    (welcome, _) = wire.take()
    assert welcome.welcome.kinds == KINDS_NAMES | KINDS_CHANNELS
    bench.inbox(page_of(1, 1, 1, message(11)))
    wire.take()
    bench.inbox(number=bench.number + 2)
    (close,) = wire.take()
    assert close.close.code == CloseCode.UNKNOWN_SESSION


def test_caught_up_once_it_is_announced_as_others() -> None:
    bench = GatewayBench()
    bench.opening(hello_with(of_channel("tasks", since=SINCE_POSITION, at=10)))
    bench.take_requests("open")
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    bench.inbox(page_of(1, 1, 1, message(11), last=True, complete=41))
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    assert request.open.streams[0].cursor == 41


def test_a_register_is_answered_and_caught_up_with() -> None:
    bench = GatewayBench()
    wire = bench.live()
    assert bench.session(1).channels is None
    channel = of_channel("tasks", since=SINCE_OLDEST)
    bench.say(wire, encode(ClientFrame(register=Register(request=1, interests=[channel]))))
    bench.take_requests("register")
    positions = [Position(interest=TASKS.hash, position=3)]
    bench.inbox(
        Item(
            answered=Answered(
                session=1,
                request=1,
                streams=[BegunStream(log=LOG_1D, epoch=EPOCH, positions=positions, catch_up=True)],
            )
        )
    )
    (registered,) = wire.take()
    assert list(registered.registered.streams[0].positions) == [Position(interest=TASKS.hash, position=3)]
    assert registered.registered.streams[0].epoch == EPOCH
    (request,) = bench.take_requests("stream_catch_up")
    assert (request.stream_catch_up.ask, request.stream_catch_up.epoch) == (1, EPOCH)
    bench.inbox(page_of(1, 1, 1, message(4), last=True, complete=4))
    assert wire.kinds() == ["message", "page_end"]
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 4


def test_a_page_that_does_not_come_is_asked_for_again() -> None:
    bench = GatewayBench()
    bench.opening(hello_with())
    bench.take_requests("open")
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    bench.later(PAGE_S + 2)
    asked = [request.stream_catch_up for request in bench.take_requests() if request.HasField("stream_catch_up")]
    assert [(one.ask, one.page, one.cursor) for one in asked] == [(2, 0, 40)]


def registered(bench: GatewayBench) -> WireDouble:
    """A session without channels has registered for one: only its client knows where that is."""
    wire = bench.live()
    channel = of_channel("tasks", since=SINCE_POSITION, at=10)
    bench.say(wire, encode(ClientFrame(register=Register(request=1, interests=[channel]))))
    bench.take_requests("register")
    positions = [Position(interest=TASKS.hash, position=10)]
    stream = BegunStream(log=LOG_1D, positions=positions, catch_up=True)
    answered = Answered(session=1, request=1, streams=[stream])
    bench.inbox(Item(answered=answered))
    wire.take()
    return wire


def questions(bench: GatewayBench) -> list[tuple[int, int]]:
    """The ask and page of each question about channels."""
    asked = [request.stream_catch_up for request in bench.take_requests() if request.HasField("stream_catch_up")]
    return [(one.ask, one.page) for one in asked]


@pytest.mark.parametrize("other", [0, 1], ids=["an Opened", "an earlier Register"])
def test_an_answer_to_something_else_does_not_say_that_the_matcher_knows_where_channels_are(other: int) -> None:
    """A page that was on its way then holds nothing of them, and who takes over knows nothing of them."""
    channels = ChannelsStream()
    channels.ask(0.0)
    channels.said(2)
    channels.answered(LOG_1D, other)
    channels.arrived(10, 1, last=True, blocked=False)
    assert channels.behind
    channels.answered(LOG_1D, 2)
    channels.ask(1.0)
    channels.arrived(10, 2, last=True, blocked=False)
    assert not channels.behind


def test_where_only_the_client_knows_the_first_page_is_asked_for_again() -> None:
    """By the same number: should the page be under way, nothing of it is left out."""
    bench = GatewayBench()
    wire = registered(bench)
    assert questions(bench) == [(1, 0)]
    bench.answers_beats = True
    bench.say(wire, ping())
    bench.later(PAGE_S / 2)
    assert questions(bench) == []
    bench.say(wire, ping())
    bench.later(PAGE_S / 2 + 2)
    assert questions(bench) == [(1, 0)]
    bench.inbox(page_of(1, 1, 1, message(11), last=True, complete=11))
    bench.inbox(page_of(1, 1, 1, message(11), last=True, complete=11))
    assert wire.kinds()[-2:] == ["message", "page_end"]
    assert questions(bench) == [(2, 0)], "what comes a second time is not passed on"


def test_before_the_opened_the_open_asks_for_them() -> None:
    """A matcher that has not heard of the session would end it."""
    bench = GatewayBench()
    wire = bench.opening(hello_with())
    kinds = []
    for _ in range(8):
        bench.later(20)
        bench.say(wire, ping())
        kinds += [request.WhichOneof("body") for request in bench.take_requests()]
    assert kinds.count("open") > 1
    assert "stream_catch_up" not in kinds


@pytest.mark.parametrize("behind", [True, False])
def test_what_kafka_did_not_take_is_asked_again_sooner(behind: bool) -> None:
    bench = GatewayBench()
    if behind:
        registered(bench)
    else:
        wire = live(bench)
        bench.gateway.on_blocked(wire, bench.now_s)
        bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (failed,) = [request for request in bench.take_requests() if request.HasField("stream_catch_up")]
    bench.gateway.on_delivery_failed(Produce(0, b"", failed), bench.now_s)
    bench.later(bench.gateway.limits.ask_again_s + 2)
    assert questions(bench) == [(failed.stream_catch_up.ask + (not behind), 0)]


def test_what_kafka_did_not_take_is_not_asked_again_once_something_else_is_asked() -> None:
    bench = GatewayBench()
    registered(bench)
    (failed,) = [request for request in bench.take_requests() if request.HasField("stream_catch_up")]
    bench.inbox(page_of(1, 1, 1, message(11), complete=11))
    bench.gateway.on_delivery_failed(Produce(0, b"", failed), bench.now_s)
    bench.later(bench.gateway.limits.ask_again_s + 2)
    assert questions(bench) == []


def test_a_void_cursor_is_told_in_the_welcome() -> None:
    bench = GatewayBench()
    wire = bench.opening(hello_with())
    bench.inbox(opened(1, 1, epoch=78), Item(page=Page(session=1, ask=1, page=1, last=True)))
    welcome, _ = wire.take()
    assert welcome.welcome.streams[0].epoch == 78
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == -1
    bench.inbox(page_of(1, 1, 1, message(3), complete=3))
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 3
    bench.inbox(number=bench.number + 2)  # what it has missed of the other log may not have been told
    assert [frame.close.code for frame in wire.take()[-1:]] == [CloseCode.UNKNOWN_SESSION]


def test_an_announced_session_with_a_void_cursor_ends() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.inbox(number=bench.number + 2)
    (request,) = bench.take_requests("open")
    bench.inbox(opened(1, request.open.ask, epoch=78))
    assert [frame.close.code for frame in wire.take()] == [CloseCode.UNKNOWN_SESSION]


def test_a_new_matcher_has_the_row_of_pages_begun_anew() -> None:
    bench = GatewayBench()
    bench.opening(hello_with())
    bench.take_requests("open")
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    bench.inbox(page_of(1, 1, 1, message(42), complete=42))
    channels = bench.session(1).channels
    assert channels is not None
    assert channels.stage is Stage.SENT
    bench.new_matcher()
    (request,) = bench.take_requests("open")
    assert (request.open.streams[0].cursor, request.open.streams[0].ask) == (42, 2)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (of_channel(""), "interests: channel"),
        (of_channel("a\x00b"), "zero byte"),
        (of_channel("a", attributes=["b", "a"]), "attributes: are not sorted"),
        (of_channel("a", attributes=["a", "a"]), "attributes: are not sorted"),
        (of_channel("a", attributes=["x y"]), "attributes: 'x y'"),
        (Interest.FromString(b"\x08\x02\x12\x01a\x20\x11"), "since: 17"),
        (of_channel("a", at=2**63), "at: is"),
    ],
)
def test_what_must_not_be_is_named(channel: Interest, words: str) -> None:
    bench = GatewayBench()
    wire = bench.opening(hello_with(channel))
    (close,) = wire.take()
    assert words in close.close.reason
    for frame in (
        ClientFrame(register=Register(request=1, interests=[channel])),
        ClientFrame(sync=SyncChunk(interests=[channel])),
    ):
        bench = GatewayBench()
        wire = bench.live()
        bench.say(wire, encode(frame))
        (close,) = wire.take()
        assert words.removeprefix("interests: ") in close.close.reason


def test_frames_of_the_gateway_are_told_as_they_are() -> None:
    frame = GatewayFrame(missed=Missed(channel=1, before=2, reason=RETENTION))
    assert GatewayFrame.FromString(frame.SerializeToString()) == frame


def test_what_a_new_matcher_owes_is_asked_for_before_its_beats_count() -> None:
    """It answers the session's Open once more, and its pages of channels wait for a block: a BeatAnswer comes first."""
    bench = GatewayBench()
    wire = live(bench)
    bench.later(6)
    bench.new_matcher()
    bench.take_requests()
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True, complete=5)))
    (request,) = [one for one in bench.take_requests() if one.HasField("stream_catch_up")]
    assert (request.stream_catch_up.cursor, request.stream_catch_up.ask) == (41, 2)
    log = CompleteStream(log=LOG_1D, complete=60)
    bench.inbox(Item(beat=BeatAnswer(agreed=True, complete=7, serial=9, streams=[log])))
    wire.take()
    bench.say(wire, ping())
    (pong,) = wire.take()
    assert not pong.pong.streams
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 41


def test_while_the_digests_differ_no_beat_counts_and_the_page_behind_the_set_is_waited_for() -> None:
    bench = GatewayBench()
    wire = live(bench)
    bench.say(wire, ping(digest([])))
    (check,) = bench.take_requests("check_digest")
    bench.inbox(
        Item(opened=Opened(session=1, ask=check.check_digest.ask, in_sync=False, streams=[BegunStream(log=LOG_1D)]))
    )
    (request,) = bench.take_requests()
    assert (request.stream_catch_up.cursor, request.stream_catch_up.ask) == (41, 2)
    log = CompleteStream(log=LOG_1D, complete=60)
    bench.inbox(Item(beat=BeatAnswer(agreed=True, complete=7, serial=1, streams=[log])))
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 41
    wire.take()
    bench.say(
        wire, encode(ClientFrame(sync=SyncChunk(last=True, interests=[of_channel("tasks", since=SINCE_POSITION)])))
    )
    page = Page(session=1, ask=check.check_digest.ask, page=1, last=True, streams=[CompleteStream(complete=70, ask=2)])
    bench.inbox(opened(1, check.check_digest.ask), Item(page=page))
    assert [frame.WhichOneof("frame") for frame in wire.take()] == ["welcome", "caught_up"]
    assert bench.session(1).complete_in(bench.session(1).streams[CHANNELS]) == 70


def test_pages_of_channels_measure_the_link_where_there_are_none_of_objects() -> None:
    """Else a page would be 16 KiB on the slowest link, and what is urgent would wait behind that for long."""
    bench = GatewayBench()
    wire = bench.opening(hello_with())
    bench.take_requests("open")
    bench.inbox(opened(1, 1), Item(page=Page(session=1, ask=1, page=1, last=True)))
    sizes = []
    for number in range(1, 5):
        large = Entry(message=Message(channel=TASKS.hash, offset=50 + number, back=1, payload=b"x" * 12_000))
        page = Page(session=1, ask=1, page=number, paging=1, entries=[large])
        bench.inbox(Item(stream_page=page))
        wire.take()
        bench.now_s += 4.0
        bench.say(wire, encode(ClientFrame(ack=Ack(streams=[Stream(page=number)]))))
        (asked,) = bench.take_requests("stream_catch_up")
        sizes.append(asked.stream_catch_up.page_bytes)
    assert sizes[0] == 16 * 1024, "what is in front of the first one is not known"
    assert 5_500 < sizes[1] < 6_500, "what the link carries in 2 s"
    assert sizes[1] == sizes[2] == sizes[3]


def test_the_first_page_behind_a_set_comes_unasked() -> None:
    """A session without channels has sent a set that has some: the Opened names their log, and the page follows."""
    bench = GatewayBench()
    wire = bench.opening(hello(wanted=("a",)))
    bench.take_requests("open")
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=False, digest=1)))
    chunk = SyncChunk(last=True, interests=[of_channel("tasks", since=SINCE_OLDEST)])
    bench.say(wire, encode(ClientFrame(sync=chunk)))
    bench.inbox(opened(1, 1, epoch=EPOCH), page_of(1, 0, 1, message(4), last=True, complete=4))
    assert wire.kinds() == ["welcome", "welcome", "message", "page_end"]
