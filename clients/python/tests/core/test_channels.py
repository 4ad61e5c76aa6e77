"""Channels on the wire and in the document, frame by frame.

Stands for: channels, since
"""

from dataclasses import replace
from typing import Any

import pytest
from coldnotify._core import settings as numbers
from coldnotify._core.document.document import Document, decode, encode
from coldnotify._core.interests.interests import ChannelInterest, channel_by, channel_from, channels_by
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import NOW, OLDEST, Since, since_from
from coldnotify._core.streams.feed import BEGINNING, ChannelJob, KeptChannel
from coldnotify.errors import ChannelCallbackFailed, ChannelParked, StateDamaged
from coldnotify.message import Missed, MissedReason
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode as encode_frame
from coldnotify_testkit.client_bench import LAMPS, ME, ClientBench

TASKS, ALARMS = ChannelInterest("tasks", ()), ChannelInterest("alarms", ("camera",))
KINDS = wire.KINDS_NAMES | wire.KINDS_QUERIES | wire.KINDS_CHANNELS


def at(
    cursor: int | None, *channels: ChannelInterest, pending: tuple[ChannelInterest, ...] = (), **kept: Any
) -> Document:
    """A client that is at this cursor in these channels."""
    return Document(
        identity=ME,
        epoch=1,
        cursor=10,
        channels={channel: KeptChannel(**kept) for channel in (*channels, *pending)},
        pending_channels=dict.fromkeys(pending, OperationKind.REGISTER),
        channels_epoch=7,
        channels_cursor=cursor,
    )


def live(document: Document, complete: int = 100) -> ClientBench:
    """It is connected, and lacks nothing."""
    bench = ClientBench(document)
    for number, channel in enumerate(document.channels, 1):
        bench.client.application.subscribe(channel, number)
        bench.client.application.subscribe_missed(channel, number + 100)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10, streams=[wire.Stream(complete=complete)]))
    return bench


def message(bench: ClientBench, channel: ChannelInterest, offset: int, back: int, *, paged: bool = False) -> None:
    bench.say(message=wire.Message(channel=channel.hash, offset=offset, back=back, payload=b"1", paged=paged))


def tell(bench: ClientBench, fails: bool = False) -> list[Any]:
    """Messages, and what is missed."""
    told: list[Any] = []
    bench.save()
    while (job := bench.client.next_job(bench.now)) is not None:
        assert isinstance(job, ChannelJob)
        told.append(job.message)
        failed = {number: RuntimeError("no") for number in job.subscribers} if fails else {}
        bench.client.job_done(job, failed, bench.now)
        bench.save()
    return told


def document(bench: ClientBench) -> Document:
    return decode(encode(bench.client._document()), ME)


@pytest.mark.parametrize("count", [3, 300])
def test_a_wake_that_missed_nothing_costs_the_same_whatever_channels_there_are(count: int) -> None:
    channels = [ChannelInterest(f"channel-{number}", ()) for number in range(count)]
    wanted = frozenset("o")
    plain = ClientBench(Document(identity=ME, epoch=1, cursor=10, wanted=wanted))
    with_channels = ClientBench(replace(at(100, *channels), wanted=wanted))
    hellos = [bench.connect().ByteSize() for bench in (plain, with_channels)]
    assert hellos[1] - hellos[0] == 16
    with_channels.say(welcome=wire.Welcome(in_sync=True))
    caught_up = wire.CaughtUp(complete=10), wire.CaughtUp(complete=10, streams=[wire.Stream(complete=100)])
    with_channels.say(caught_up=caught_up[1])
    assert with_channels.client.caught_up(with_channels.now)
    status = with_channels.client.status(with_channels.now)
    assert status.streams.keys() == {"objects", "channels"}
    assert status.fresh_as_of == min(as_of for as_of in status.streams.values() if as_of is not None)
    assert with_channels.out() == []
    assert caught_up[1].ByteSize() - caught_up[0].ByteSize() == 11


