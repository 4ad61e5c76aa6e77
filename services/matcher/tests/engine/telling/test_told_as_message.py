"""Versions that are messages, too: who is told the message is not told the version, and nobody is told neither.

Stands for: awaited_messages
"""

import pytest
from coldnotify_matcher.engine.telling.awaited_messages import LOOKS, WAIT_MS
from coldnotify_matcher.engine.telling.told_as_message import follows_as_message
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import MessageHeaders, Retention
from coldnotify_schemas.message_places import MessagePlace
from coldnotify_testkit.channels_bench import ChannelsBench
from coldnotify_testkit.engine_bench import EPOCH, PREFIX

HOUR_S = 3_600


class World:
    """A matcher and one kept device, and what that is told: versions as numbers, messages as payloads."""

    def __init__(self) -> None:
        self.bench = ChannelsBench()
        self.versions = 0
        self.session = 0
        self.cursor: int | None = None

    def connect(self) -> "World":
        self.session += 1
        kept = internal_pb2.Kept(expiry_s=HOUR_S, protocol="mqtt 5.0")
        self.bench.request(self.session, open=internal_pb2.Open(ask=1, kept=kept))
        self.bench.settle()
        return self

    def subscribe(self, text: str = "a/#") -> "World":
        said = [wire_pb2.Interest(kind=wire_pb2.INTEREST_FILTER, text=text)]
        self.bench.request(self.session, register=wire_pb2.Register(request=1, interests=said))
        self.bench.settle()
        return self._read(0)

    def _read(self, page: int) -> "World":
        """Its gateway has all before, and asks for pages."""
        cursor = self.bench.engine.state.position - 1
        self.bench.request(
            self.session, catch_up=internal_pb2.CatchUp(ask=2, page=page, cursor=max(cursor, 0), epoch=EPOCH)
        )
        self.bench.settle()
        return self

    def message(self, payload: bytes, id_: str = "") -> int:
        return self.bench.send("a/1", payload, MessageHeaders(id=id_))

    def version(self, message: int | None, log: Retention = Retention.DAY) -> None:
        self.versions += 1
        place = None if message is None else MessagePlace(log, message)
        value = b'{"version":%d,"payload":%d}' % (self.versions, self.versions)
        record = HeadedObjectRecord(
            f"{PREFIX}a/1".encode(), value, self.versions, self.bench.now_ms, False, "", b"", message=place
        )
        self.bench.engine.on_object(record, self.bench.now_ms)

    def told(self) -> list[object]:
        """What was told since the last call, answers in brackets."""
        found: list[object] = []
        self.bench.settle()
        self.bench.settle()  # what waited for a message leaves
        for item in self.bench.take():
            if item.HasField("fan_out"):
                found.append(item.fan_out.newest.version)
            elif item.HasField("stream_fan_out"):
                found.append(item.stream_fan_out.entry.message.payload)
            elif item.HasField("page"):
                found += [[one.version] if one.answer else one.version for one in item.page.newest]
            elif item.HasField("stream_page"):
                found += [one.message.payload for one in item.stream_page.entries if one.HasField("message")]
        return found


def test_a_live_session_is_told_the_message_alone() -> None:
    world = World().connect().subscribe()
    world.told()
    world.version(world.message(b"one"))
    assert world.told() == [b"one"]
    world.version(None)
    assert world.told() == [2], "one that is no message"


def test_a_subscription_is_answered_by_the_version() -> None:
    world = World()
    world.version(world.message(b"one"))
    world.bench.settle()
    world.connect().subscribe()
    assert world.told() == [[1]]


def test_a_message_that_is_not_read_yet_is_no_answer_but_follows() -> None:
    world = World()
    world.version(world.message(b"one"))
    obj = world.bench.engine.state.objects[f"{PREFIX}a/1"]
    assert follows_as_message(world.bench.engine.state, obj)
    world.bench.settle()
    assert not follows_as_message(world.bench.engine.state, obj)


