"""What a raw device does with what docs/protocol.md says: what it asks, stores and tells. Wherever it crashes.

Stands for: application, channels, objects, operations, publishes, state
"""

from collections.abc import Iterable, Iterator

import pytest
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_testkit.raw_device.application import ChannelGap, Version
from coldnotify_testkit.raw_device.device import Names, RawDevice
from coldnotify_testkit.raw_device.hashes import channel_hash, crc, query_hash
from coldnotify_testkit.raw_device.hashes import sets_digest as sets_digest_of

LAMPS = "Kind = lamp"
HASH = query_hash(LAMPS)
TASKS = channel_hash("tasks")


class Memory:
    """A disk."""

    def __init__(self) -> None:
        self.data: bytes | None = None

    def read(self) -> bytes | None:
        return self.data

    def write(self, data: bytes) -> None:
        self.data = data


class Told:
    """An application."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, int | None]] = []
        self.held: set[str] = set()
        self.messages: list[int] = []
        self.gaps: list[ChannelGap] = []
        self.published_at: list[int | None] = []

    def told(self, told: Version) -> None:
        self.versions.append((told.name, told.version))

    def members(self, text: str, added: set[str], removed: set[str]) -> None:
        assert text == LAMPS
        self.held = (self.held | added) - removed

    def message(self, channel: str, offset: int, id_: str, payload: bytes) -> None:
        self.messages.append(offset)

    def missed(self, channel: str, gap: ChannelGap) -> None:
        self.gaps.append(gap)

    def refused(self, kind: str, text: str, reason: str) -> None:
        raise AssertionError(f"{kind} {text} was refused: {reason}")

    def published(self, id_: str, offset: int | None, reason: str) -> None:
        self.published_at.append(offset)


class Unit:
    """A device, its disk, its application, and whoever plays the gateway."""

    def __init__(self) -> None:
        self.disk, self.told, self.now = Memory(), Told(), 0.0
        self.device = self._made()

    def _made(self) -> RawDevice:
        return RawDevice(Names("animal.observer", "region-1", "unit-1"), self.disk, self.told)

    def crash(self) -> None:
        self.device = self._made()

    def says(self) -> list[wire.ClientFrame]:
        """What has left since the last time."""
        data = self.device.bytes_to_send(self.now)
        return [parse_client_frame(body) for body in FrameBuffer(32 * 1024).feed(data)]

    def connects(self) -> wire.Hello:
        self.device.connect(self.now)
        (hello,) = self.says()
        return hello.hello

    def hears(self, *frames: dict[str, object]) -> list[wire.ClientFrame]:
        for frame in frames:
            self.device.receive(encode(wire.GatewayFrame(**frame)), self.now)  # type: ignore[arg-type]
        return self.says()


def notification(name: str, version: int, offset: int = 0, **more: object) -> dict[str, object]:
    said = wire.Notification(name=name, version=version, offset=offset, payload=b"1", **more)  # type: ignore[arg-type]
    return {"notification": said}


def member(name: str, version: int = 1) -> dict[str, object]:
    return notification(name, version, answer=True, entered=[HASH])


def registered(**lists: Iterable[int]) -> dict[str, object]:
    return {"registered": wire.Registered(**lists)}  # type: ignore[arg-type]


def welcome(**more: object) -> dict[str, object]:
    kinds = wire.KINDS_NAMES | wire.KINDS_QUERIES | wire.KINDS_CHANNELS
    return {"welcome": wire.Welcome(in_sync=True, kinds=kinds, **more)}  # type: ignore[arg-type]


def caught_up(complete: int, **more: object) -> dict[str, object]:
    return {"caught_up": wire.CaughtUp(complete=complete, **more)}  # type: ignore[arg-type]


def with_lamps() -> Unit:
    """It holds two members, at 10."""
    unit = Unit()
    unit.device.register_query(LAMPS)
    assert [query.text for query in unit.connects().interests] == [LAMPS]
    answer = [registered(begun=[HASH]), member("a"), member("b"), registered(answered=[HASH])]
    unit.hears(welcome(epoch=7), *answer, caught_up(10))
    assert (unit.told.held, unit.device.state.cursor, unit.device.settled) == ({"a", "b"}, 10, True)
    return unit


def crashes(frames: list[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """What arrives before it crashes."""
    for count in range(len(frames) + 1):
        yield frames[:count]


def of_a_void_cursor(*, answered_first: bool) -> list[dict[str, object]]:
    """What follows a Welcome with another epoch: `a` has left, `c` is new, so is `d` since the answer began."""
    whole = registered(answered=[HASH])
    change = notification("d", 1, offset=20, entered=[HASH])
    answer = [registered(begun=[HASH]), member("b"), member("c")]
    return [*answer, whole, change] if answered_first else [*answer, change, whole]


def lost_by_a_crash(*, answered_first: bool) -> list[set[str]]:
    """What the device holds wrongly, having come back, by how much it had been told before it crashed."""
    wrong = []
    for told in crashes(of_a_void_cursor(answered_first=answered_first)):
        unit = with_lamps()
        unit.crash()
        unit.connects()
        unit.hears(welcome(epoch=8), *told)
        unit.crash()
        hello = unit.connects()
        # As the service would: without a cursor, all; with one, what lies above it.
        if not hello.HasField("cursor"):
            rest = of_a_void_cursor(answered_first=answered_first)
        else:
            assert hello.cursor == 20
            rest = of_a_void_cursor(answered_first=answered_first) if hello.interests else []
        unit.hears(welcome(), *rest, caught_up(20))
        wrong.append(unit.told.held ^ {"b", "c", "d"})
    return wrong


def test_whoever_saves_its_cursor_with_each_frame_loses_nothing_of_an_answer() -> None:
    assert not any(lost_by_a_crash(answered_first=True))
    # In the other order the cursor passes before the set that was begun counts.
    assert any(lost_by_a_crash(answered_first=False))


def test_an_answer_goes_on_where_the_connection_ended() -> None:
    unit = Unit()
    unit.device.register_query(LAMPS)
    unit.connects()
    page_end = wire.PageEnd(page=1, query=HASH, reached="b", reached_at=5)
    (ack,) = unit.hears(welcome(epoch=7), registered(begun=[HASH]), member("a"), member("b"), {"page_end": page_end})
    assert ack.ack.page == 1
    unit.crash()
    (query,) = unit.connects().interests
    assert (query.reached, query.reached_at) == ("b", 5)
    unit.hears(welcome(), member("c"), registered(answered=[HASH]), notification("a", 2, offset=6, left=[HASH]))
    assert unit.told.held == {"b", "c"}
    unit.hears(caught_up(6))
    assert unit.device.settled


def test_progress_is_void_once_the_answer_begins_again() -> None:
    unit = Unit()
    unit.device.register_query(LAMPS)
    unit.connects()
    page_end = wire.PageEnd(page=1, query=HASH, reached="b", reached_at=5)
    unit.hears(welcome(epoch=7), registered(begun=[HASH]), member("a"), member("b"), {"page_end": page_end})
    unit.crash()
    unit.connects()
    unit.hears(welcome(), registered(begun=[HASH]), member("b"), registered(answered=[HASH]), caught_up(9))
    assert (unit.told.held, unit.device.settled) == ({"b"}, True)


@pytest.mark.parametrize("fits", [True, False])
def test_sets_that_may_differ_are_registered_again_before_the_cursor_passes(fits: bool) -> None:
    unit = with_lamps()
    unit.connects()
    sets_digest = sets_digest_of([(LAMPS, {"a", "b"} if fits else {"b"})])
    said = unit.hears(welcome(), caught_up(30, sets_digest=sets_digest))
    assert [frame.register.interests[0].text for frame in said if frame.HasField("register")] == (
        [] if fits else [LAMPS]
    )
    assert unit.device.state.cursor == 30
    unit.crash()
    assert [query.HasField("held") for query in unit.connects().interests] == ([] if fits else [True])
    if not fits:
        unit.hears(welcome(), registered(begun=[HASH]), member("b"), registered(answered=[HASH]), caught_up(31))
        assert (unit.told.held, unit.device.settled) == ({"b"}, True)


def _digest_of(names: set[str]) -> int:
    from coldnotify_schemas.digest import digest, sets_digest

    return sets_digest([(HASH, digest(names))])


def test_a_frame_is_told_first_to_what_it_left_and_then_to_what_it_entered() -> None:
    unit = with_lamps()
    unit.connects()
    unit.hears(welcome(), caught_up(10), notification("a", 2, offset=11, left=[HASH], deleted=True))
    assert (unit.told.versions[-1], unit.told.held) == (("a", 2), {"b"})
    unit.hears(notification("c", 1, offset=12, entered=[HASH]), notification("c", 1, offset=12, entered=[HASH]))
    assert unit.told.versions[-2:] == [("a", 2), ("c", 1)]


def message(offset: int, back: int, *, paged: bool = False) -> dict[str, object]:
    return {"message": wire.Message(channel=TASKS, offset=offset, back=back, payload=b"1", paged=paged)}


def position(offset: int) -> list[wire.Position]:
    return [wire.Position(interest=TASKS, position=offset)]


def stream(**said: object) -> list[wire.Stream]:
    return [wire.Stream(**said)]  # type: ignore[arg-type]


def page_end_of_channels(**said: object) -> dict[str, object]:
    return {"page_end": wire.PageEnd(stream=1, **said)}  # type: ignore[arg-type]


def with_tasks() -> Unit:
    """It follows a channel from 5 on, and is at 8."""
    unit = Unit()
    unit.device.subscribe("tasks")
    (channel,) = unit.connects().interests
    assert (channel.since, unit.device.settled) == (wire.SINCE_NOW, False)
    said = welcome(epoch=7, streams=stream(epoch=3, positions=position(5)))
    unit.hears(said, message(8, 3), caught_up(0, streams=stream(complete=8)))
    assert (unit.told.messages, unit.device.settled) == ([8], True)
    return unit


def test_a_channel_is_told_in_order_and_each_message_once() -> None:
    unit = with_tasks()
    unit.hears(message(8, 3), message(11, 3))
    unit.crash()
    hello = unit.connects()
    assert (list(hello.streams), list(hello.interests)) == (stream(epoch=3, complete=11), [])
    unit.hears(welcome(), message(11, 3), message(12, 1, paged=True), page_end_of_channels(last=True))
    assert unit.told.messages == [8, 11, 12]
    assert unit.device.state.channels_cursor == 11


def test_a_message_that_does_not_follow_what_is_known_ends_the_session() -> None:
    unit = with_tasks()
    unit.hears(message(14, 2))
    assert unit.told.messages == [8]
    assert unit.device.over is not None
    unit.crash()
    (channel,) = unit.connects().interests
    assert (channel.since, channel.at) == (wire.SINCE_POSITION, 8)


def test_a_message_of_a_channel_whose_beginning_is_not_known_is_none_of_it() -> None:
    unit = with_tasks()
    unit.device.unsubscribe("tasks")
    unit.device.subscribe("tasks")
    unit.hears(message(9, 1))
    assert unit.told.messages == [8]


def test_another_log_is_delivered_completely_after_a_report_of_the_loss() -> None:
    unit = with_tasks()
    unit.crash()
    unit.connects()
    unit.hears(welcome(streams=stream(epoch=4, positions=position(5))))
    unit.crash()
    (channel,) = unit.connects().interests
    assert channel.since == wire.SINCE_BEGINNING
    end = page_end_of_channels(page=1, last=True, complete=6)
    unit.hears(welcome(streams=stream(epoch=4)), message(2, 3, paged=True), caught_up(0), end)
    assert (unit.told.gaps, unit.told.messages) == ([ChannelGap(None, 2, "lost")], [8, 2])
    assert unit.device.settled


def test_a_registered_with_its_own_epoch_makes_nothing_void() -> None:
    """Behind a takeover the service does not know that the client knows it."""
    unit = with_tasks()
    unit.hears({"registered": wire.Registered(streams=stream(epoch=3))}, message(11, 3))
    assert (unit.told.gaps, unit.told.messages, unit.device.state.channels_cursor) == ([], [8, 11], 11)


def test_a_channel_of_an_empty_log_lacks_nothing() -> None:
    unit = Unit()
    unit.device.subscribe("tasks")
    unit.connects()
    position = wire.Position(interest=TASKS)
    end = page_end_of_channels(page=1, last=True)
    said = unit.hears(welcome(epoch=7, streams=stream(epoch=3, positions=[position])), caught_up(0), end)
    assert [list(frame.ack.streams) for frame in said if frame.HasField("ack")] == [stream(page=1)]
    assert unit.device.settled
    (channel,) = unit.connects().interests
    assert channel.since == wire.SINCE_BEGINNING
    unit.hears(welcome(streams=stream(epoch=3)), caught_up(0), end, message(0, 1))
    assert (unit.told.messages, unit.device.state.channels_cursor, unit.device.state.pending) == ([0], 0, {})


def test_without_channels_nothing_of_their_cursor_is_said() -> None:
    unit = with_tasks()
    unit.device.unsubscribe("tasks")
    (said,) = [frame.unregister for frame in unit.says() if frame.HasField("unregister")]
    unit.hears({"unregistered": wire.Unregistered(request=said.request)})
    hello = unit.connects()
    assert list(hello.streams) == []


def test_a_set_that_is_not_in_sync_is_said_as_a_whole() -> None:
    unit = with_lamps()
    unit.device.register("camera")
    assert list(unit.connects().register) == ["camera"]
    said = unit.hears({"welcome": wire.Welcome(in_sync=False, kinds=3)})
    (chunk,) = [frame.sync for frame in said if frame.HasField("sync")]
    assert (chunk.last, list(chunk.objects), chunk.interests[0].text) == (True, ["camera"], LAMPS)
    unit.crash()
    assert set(unit.device.state.pending.values()) == {"register"}
    assert len(unit.device.state.pending) == len(["camera", LAMPS])


def test_unsettled_registrations_are_reported_until_settled() -> None:
    unit = Unit()
    unit.device.register("camera")
    assert unit.connects().capabilities & wire.CAPABILITY_UNSETTLED
    camera = wire.Notification(crc=crc("camera"), answer=True)
    (said,) = [
        frame.unsettled for frame in unit.hears(welcome(), {"notification": camera}) if frame.HasField("unsettled")
    ]
    assert (list(said.settled), unit.told.versions) == (["camera"], [("camera", None)])
    unit.hears({"registered": wire.Registered(request=said.request)})
    assert not unit.connects().capabilities & wire.CAPABILITY_UNSETTLED


def _crc(name: str) -> int:
    from coldnotify_schemas.digest import object_crc

    return object_crc(name)


def test_messages_are_published_in_order_whatever_is_refused_meanwhile() -> None:
    unit = with_tasks()
    for number in range(3):
        unit.device.publishes.add(wire.Publish(channel="tasks", id=f"m{number}"))
    requests = [frame.publish.request for frame in unit.says()]
    assert requests == [1, 2, 3]
    refusal = wire.NotPublished(request=1, reason="later", retry_after_ms=500)
    assert unit.hears({"not_published": refusal}) == []
    unit.now = 1.0
    said = [frame.publish for frame in unit.says() if frame.HasField("publish")]
    assert [(publish.request, publish.id) for publish in said] == [(1, "m0"), (2, "m1"), (3, "m2")]
    unit.hears({"published": wire.Published(request=1, offset=4)})
    unit.connects()
    assert [frame.publish.id for frame in unit.hears(welcome()) if frame.HasField("publish")] == ["m1", "m2"]
    assert unit.told.published_at == [4]