def test_pages_of_objects_and_of_channels_are_counted_apart() -> None:
    bench = live(at(100, TASKS))
    bench.say(page_end=wire.PageEnd(page=5))
    bench.say(page_end=wire.PageEnd(stream=1, page=2))
    bench.say(page_end=wire.PageEnd(stream=2, page=9, last=True, complete=999))  # of a stream that it does not have
    (ack,) = [frame.ack for frame in bench.out()]
    assert ack == wire.Ack(page=5, streams=[wire.Stream(page=2)])
    bench.say(page_end=wire.PageEnd(page=6))
    (ack,) = [frame.ack for frame in bench.out()]
    assert ack == wire.Ack(page=6)
    assert document(bench).channels_cursor == 100


@pytest.mark.parametrize("objects_first", [True, False])
def test_a_welcome_ends_what_is_live_until_each_stream_says_it_anew(objects_first: bool) -> None:
    bench = live(at(100, TASKS))
    assert [bench.client.caught_up(bench.now)] == [True]
    bench.say(welcome=wire.Welcome(in_sync=True))
    assert [bench.client.caught_up(bench.now)] == [False]
    ends: list[dict[str, Any]] = [
        {"caught_up": wire.CaughtUp(complete=10)},
        {"page_end": wire.PageEnd(stream=1, page=1, last=True, complete=100)},
    ]
    first, second = ends if objects_first else ends[::-1]
    bench.say(**first)
    assert [bench.client.caught_up(bench.now)] == [False]
    bench.say(**second)
    assert [bench.client.caught_up(bench.now)] == [True]


def test_a_frame_has_queries_and_channels_in_one_list() -> None:
    bench = live(at(100, TASKS))
    bench.client.application.register_channel(ALARMS, NOW)
    bench.client.application.register(LAMPS)
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert [(one.kind, one.text) for one in register.interests] == [
        (wire.INTEREST_QUERY, "lamps"),
        (wire.INTEREST_CHANNEL, "alarms"),
    ]
    refusals = [wire.Refusal(interest=one.hash, reason="no") for one in (LAMPS, ALARMS)]
    bench.say(registered=wire.Registered(request=register.request, refused=refusals, kinds=KINDS))
    assert sorted(str(error) for error in bench.client.take_reports()) == [
        "registration for channel 'alarms' refused: no",
        "registration for query 'lamps' refused: no",
    ]
    bench.client.application.register(LAMPS)
    bench.out()
    bench.client.application.unregister_channel("tasks")
    bench.client.application.unregister(LAMPS)
    (unregister,) = [frame.unregister for frame in bench.out()]
    assert sorted(unregister.interests) == sorted([LAMPS.hash, TASKS.hash])


def test_a_first_subscription() -> None:
    bench = ClientBench()
    bench.client.application.register_channel(ALARMS, OLDEST)
    bench.client.application.subscribe(ALARMS, 1)
    hello = bench.connect()
    assert hello.digest == (digest(()) + ALARMS.hash) % (1 << 64)
    (said,) = hello.interests
    assert (said.text, list(said.attributes), said.since) == ("alarms", ["camera"], wire.SINCE_OLDEST)
    assert len(hello.streams) == 0
    place = wire.Position(interest=ALARMS.hash, position=40)
    bench.say(
        welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS, streams=[wire.Stream(epoch=7, positions=[place])])
    )
    saved = document(bench)
    assert saved.channels[ALARMS] == KeptChannel(position=40)
    assert (saved.channels_epoch, saved.channels_cursor) == (7, None)
    message(bench, ALARMS, 45, 5, paged=True)
    bench.say(caught_up=wire.CaughtUp(complete=1))
    assert [bench.client.caught_up(bench.now)] == [False]
    bench.say(page_end=wire.PageEnd(stream=1, page=1, last=True, complete=60))
    (ack,) = [frame for frame in bench.out() if frame.HasField("ack")]
    (log,) = ack.ack.streams
    assert (log.complete, ack.ack.complete, log.page) == (60, 1, 1)
    (told,) = tell(bench)
    assert (told.offset, told.previous, told.position) == (45, None, "00000007.45")
    assert bench.client.caught_up(bench.now)
    saved = document(bench)
    assert (saved.channels_cursor, saved.pending_channels) == (60, {})
    assert saved.channels[ALARMS] == KeptChannel(told=45)