def test_a_filter_that_was_registered_between_message_and_version_is_told_the_version() -> None:
    world = World()
    message = world.message(b"one")
    world.bench.settle()
    world.connect().subscribe()
    assert world.told() == []
    world.version(message)
    assert world.told() == [1]
    world.version(world.message(b"two"))
    assert world.told() == [b"two"]


def test_a_repeat_of_a_message_stands_for_the_first_one() -> None:
    """The gateway died before it had written the version, and the device has sent its PUBLISH of QoS 2 again."""
    world = World()
    world.message(b"one", "x")
    world.bench.settle()
    world.connect().subscribe()
    again = world.message(b"one", "x")
    world.bench.settle()
    world.version(again)
    assert world.told() == [1]


def test_a_sleeper_is_told_the_message_if_it_is_there_and_else_the_version() -> None:
    for removed, told in ((False, [b"one"]), (True, [1])):
        world = World().connect().subscribe()
        world.bench.request(world.session, leave=internal_pb2.Leave())
        world.told()
        message = world.message(b"one")
        world.version(message)
        if removed:
            world.bench.settle()
            world.bench.remove_below(message + 1)
            world.bench.engine.channels.on_log_start(Retention.DAY, message + 1)
            world.bench.engine.state.channel_logs[Retention.DAY].tail.drop_below(message + 1)
        world.bench.settle()
        assert [one for one in world.connect().told() if one] == told


@pytest.mark.parametrize("log", [Retention.HOUR, Retention.MONTH])
def test_a_message_of_another_log_is_none_that_anybody_is_told(log: Retention) -> None:
    world = World().connect().subscribe()
    world.told()
    world.version(10**9, log)
    assert world.told() == [1]


FAR = 10**9


def seen(world: World) -> None:
    """The log's end is asked for, and comes."""
    ends = world.bench.engine.state.channel_logs[Retention.DAY].ends
    ends.seen(float(ends.looks + 1), world.bench.end)
    world.bench.engine.flush(world.bench.now_ms)


def passed_over(world: World) -> int:
    return world.bench.engine.state.counts.get("properties_passed_over", 0)


def test_a_header_far_ahead_of_the_log_hides_nothing_once_the_end_is_known() -> None:
    world = World().connect().subscribe()
    world.told()
    world.version(FAR)
    assert world.told() == []
    for _ in range(LOOKS):
        seen(world)
    assert world.told() == [1]
    assert passed_over(world) == 1


def test_an_end_that_was_asked_for_before_the_version_proves_nothing() -> None:
    world = World().connect().subscribe()
    world.told()
    message = world.bench.end
    world.version(message)
    seen(world)
    assert world.told() == []
    assert world.message(b"one") == message
    seen(world)
    assert world.told() == [b"one"]
    assert not passed_over(world)


def test_without_any_end_a_version_waits_for_a_while() -> None:
    world = World().connect().subscribe()
    world.told()
    world.version(FAR)
    world.bench.tick(WAIT_MS - 1)
    assert world.told() == []
    world.bench.tick(1)
    assert world.told() == [1]


def test_a_waiting_version_is_replaced_by_a_newer_one() -> None:
    world = World().connect().subscribe()
    world.told()
    world.version(FAR)
    world.version(None)
    assert world.told() == [2]
    assert world.bench.engine.conflation.floor == world.bench.engine.state.position


@pytest.mark.parametrize("removed", [False, True])
def test_a_place_of_another_channel_hides_nothing(*, removed: bool) -> None:
    world = World().connect().subscribe()
    stranger = world.bench.send("b/1", b"stranger")
    world.told()
    if removed:
        world.bench.remove_below(stranger + 1)
        world.bench.engine.channels.on_log_start(Retention.DAY, stranger + 1)
    world.version(stranger)
    assert world.told() == [1]
    assert passed_over(world) == 1


def test_a_successor_answers_with_a_version_whose_header_is_far_ahead() -> None:
    world = World()
    world.bench.engine.state.live = False  # it is loaded
    world.version(FAR)
    world.bench.engine.state.live = True
    world.connect().subscribe()
    assert world.told() == [[1]]
