"""The channels of a device without a cursor of its own: marks as texts, what is said, and where it goes on."""

from typing import Any

import pytest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_common.played.agent_channels import NOWHERE, ChannelsMark, parse_mark, short
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.interests import by_channel, by_name, digest_of
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    KINDS_CHANNELS,
    KINDS_NAMES,
    SINCE_BEGINNING,
    SINCE_NOW,
    SINCE_OLDEST,
    SINCE_POSITION,
    Ack,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    Interest,
    Message,
    Missed,
    PageEnd,
    Position,
    Refusal,
    Since,
    Stream,
    Welcome,
)

TASKS, LOGS = by_channel("tasks").hash, by_channel("logs").hash
KINDS = KINDS_NAMES | KINDS_CHANNELS
EPOCH = 0x51


def wanted(name: str, since: Since = SINCE_OLDEST) -> Interest:
    return Interest(kind=INTEREST_CHANNEL, text=name, since=since)


def device(mark: ChannelsMark | None = None, since: Since = SINCE_OLDEST) -> PlayedDevice:
    channels = {TASKS: wanted("tasks", since), LOGS: wanted("logs", SINCE_NOW)}
    return PlayedDevice("d", "g", "c", ["a"], 7, 41, channels=channels, mark=mark)


def frames(data: bytes) -> list[ClientFrame]:
    return [parse_client_frame(body) for body in FrameBuffer(1 << 20).feed(data)]


def said(**frame: Any) -> list[GatewayFrame]:
    return [GatewayFrame(**frame)]


def message(offset: int, channel: int = TASKS, *, paged: bool = True) -> list[GatewayFrame]:
    return said(message=Message(channel=channel, offset=offset, back=1, payload=b"1", paged=paged))


@pytest.mark.parametrize(
    "mark",
    [
        ChannelsMark(EPOCH, NOWHERE),
        ChannelsMark(EPOCH, 17, frozenset({short(TASKS)})),
        ChannelsMark(EPOCH, 17, frozenset({short(TASKS), short(LOGS)}), {short(LOGS): 99}),
    ],
)
def test_a_mark_is_a_text(mark: ChannelsMark) -> None:
    assert parse_mark(str(mark)) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "51",
        "51.17",
        "x.1.",
        "51.1.short",
        f"51.1.{short(TASKS)}-",
        "51.1.0@",
        "51." + "9" * 20 + ".",
        "51." + "9" * 19 + ".",
    ],
)
def test_what_is_no_mark_is_none(text: str) -> None:
    assert parse_mark(text) is None


def test_at_first_it_asks_as_the_device_does() -> None:
    agent = Agent(device())
    (frame,) = frames(agent.begin())
    assert [(one.text, one.since) for one in frame.hello.interests] == [("tasks", SINCE_OLDEST), ("logs", SINCE_NOW)]
    assert not frame.hello.streams
    assert frame.hello.digest == digest_of([by_name("a"), by_channel("tasks"), by_channel("logs")])


def test_it_is_caught_up_with_both_and_says_where_it_is() -> None:
    agent = Agent(device())
    agent.begin()
    begins = Stream(epoch=EPOCH, positions=[Position(interest=TASKS), Position(interest=LOGS, position=50)])
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS, streams=[begins])))
    agent.receive(said(caught_up=CaughtUp(complete=41)))
    assert [agent.objects_caught_up, agent.caught_up] == [True, False]
    agent.receive(message(3) + said(page_end=PageEnd(stream=1, page=1)))
    assert agent.page_ended
    assert agent.channels.mark() == ChannelsMark(EPOCH, 3, frozenset({short(TASKS), short(LOGS)}), {short(LOGS): 50})
    (ack,) = frames(agent.acknowledge())
    assert ack.ack == Ack(streams=[Stream(page=1)])
    agent.receive(message(51, LOGS) + said(page_end=PageEnd(stream=1, page=2, last=True, complete=60)))
    assert agent.caught_up
    assert agent.channels.mark() == ChannelsMark(EPOCH, 60, frozenset({short(TASKS), short(LOGS)}))
    agent.receive(message(61, paged=False))
    mark = agent.channels.mark()
    assert mark is not None
    assert mark.offset == 61
    assert [found.offset for found in agent.found if isinstance(found, Message)] == [3, 51, 61]