def test_live_messages_move_the_cursor_once_they_are_told() -> None:
    bench = live(at(100, TASKS, ALARMS))
    message(bench, TASKS, 101, 1)
    message(bench, ALARMS, 103, 3)
    assert document(bench).channels_cursor == 100
    assert [told.offset for told in tell(bench)] == [101, 103]
    assert document(bench).channels_cursor == 103
    acks = []
    for _ in range(3):
        bench.now += 2
        acks += [frame.ack for frame in bench.out()]
    (log,) = acks[-1].streams
    assert (log.complete, log.page) == (103, 0)
    bench.say(pong=wire.Pong(streams=[wire.Stream(complete=150)]))
    assert document(bench).channels_cursor == 150


def test_a_repeat_is_not_told() -> None:
    bench = live(at(100, TASKS))
    message(bench, TASKS, 101, 1)
    message(bench, TASKS, 101, 1)
    message(bench, TASKS, 99, 9)
    assert len(tell(bench)) == 1


def test_an_overtaking_message_is_delivered_at_once_and_its_place_moves_the_cursor() -> None:
    bench = live(at(100, TASKS, ALARMS))
    message(bench, TASKS, 101, 1)
    message(bench, ALARMS, 103, 3, paged=True)
    message(bench, ALARMS, 105, 2, paged=True)
    assert [(told.channel, told.offset) for told in tell(bench)] == [("tasks", 101), ("alarms", 103), ("alarms", 105)]
    assert document(bench).channels_cursor == 101, "what was overtaken is above it"
    assert document(bench).channels[ALARMS].told == 105
    message(bench, TASKS, 102, 1)
    message(bench, ALARMS, 103, 3)
    message(bench, TASKS, 104, 2)
    assert [(told.channel, told.offset) for told in tell(bench)] == [("tasks", 102), ("tasks", 104)]
    assert document(bench).channels_cursor == 104
    message(bench, ALARMS, 105, 2)
    assert tell(bench) == []
    assert document(bench).channels_cursor == 105


def test_an_overtaking_message_is_not_delivered_again_in_the_next_session() -> None:
    bench = live(at(100, TASKS, ALARMS))
    message(bench, ALARMS, 103, 3, paged=True)
    assert len(tell(bench)) == 1
    again = ClientBench(document(bench))
    for channel in (TASKS, ALARMS):
        again.client.application.subscribe(channel, 1)
    assert [log.complete for log in again.connect().streams] == [100]
    again.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    message(again, TASKS, 102, 2, paged=True)
    message(again, ALARMS, 103, 3, paged=True)
    message(again, ALARMS, 106, 3, paged=True)
    assert [(told.channel, told.offset) for told in tell(again)] == [("tasks", 102), ("alarms", 106)]


def test_a_gap_ends_the_session_and_the_cursor_stays() -> None:
    bench = live(at(100, TASKS))
    message(bench, TASKS, 105, 3)
    assert not bench.client.connected
    assert "messages between 100 and 105 have not come" in str(bench.client.status(bench.now).last_problem)
    assert document(bench).channels_cursor == 100
    assert tell(bench) == []
    bench.client.link_down("", bench.now)
    hello = bench.connect()
    assert [log.complete for log in hello.streams] == [100]
    (said,) = hello.interests
    assert (said.text, said.since, said.at) == ("tasks", wire.SINCE_POSITION, 100), "the service may know another place"


def test_a_parked_channel_lets_the_others_and_the_cursor_pass() -> None:
    bench = live(at(100, TASKS, ALARMS))
    message(bench, TASKS, 101, 1)
    for _ in range(5):
        tell(bench, fails=True)
        bench.now += 9
    reports = [type(error) for error in bench.client.take_reports()]
    assert reports == [ChannelCallbackFailed] * 5 + [ChannelParked]
    assert bench.client.status(bench.now).parked == ("tasks",)
    message(bench, ALARMS, 102, 2)
    assert [told.channel for told in tell(bench)] == ["alarms"]
    saved = document(bench)
    assert saved.channels_cursor == 102
    assert saved.channels[TASKS] == KeptChannel(position=100)
    assert saved.pending_channels == {TASKS: OperationKind.REGISTER}
    bench.now += 10
    assert tell(bench) == []
    message(bench, TASKS, 110, 9)
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert (register.interests[0].since, register.interests[0].at) == (wire.SINCE_POSITION, 100)
    bench.client.link_down("", bench.now)
    (said,) = bench.connect().interests
    assert (said.since, said.at) == (wire.SINCE_POSITION, 100)


def ask_behind_what_waits() -> ClientBench:
    """Its Hello says 103, the last one that came; 102 and 103 wait still."""
    bench = live(at(100, pending=(TASKS,), position=100))
    message(bench, TASKS, 101, 1, paged=True)
    bench.client.application.unsubscribe(TASKS, 1)
    tell(bench)
    message(bench, TASKS, 102, 1, paged=True)
    message(bench, TASKS, 103, 1, paged=True)
    bench.client.link_down("", bench.now)
    (said,) = bench.connect().interests
    assert said.at == 103
    bench.client.application.subscribe(TASKS, 1)
    return bench


def test_a_message_parked_while_the_service_is_asked_is_not_skipped() -> None:
    bench = ask_behind_what_waits()
    for delay_s in (1, 2, 4, 8, 0):
        tell(bench, fails=True)
        bench.now += delay_s
    assert bench.client.status(bench.now).parked == ("tasks",)
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10, streams=[wire.Stream(complete=120)]))
    saved = document(bench)
    assert (saved.channels_cursor, saved.channels[TASKS].position) == (120, 100)
    assert saved.pending_channels == {TASKS: OperationKind.REGISTER}
    bench.client.link_down("", bench.now)
    (said,) = bench.connect().interests
    assert (said.since, said.at) == (wire.SINCE_POSITION, 100)


def test_messages_cut_while_the_service_is_asked_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ask_behind_what_waits()
    monkeypatch.setattr(numbers, "CHANNELS_BACKLOG_BYTES_MAX", 1100)
    bench.client._channels._cut(bench.client._channels._feeds["tasks"])
    assert [told.offset for told in tell(bench)] == [101]
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert register.interests[0].at == 101


def test_a_parked_channel_is_asked_for_when_another_callback_subscribes() -> None:
    bench = live(at(100, TASKS))
    message(bench, TASKS, 101, 1)
    for _ in range(5):
        tell(bench, fails=True)
        bench.now += 9
    bench.client.application.subscribe(TASKS, 2)
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert (register.interests[0].since, register.interests[0].at) == (wire.SINCE_POSITION, 100)


def test_a_channel_without_subscribers_becomes_pending() -> None:
    bench = live(at(100, TASKS))
    bench.client.application.unsubscribe(TASKS, 1)
    message(bench, TASKS, 101, 1)
    message(bench, TASKS, 104, 3)
    saved = document(bench)
    assert (saved.channels_cursor, saved.channels[TASKS]) == (104, KeptChannel(position=100))
    bench.client.application.subscribe(TASKS, 1)
    assert [told.offset for told in tell(bench)] == [101, 104]
    assert document(bench).pending_channels == {}