def test_it_goes_on_where_the_mark_says() -> None:
    agent = Agent(device(ChannelsMark(EPOCH, 60, frozenset({short(TASKS), short(LOGS)}))))
    (frame,) = frames(agent.begin())
    said_of_streams = [Stream(epoch=EPOCH, complete=60)]
    assert (list(frame.hello.streams), list(frame.hello.interests)) == (said_of_streams, [])
    agent = Agent(device(ChannelsMark(EPOCH, 60, frozenset({short(TASKS), short(LOGS)}), {short(LOGS): 70})))
    (frame,) = frames(agent.begin())
    assert [(one.text, one.since, one.at) for one in frame.hello.interests] == [("logs", SINCE_POSITION, 70)]
    agent = Agent(device(ChannelsMark(EPOCH, 60, frozenset({short(TASKS)}))))
    (frame,) = frames(agent.begin())
    assert [(one.text, one.since) for one in frame.hello.interests] == [("logs", SINCE_NOW)]


def test_the_whole_set_says_where_they_are() -> None:
    agent = Agent(device(ChannelsMark(EPOCH, NOWHERE, frozenset({short(TASKS)}))))
    agent.begin()
    chunks = [frame.sync for frame in frames(agent.receive(said(welcome=Welcome(in_sync=False, kinds=KINDS))))]
    found = [(one.text, one.since) for one in chunks[-1].interests]
    assert found == [("tasks", SINCE_BEGINNING), ("logs", SINCE_NOW)]
    assert [chunk.last for chunk in chunks] == [False, True]


def test_with_too_many_for_a_hello_the_service_is_made_to_ask_for_the_set() -> None:
    channels = {by_channel(str(n)).hash: wanted(str(n)) for n in range(65)}
    agent = Agent(PlayedDevice("d", "g", "c", channels=channels))
    (frame,) = frames(agent.begin())
    assert not frame.hello.interests
    assert frame.hello.digest != agent.digest


def test_another_log_begins_anew() -> None:
    agent = Agent(device(ChannelsMark(EPOCH, 60, frozenset({short(TASKS), short(LOGS)}))))
    agent.begin()
    agent.receive(
        said(welcome=Welcome(in_sync=True, streams=[Stream(epoch=EPOCH + 1)]))
        + said(missed=Missed(channel=TASKS, before=3, paged=True))
    )
    mark = agent.channels.mark()
    assert mark is not None
    assert (mark.epoch, mark.offset) == (EPOCH + 1, 2)
    assert mark.position(TASKS) == 2
    assert isinstance(agent.found[0], Missed)


def test_a_service_that_knows_none_refuses_them() -> None:
    agent = Agent(device())
    agent.begin()
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS_NAMES)) + said(caught_up=CaughtUp()))
    assert agent.caught_up
    assert set(agent.refused) == {"tasks", "logs"}


def test_a_refused_one_is_told_by_its_name() -> None:
    agent = Agent(device())
    agent.begin()
    refused = [Refusal(interest=TASKS, reason="channel: too many")]
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS, refused=refused)))
    assert agent.refused == {"tasks": "channel: too many"}


def test_an_event_says_where_a_page_goes_on() -> None:
    agent = Agent(device(ChannelsMark(EPOCH, 1, frozenset({short(TASKS), short(LOGS)}), {short(LOGS): 9})))
    agent.begin()
    agent.receive(message(5))
    (found,) = agent.found
    assert isinstance(found, Message)
    mark = agent.channels.mark_at(found)
    assert (mark.position(TASKS), mark.position(LOGS)) == (5, 9)


def test_who_does_not_come_back_is_unregistered() -> None:
    agent = Agent(device())
    (_, channels) = frames(agent.forget())
    assert set(channels.unregister.interests) == {TASKS, LOGS}