def test_too_much_that_waits_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "CHANNELS_BACKLOG_BYTES_MAX", 10_000)
    bench = live(at(100, TASKS))
    for offset in range(101, 200):
        message(bench, TASKS, offset, 1)
    told = tell(bench)
    kept = told[-1].offset
    assert kept < 130
    saved = document(bench)
    assert (saved.channels_cursor, saved.channels[TASKS].position) == (199, 100)
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert register.interests[0].at == kept
    bench.say(registered=wire.Registered(request=register.request, kinds=KINDS))
    message(bench, TASKS, kept + 1, 1, paged=True)
    assert [one.offset for one in tell(bench)] == [kept + 1]


def test_missed_is_told_first_and_counts_as_told() -> None:
    bench = live(at(100, TASKS, told=90))
    bench.say(missed=wire.Missed(channel=TASKS.hash, before=110, reason=wire.RETENTION))
    message(bench, TASKS, 110, 1)
    missed, told = tell(bench)
    assert missed == Missed("tasks", 90, 110, MissedReason.RETENTION)
    assert (told.offset, told.previous) == (110, 109)
    assert document(bench).channels_cursor == 110


@pytest.mark.parametrize("says", [True, False])
def test_another_log(says: bool) -> None:
    bench = ClientBench(at(100, TASKS, told=90))
    bench.client.application.subscribe(TASKS, 1)
    bench.client.application.subscribe_missed(TASKS, 2)
    bench.connect()
    bench.say(welcome=wire.Welcome(in_sync=True, streams=[wire.Stream(epoch=8)]))
    saved = document(bench)
    assert (saved.channels_epoch, saved.channels_cursor) == (8, None)
    assert saved.channels[TASKS] == KeptChannel(position=BEGINNING, lost=True)
    if not says:  # it was said before a crash
        bench = ClientBench(saved)
        bench.client.application.subscribe(TASKS, 1)
        bench.client.application.subscribe_missed(TASKS, 2)
        assert [said.since for said in bench.connect().interests] == [wire.SINCE_BEGINNING]
        bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS, streams=[wire.Stream(epoch=8)]))
    else:
        bench.say(missed=wire.Missed(channel=TASKS.hash, before=3, reason=wire.LOST, paged=True))
    message(bench, TASKS, 3, 1 if says else 4, paged=True)
    bench.say(page_end=wire.PageEnd(stream=1, page=1, last=True, complete=5))
    lost, told = tell(bench)
    assert lost == Missed("tasks", None, 3, MissedReason.LOST)
    assert (told.offset, told.previous) == (3, 2)
    assert document(bench) == replace(at(5, TASKS, told=3), channels_epoch=8)


def lost() -> ClientBench:
    """Two channels whose log is another one."""
    bench = ClientBench(at(50, TASKS, ALARMS))
    for number, channel in enumerate((TASKS, ALARMS), 1):
        bench.client.application.subscribe(channel, number)
        bench.client.application.subscribe_missed(channel, number + 100)
    bench.connect()
    positions = [wire.Position(interest=one.hash) for one in (TASKS, ALARMS)]
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS, streams=[wire.Stream(epoch=8, positions=positions)]))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    return bench


def lost_in_an_empty_log() -> ClientBench:
    """And it has nothing yet."""
    bench = lost()
    bench.say(page_end=wire.PageEnd(stream=1, page=1, last=True))
    return bench


def test_the_loss_of_an_empty_log_is_told_at_once() -> None:
    """Also if the service does not say it a second time; and it is told once."""
    bench = lost_in_an_empty_log()
    told = tell(bench)
    assert {(one.channel, one.after, one.before, one.reason) for one in told} == {
        ("tasks", None, 0, MissedReason.LOST),
        ("alarms", None, 0, MissedReason.LOST),
    }
    assert not any(kept.lost for kept in document(bench).channels.values())
    bench.say(missed=wire.Missed(channel=TASKS.hash, before=0, reason=wire.LOST, paged=True))
    message(bench, TASKS, 4, 5)
    assert [one.offset for one in tell(bench)] == [4]
    assert document(bench).channels_cursor == 4
    assert document(bench).pending_channels == {}


def test_the_loss_of_an_empty_log_is_told_before_the_cursor_passes() -> None:
    bench = lost_in_an_empty_log()
    message(bench, TASKS, 4, 5)
    assert document(bench).pending_channels.keys() == {TASKS, ALARMS}, "both are behind the cursor"
    told = tell(bench)
    assert {(one.channel, one.before) for one in told if isinstance(one, Missed)} == {("alarms", 0), ("tasks", 0)}
    assert all(one.reason is MissedReason.LOST for one in told if isinstance(one, Missed))
    assert [one.offset for one in told if not isinstance(one, Missed)] == [4]
    assert document(bench).channels_cursor == 4
    assert document(bench).pending_channels == {}
    assert not any(kept.lost for kept in document(bench).channels.values())


def test_a_reg_sync_says_where_each_channel_is() -> None:
    bench = live(at(100, TASKS, ALARMS))
    message(bench, TASKS, 120, 20)
    tell(bench)
    bench.say(welcome=wire.Welcome(in_sync=False))
    (chunk,) = [frame.sync for frame in bench.out() if frame.HasField("sync")]
    assert [(said.text, said.since, said.at) for said in chunk.interests] == [
        ("alarms", wire.SINCE_POSITION, 120),
        ("tasks", wire.SINCE_POSITION, 120),
    ]


def test_other_attributes_go_on_where_the_channel_is() -> None:
    bench = live(at(100, ALARMS, told=80))
    other = ChannelInterest("alarms", ("solar",))
    bench.client.application.register_channel(other, NOW)
    unregister, register = bench.out()
    assert list(unregister.unregister.interests) == [ALARMS.hash]
    (said,) = register.register.interests
    assert (list(said.attributes), said.since, said.at) == (["solar"], wire.SINCE_POSITION, 100)


def test_the_document_without_channels_is_as_before() -> None:
    plain = Document(identity=ME, epoch=1, cursor=10, channels_epoch=7, channels_cursor=100)
    assert encode(plain) == encode(Document(identity=ME, epoch=1, cursor=10))
    assert b'"format":1' in encode(plain)
    assert b'"format":3' in encode(at(100, TASKS))
    assert b"queries" not in encode(at(100, TASKS))


@pytest.mark.parametrize(
    "kept",
    [
        KeptChannel(since=OLDEST),
        KeptChannel(since=Since("time", 5)),
        KeptChannel(since=Since("position", 5, 9), lost=True),
        KeptChannel(position=BEGINNING),
        KeptChannel(position=4, told=9),
    ],
)
def test_a_document_with_channels(kept: KeptChannel) -> None:
    whole = Document(
        identity=ME,
        channels={ALARMS: kept},
        pending_channels={ALARMS: OperationKind.REGISTER, TASKS: OperationKind.UNREGISTER},
        channels_epoch=7,
        channels_cursor=2**63,
    )
    assert decode(encode(whole), ME) == whole


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ((b'"channels_epoch":7', b'"channels_epoch":null'), "channels_cursor: given without"),
        ((b'"channels_cursor":100', b'"channels_cursor":-1'), "channels_cursor: is not a number"),
        ((b'"pending_channels":{', b'"pending_channels":{"x":"register"'), "pending_channels: 'x' contradicts"),
        ((b'"tasks":{}', b'"tasks":{"told":-1}'), "told: is not a number"),
        ((b'"tasks":{}', b'"tasks":{"since":"never"}'), "channels: since: 'never' is unknown"),
        ((b'"tasks":{}', b'"tasks":{"position":4}'), "channels: 'tasks' is behind the cursor"),
        ((b'"tasks":{}', b'"tasks":{"lost":1}'), "channels: lost is not"),
        ((b'"tasks":{}', b'"tasks":5'), "channels: has an entry"),
        ((b'"tasks":{}', b'"tasks":{},"tasks\\u0000x":{}'), "channels: has one name twice"),
        ((b'"tasks":{}', b'"tasks\\u0000b\\u0000a":{}'), "channels: channel: the attributes"),
    ],
)
def test_a_damaged_document(change: tuple[bytes, bytes], wrong: str) -> None:
    data = encode(at(100, TASKS)).replace(*change)
    data = data[: data.index(b',"check"')] + b"}"
    with pytest.raises(StateDamaged, match=f"^{wrong}"):
        decode(data, ME)


def test_a_channels_text() -> None:
    assert channel_from(ALARMS.text) == ALARMS
    with pytest.raises(ValueError, match=r"^since: -1 is not a number"):
        since_from({"since": "time", "at": -1})


def test_frames_of_channels_fit() -> None:
    bench = ClientBench()
    for number in range(70):
        attributes = tuple(f"{letter}" * 60 for letter in "abcdefghijklmnop")
        bench.client.application.register_channel(ChannelInterest(f"{number}" * 100, attributes), OLDEST)
    hello = bench.connect()
    assert len(hello.interests) == 0
    assert hello.capabilities & wire.CAPABILITY_QUERIES, "which kinds it knows is to be said"
    bench.say(welcome=wire.Welcome(in_sync=False, epoch=1, kinds=KINDS))
    chunks = [frame.sync for frame in bench.out()]
    assert sum(len(chunk.interests) for chunk in chunks) == 70
    assert max(chunk.ByteSize() for chunk in chunks) < 32 * 1024
    assert encode_frame(wire.ClientFrame(sync=chunks[0]))


def test_a_later_welcome_without_kinds_takes_no_channel_out_of_the_set() -> None:
    """It answers an Open of the gateway's own, which had no channels: what the first Welcome said stands."""
    bench = ClientBench()
    bench.client.application.register_channel(ALARMS, OLDEST)
    bench.client.application.subscribe(ALARMS, 1)
    bench.connect()
    place = wire.Position(interest=ALARMS.hash, position=40)
    bench.say(
        welcome=wire.Welcome(in_sync=True, epoch=1, kinds=KINDS, streams=[wire.Stream(epoch=7, positions=[place])])
    )
    bench.say(caught_up=wire.CaughtUp(complete=1))
    bench.say(page_end=wire.PageEnd(stream=1, page=1, last=True, complete=60))
    bench.out()
    bench.say(welcome=wire.Welcome(in_sync=False))
    chunks = [frame.sync for frame in bench.out() if frame.HasField("sync")]
    assert [one.text for chunk in chunks for one in chunk.interests] == ["alarms"]


def test_a_position_above_the_logs_end_begins_anew_and_the_loss_is_told() -> None:
    """As after a power loss of the only broker, for a channel that had just been subscribed to."""
    kept = {ALARMS: KeptChannel(), TASKS: KeptChannel(position=50)}
    bench = ClientBench(replace(at(30, ALARMS, pending=(TASKS,)), channels=kept))
    bench.client.application.subscribe(TASKS, 1)
    bench.client.application.subscribe_missed(TASKS, 2)
    (said,) = bench.connect().interests
    assert (said.since, said.at) == (wire.SINCE_POSITION, 50)
    bench.say(welcome=wire.Welcome(in_sync=True, kinds=KINDS))
    bench.say(caught_up=wire.CaughtUp(complete=10))
    loss = wire.Missed(channel=TASKS.hash, before=10, reason=wire.LOST, paged=True)
    bench.say(missed=loss)
    message(bench, TASKS, 20, 11, paged=True)
    assert (document(bench).channels[TASKS].position, document(bench).channels[TASKS].lost) == (BEGINNING, True)
    missed, told = tell(bench)
    assert (missed.reason, missed.after, missed.before, told.offset) == (MissedReason.LOST, None, 10, 20)
    bench.say(missed=loss)  # what is asked once more is told once more
    message(bench, TASKS, 20, 11, paged=True)
    message(bench, TASKS, 35, 15, paged=True)
    bench.say(page_end=wire.PageEnd(stream=1, page=2, last=True, complete=40))
    assert [one.offset for one in tell(bench)] == [35]
    assert document(bench).pending_channels == {}


@pytest.mark.parametrize("reason", [wire.RETENTION, wire.UNREADABLE, wire.EXPIRED])
def test_missed_messages_keep_their_reason_right_behind_a_loss(reason: wire.Reason) -> None:
    bench = lost()
    bench.say(missed=wire.Missed(channel=TASKS.hash, before=3, reason=reason, paged=True))
    message(bench, TASKS, 4, 2, paged=True)
    loss, missed, told = [one for one in tell(bench) if one.channel == "tasks"]
    assert loss == Missed("tasks", None, 0, MissedReason.LOST)
    assert missed == Missed("tasks", None, 3, MissedReason(wire.Reason.Name(reason)))
    assert told.offset == 4


HIGH = channels_by(pattern="^alarms/[^/]*/high$")


def of_pattern(bench: ClientBench, name: str, offset: int, back: int, *, paged: bool = False) -> None:
    said = wire.Message(channel=HIGH.hash, offset=offset, back=back, payload=b"1", paged=paged, name=name)
    bench.say(message=said)


def test_a_pattern_is_one_subscription_whose_messages_say_their_channels() -> None:
    bench = live(at(100, HIGH))
    of_pattern(bench, "alarms/a/high", 101, 1)
    of_pattern(bench, "alarms/new/high", 103, 2)
    told = tell(bench)
    assert [(one.channel, one.offset, one.previous) for one in told] == [
        ("alarms/a/high", 101, None),
        ("alarms/new/high", 103, 101),
    ]
    assert document(bench).channels_cursor == 103


def test_a_message_between_is_missed_whatever_its_channel() -> None:
    bench = live(at(100, HIGH))
    of_pattern(bench, "alarms/a/high", 105, 1)
    assert not tell(bench)
    assert document(bench).channels[HIGH].position == 100, "the next session goes on there"


def test_a_message_by_two_registrations_is_told_by_each() -> None:
    bench = live(at(100, HIGH, channel_by("alarms/a/high")))
    of_pattern(bench, "alarms/a/high", 101, 1, paged=True)
    assert [one.offset for one in tell(bench)] == [101]
    assert document(bench).channels_cursor == 100, "the other one is still to come"
    message(bench, channel_by("alarms/a/high"), 101, 1)
    assert [one.offset for one in tell(bench)] == [101]
    assert document(bench).channels_cursor == 101


def test_a_pattern_is_registered_as_one() -> None:
    bench = live(at(100, TASKS))
    bench.client.application.register_channel(HIGH, OLDEST)
    (register,) = [frame.register for frame in bench.out() if frame.HasField("register")]
    assert [(one.kind, one.text, one.since) for one in register.interests] == [
        (wire.INTEREST_PATTERN, "^alarms/[^/]*/high$", wire.SINCE_OLDEST)
    ]
    assert document(bench).channels[HIGH].since == OLDEST
    assert HIGH.title == "^alarms/[^/]*/high$"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "pattern: give a prefix or a pattern"),
        ({"prefix": "a", "pattern": "b"}, "pattern: give"),
        ({"prefix": "x" * 256}, "prefix: "),
        ({"prefix": 3}, "prefix: 3 is not a text"),
        ({"pattern": "a\0"}, "pattern: "),
        ({"pattern": "a", "attributes": "xy"}, "attributes: "),
    ],
)
def test_a_wrong_pattern_names_the_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        channels_by(**said)
