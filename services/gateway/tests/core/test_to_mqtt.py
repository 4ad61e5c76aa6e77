"""What devices are told: fan-outs, pages and answers by their filters, and what they acknowledge of it."""

from weakref import WeakValueDictionary

import pytest
from coldnotify_gateway.core import Identified, SendAll
from coldnotify_gateway.core.stream import NONE, Stage
from coldnotify_schemas.internal_pb2 import Answered, CompleteStream, Entry, Item, Newest, Page
from coldnotify_schemas.mqtt.packets import ConnAck, PubAck, Publish, SubAck, Subscribe, TopicSubscription
from coldnotify_schemas.mqtt.properties import Properties, property_bytes
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.wire_pb2 import LOST, Missed
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_bench import fan_out
from coldnotify_testkit.mqtt_bench import (
    MQTT_3_1_1,
    MqttBench,
    MqttWire,
    a_connect,
    a_filter,
    a_message,
    a_page,
    a_version,
    answered,
    message_told,
    opened_kept,
    puback,
    told,
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> MqttBench:
    monkeypatch.setattr("coldnotify_gateway.core.mqtt.topic_aliases._GROUPS", WeakValueDictionary())
    return MqttBench()


def lamp(
    bench: MqttBench, *filters: TopicSubscription | str, receive_max: int | None = None
) -> tuple[MqttWire, Identified]:
    """A live session that has subscribed."""
    wire, session = bench.connected(a_connect(properties=Properties(receive_max=receive_max)), complete=4)
    for one in filters:
        bench.subscribe(wire, session, one)
    return wire, session


# --- fan-outs


def test_a_version_is_told_to_who_has_a_filter_that_fits(bench: MqttBench) -> None:
    wire, session = lamp(bench, "a/+")
    bench.inbox(told(a_version("a/b", 3, 9, b"{}"), session), told(a_version("b", 3, 10, b"{}"), session))
    (said,) = wire.publishes()
    assert (said.topic, said.payload, said.qos, said.retain, said.dup) == ("a/b", b"{}", 1, False, False)
    assert session.objects.acked == 4
    bench.send(wire, puback(said))
    assert session.objects.acked == 9


def test_a_device_is_told_each_member_of_a_set_once(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")

    def members(names: str, answers: tuple[str, ...] = ()) -> list[Newest]:
        found = [a_version(name, 3, 9, b"x", answers=answers) for name in names]
        for one in found[:-1]:
            one.behind = 1
        return found

    def said() -> list[str]:
        packets = wire.publishes()
        for one in packets:
            bench.send(wire, puback(one))
        return [one.topic for one in packets]

    bench.inbox(*(told(one, session) for one in members("ab")))
    assert said() == ["a", "b"]
    assert session.objects.acked == 9
    # It has them, and asks again.
    bench.subscribe(wire, session, "#")
    for _ in range(2):
        bench.inbox(Item(answered=Answered(session=session.number, newest=members("abc", answers=("#",)))))
    assert said() == ["a", "b", "c"]


def test_a_page_has_each_member_of_a_set(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("#")], 4, present=True))
    first, second = a_version("a", 1, 9, b"x"), a_version("b", 1, 9, b"x")
    first.behind = 1
    bench.inbox(a_page(number, ask, 1, [first, second], 9, last=True))
    assert [one.topic for one in wire.packets() if isinstance(one, Publish)] == ["a", "b"]


def test_like_sessions_get_the_same_bytes_in_one_output(bench: MqttBench) -> None:
    sessions = []
    for number in range(3):
        wire, session = bench.connected(a_connect(f"farm/barn/lamp-{number}"))
        bench.subscribe(wire, session, "#")
        sessions.append(session)
    outputs = bench.gateway.on_item(0, told(a_version("a", 1, 9, b"x"), *sessions), bench.now_s)
    (said,) = [one for one in outputs if isinstance(one, SendAll)]
    assert len(said.peers) == 3


def test_frames_and_packets_in_one_fan_out(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    other = bench.live(hello("c"))
    number = bench.gateway.sessions()[-1].number
    bench.inbox(fan_out("a", 1, 9, session.number, number))
    assert other.kinds() == ["notification"]
    assert len(wire.publishes()) == 1
    assert bench.gateway.counters.live_dropped == 0


def test_an_identifier_in_flight_is_not_used_again(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    other, also = lamp(bench, "#")
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    (kept,) = wire.publishes()
    bench.gateway._to_device._last_id = kept.packet_id - 1 if kept.packet_id else 0
    bench.inbox(told(a_version("a", 2, 10, b"x"), session, also))
    (mine,), (others,) = wire.publishes(), other.publishes()
    assert others.packet_id == kept.packet_id
    assert mine.packet_id not in (None, kept.packet_id)


def test_qos_0_is_acknowledged_when_it_is_written(bench: MqttBench) -> None:
    wire, session = lamp(bench, TopicSubscription("#", 0))
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    (said,) = wire.publishes()
    assert (said.qos, said.packet_id, session.objects.acked) == (0, None, 9)


def test_overlapping_filters_are_one_publish_with_all_identifiers(bench: MqttBench) -> None:
    wire, session = lamp(bench)
    bench.subscribe(wire, session, TopicSubscription("a/+", 0), identifier=1)
    bench.subscribe(wire, session, TopicSubscription("#", 1, retain_as_published=True), identifier=2)
    bench.inbox(told(a_version("a/b", 1, 9, b"x"), session))
    (said,) = wire.publishes()
    assert (said.qos, said.retain, sorted(said.properties.subscription_ids)) == (1, True, [1, 2])


def test_a_deletion_is_zero_bytes(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.inbox(told(a_version("a", 3, 9, deleted=True), session))
    assert [one.payload for one in wire.publishes()] == [b""]


def test_nothing_is_told_twice_and_what_was_held_back_is_told(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    late = a_version("late", 1, 10, b"x")
    newer = a_version("newer", 1, 11, b"x")
    newer.behind = 2
    bench.inbox(told(newer, session), told(late, session), told(newer, session), told(late, session))
    assert [one.topic for one in wire.publishes()] == ["newer", "late"]


def test_high_priority_has_no_effect(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    item = told(a_version("a", 1, 9, b"x"), session)
    item.fan_out.urgent = True
    bench.inbox(item)
    assert len(wire.publishes()) == 1


def test_a_name_that_mqtt_cannot_say_is_told_to_no_device(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.inbox(told(a_version("a+b", 1, 9, b"x"), session), told(a_version("$a", 1, 10, b"x"), session))
    assert wire.publishes() == []


def test_a_packet_that_the_client_does_not_take_is_passed_over(bench: MqttBench) -> None:
    wire, session = bench.connected(a_connect(properties=Properties(packet_bytes_max=50)), complete=4)
    bench.subscribe(wire, session, "#")
    bench.inbox(told(a_version("a", 1, 9, bytes(100)), session), told(a_version("b", 1, 10, b"x"), session))
    (said,) = wire.publishes()
    bench.send(wire, puback(said))
    assert (said.topic, session.objects.acked) == ("b", 10)


def test_a_topic_is_said_once_to_a_client_that_takes_aliases(bench: MqttBench) -> None:
    takes = Properties(topic_alias_max=10)
    with_alias, one = bench.connected(a_connect("farm/barn/lamp-1", properties=takes), complete=4)
    plain, other = bench.connected(a_connect("farm/barn/lamp-2"), complete=4)
    late, third = bench.connected(a_connect("farm/barn/lamp-3", properties=takes), complete=4)
    for wire, session in ((with_alias, one), (plain, other), (late, third)):
        bench.subscribe(wire, session, "#")
    bench.inbox(told(a_version("a/door", 1, 9, b"x"), one, other))
    bench.inbox(told(a_version("a/door", 2, 10, b"y"), one, other, third))

    def said(wire: MqttWire) -> list[tuple[str, int | None]]:
        return [(packet.topic, packet.properties.topic_alias) for packet in wire.publishes()]

    assert said(with_alias) == [("a/door", 1), ("", 1)]
    assert said(plain) == [("a/door", None)] * 2
    assert said(late) == [("a/door", 1)]
    outputs = bench.gateway.on_item(0, told(a_version("a/door", 3, 11, b"z"), one, third), bench.now_s)
    (out,) = [found for found in outputs if isinstance(found, SendAll)]
    assert len(out.peers) == 2, "like devices get the same bytes"


def test_a_packet_that_fits_without_its_alias_is_told_without(bench: MqttBench) -> None:
    wire, session = bench.connected(
        a_connect(properties=Properties(topic_alias_max=10, packet_bytes_max=80)), complete=4
    )
    bench.subscribe(wire, session, "#")
    bench.inbox(told(a_version("door", 1, 9, bytes(69)), session))
    bench.inbox(told(a_version("door", 2, 10, b"x"), session))
    first, second = wire.publishes()
    assert (first.topic, first.properties.topic_alias) == ("door", None)
    assert second.topic == "door"
    assert second.properties.topic_alias is not None, "which one is up to the group's other devices"
    assert first.properties.user_properties == ()


# --- properties

SAID = b"\x01" + property_bytes(Properties(content_type="text/plain", user_properties=(("a", "1"),)), 3)[1:]
"""Properties of a PUBLISH with QoS 1, encoded."""
OF_QOS_0 = b"\x00"


def an_expiring(newest: Newest, in_ms: int) -> Newest:
    newest.expires_in_ms = in_ms
    return newest


def test_properties_are_told_in_front_of_what_the_service_adds(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    old, other = bench.connected(a_connect("farm/barn/lamp-2", MQTT_3_1_1), complete=4)
    bench.subscribe(old, other, "#")
    version = a_version("a", 3, 9, b"x")
    version.properties = SAID
    bench.inbox(told(version, session, other))
    (said,) = wire.publishes()
    assert said.properties == Properties(
        content_type="text/plain",
        user_properties=(("a", "1"), ("coldnotify-version", "3"), ("coldnotify-offset", "9")),
    )
    (plain,) = old.publishes()
    assert (plain.qos, plain.payload, plain.properties) == (1, b"x", Properties())


def test_a_delivery_has_the_lower_qos_of_publisher_and_subscriber(bench: MqttBench) -> None:
    wire, session = channelled(bench, "#")
    version, message = a_version("a", 3, 9, b"x"), a_message("a", 21)
    version.properties = message.properties = OF_QOS_0
    bench.inbox(told(version, session), message_told(message, session))
    assert [one.qos for one in wire.publishes()] == [0, 0]
    assert session.objects.acked == 9, "nothing is owed for it"


def test_an_expired_version_is_not_told(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.inbox(told(an_expiring(a_version("a", 3, 9), 0), session))
    bench.inbox(told(an_expiring(a_version("b", 3, 10, b"x"), 2_001), session))
    (said,) = wire.publishes()
    assert (said.topic, said.properties.message_expiry_s) == ("b", 3)


def test_a_version_that_expires_in_the_queue_is_passed_over(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False, properties=Properties(receive_max=1)))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("#")], 4, present=True))
    wire.packets()
    versions = [a_version("a", 1, 5, b"x"), an_expiring(a_version("b", 1, 6, b"x"), 1_000), a_version("c", 1, 7, b"x")]
    versions += [an_expiring(a_version("d", 1, 8, b"x"), 9_000), an_expiring(a_version("e", 1, 9), 0)]
    bench.inbox(a_page(number, ask, 1, versions, 9, last=True))
    (first,) = wire.publishes()
    bench.later(3)
    bench.send(wire, puback(first))
    (third,) = wire.publishes()
    bench.send(wire, puback(third))
    (fourth,) = wire.publishes()
    assert [one.topic for one in (first, third, fourth)] == ["a", "c", "d"]
    assert fourth.properties.message_expiry_s == 6
    bench.send(wire, puback(fourth))
    assert bench.session(number).objects.acked == 9


# --- acknowledgements


def test_a_gap_holds_the_cursor_back(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.inbox(*(told(a_version(f"a{offset}", 1, offset, b"x"), session) for offset in (7, 8, 9)))
    first, second, third = wire.publishes()
    bench.send(wire, puback(third), puback(second))
    assert session.objects.acked == 4
    bench.send(wire, PubAck(first.packet_id or 0, ReasonCode.UNSPECIFIED_ERROR))
    assert session.objects.acked == 9, "a refusal counts as one"
    bench.send(wire, puback(first))
    assert session.objects.acked == 9


def test_the_last_cursor_leaves_with_the_session(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    (said,) = wire.publishes()
    bench.send(wire, puback(said))
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    leave = bench.take_requests()[-1].leave
    assert leave.complete == 9


def test_a_client_that_owes_too_much_is_slow_and_caught_up_when_half_is_free(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#", receive_max=2)
    bench.inbox(*(told(a_version("a", version, 10 + version, b"x"), session) for version in range(1, 5)))
    one, two = wire.publishes()
    assert session.objects.stage is Stage.SLOW
    assert bench.take_requests() == []
    bench.send(wire, puback(one))
    (request,) = bench.take_requests("catch_up")
    assert request.catch_up.cursor <= 12
    assert request.catch_up.page_bytes == 4096
    bench.inbox(a_page(session.number, request.catch_up.ask, 1, [a_version("a", 4, 14, b"x")], 14, last=True))
    (newest,) = wire.publishes()
    bench.send(wire, puback(two), puback(newest))
    assert (newest.packet_id, session.objects.acked) != (None, 12)
    assert session.objects.acked == 14


# --- pages


def test_pages_are_acknowledged_with_what_is_in_them(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False, properties=Properties(receive_max=1)))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("#")], 4, present=True))
    bench.inbox(a_page(number, ask, 1, [a_version(f"a{one}", 1, one, b"x") for one in (5, 6, 7)], 7))
    assert wire.packets()[:1] == [ConnAck(True, properties=bench_connack())]
    session = bench.session(number)
    bench.send(wire, PubAck(1))
    for expected in (6, 7):
        (said,) = wire.publishes()
        assert said.topic == f"a{expected}"
        assert bench.take_requests() == []
        bench.send(wire, puback(said))
    (next_page,) = bench.take_requests("catch_up")
    assert (next_page.catch_up.page, next_page.catch_up.cursor, session.objects.acked) == (1, 7, 7)
    bench.inbox(a_page(number, ask, 2, [], 9, last=True))
    assert session.live
    assert session.objects.acked == 9


def bench_connack() -> Properties:
    return Properties(receive_max=64, packet_bytes_max=32 * 1024, shared_available=False, topic_alias_max=16)


def test_a_page_without_anything_for_the_device_is_acknowledged_at_once(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("b")], 4, present=True))
    bench.inbox(a_page(number, ask, 1, [a_version("a", 1, 5, b"x")], 5))
    wire.packets()
    bench.take_requests("catch_up")
    assert bench.session(number).objects.acked == 5


def test_qos_0_in_a_page_waits_for_the_socket(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("#", 0)], 4, present=True))
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(a_page(number, ask, 1, [a_version("a", 1, 5, b"x")], 5))
    assert bench.take_requests() == []
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    assert request.catch_up.page == 1


def test_a_full_socket_makes_a_session_slow_until_it_is_drained(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    assert wire.publishes() == []
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    bench.inbox(a_page(session.number, request.catch_up.ask, 1, [a_version("a", 1, 9, b"x")], 9, last=True))
    assert len(wire.publishes()) == 1
    assert session.live


# --- retained messages in answer to a SUBSCRIBE


def test_an_answer_has_the_retain_flag_and_the_identifiers_of_what_it_answers(bench: MqttBench) -> None:
    wire, session = lamp(bench, "b")
    bench.send(wire, Subscribe(7, (TopicSubscription("a/#", 1),), Properties(subscription_ids=(5,))))
    (request,) = bench.take_requests("register")
    bench.inbox(answered(session, request, more=True))
    assert wire.packet(SubAck)
    (asked,) = bench.take_requests("catch_up")
    answers = [
        a_version("a/1", 1, 2, b"x", answers=["a/#"]),
        a_version("a/2", 1, 3, deleted=True, answers=["a/#"]),
        a_version("a/3", 1, 3, b"x", answers=["gone"]),
        a_version("b", 2, 8, b"y"),
    ]
    bench.inbox(a_page(session.number, asked.catch_up.ask, 1, answers, 8, last=True))
    retained, lacking = wire.publishes()
    assert (retained.topic, retained.retain, retained.properties.subscription_ids) == ("a/1", True, (5,))
    assert (lacking.topic, lacking.retain) == ("b", False)
    bench.send(wire, puback(lacking))
    assert session.objects.acked == 4, "the answer is not acknowledged"
    bench.send(wire, puback(retained))
    assert session.objects.acked == 8


def test_an_answer_that_was_published_since_is_told_by_all_filters(bench: MqttBench) -> None:
    wire, session = lamp(bench, "a/#")
    bench.send(wire, Subscribe(7, (TopicSubscription("a/b", 0),), Properties(subscription_ids=(5,))))
    (request,) = bench.take_requests("register")
    bench.inbox(answered(session, request, more=True))
    (asked,) = bench.take_requests("catch_up")
    newest = a_version("a/b", 2, 8, b"y", answers=["a/b"])
    bench.inbox(a_page(session.number, asked.catch_up.ask, 1, [newest, a_version("a/b", 2, 8, b"y")], 8, last=True))
    (said,) = [one for one in wire.packets() if isinstance(one, Publish)]
    assert (said.qos, said.properties.subscription_ids) == (1, (5,)), "once, by both"
    assert session.objects.acked == 4
    bench.send(wire, puback(said))
    assert session.objects.acked == 8


@pytest.mark.parametrize(("again", "times"), [(False, 1), (True, 2)])
def test_an_owed_answer_is_told_again_only_behind_a_subscribe_of_this_connection(
    bench: MqttBench, again: bool, times: int
) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    number = request.session
    bench.inbox(opened_kept(number, request.open.ask, [a_filter("#")], 4, present=True))
    assert wire.packet(ConnAck)
    if again:
        bench.send(wire, Subscribe(7, (TopicSubscription("#", 1),)))
    page = [a_version("a", 1, 6, b"x"), a_version("a", 1, 6, b"x", answers=["#"])]
    bench.inbox(a_page(number, request.open.ask, 1, page, 6, last=True))
    assert len(wire.publishes()) == times


def test_a_filter_counts_from_its_subscribe_on(bench: MqttBench) -> None:
    """The matcher tells by it as soon as it is durable, and its answer may follow."""
    wire, session = lamp(bench)
    bench.send(wire, Subscribe(7, (TopicSubscription("a", 1),)))
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    assert len(wire.publishes()) == 1


def test_an_unsubscribed_filter_is_not_told_by(bench: MqttBench) -> None:
    wire, session = lamp(bench, "a", "b")
    assert session.device is not None
    session.device.hold(session.device.filters.without(["a"]))
    bench.inbox(told(a_version("a", 1, 9, b"x"), session), told(a_version("b", 1, 10, b"x"), session))
    assert [one.topic for one in wire.publishes()] == ["b"]


# --- channels


def channelled(
    bench: MqttBench, *filters: TopicSubscription | str, receive_max: int | None = None
) -> tuple[MqttWire, Identified]:
    """A session whose channels are live, too."""
    wire, session = lamp(bench, *filters, receive_max=receive_max)
    channels = session.follow_channels(2)
    channels.begin_epoch(3)
    channels.begin_at(20)
    channels.ask(bench.now_s)
    bench.inbox(Item(stream_page=Page(session=session.number, ask=channels.number, page=1, last=True, complete=20)))
    assert channels.live
    bench.take_requests()
    return wire, session


def test_messages_have_cursors_of_their_own(bench: MqttBench) -> None:
    wire, session = channelled(bench, "#")
    bench.inbox(message_told(a_message("tasks", 21), session), message_told(a_message("tasks", 22), session))
    first, second = wire.publishes()
    assert (first.topic, first.payload, first.retain) == ("tasks", b"m", False)
    bench.send(wire, puback(second), puback(first))
    assert session.channels is not None
    assert (session.channels.acked, session.objects.acked) == (22, 4)
    bench.inbox(message_told(a_message("tasks", 22), session))
    assert wire.publishes() == [], "it was told"


def test_a_message_that_a_client_cannot_take_now_is_not_passed_over(bench: MqttBench) -> None:
    wire, session = channelled(bench, "#", receive_max=1)
    bench.inbox(*(message_told(a_message("tasks", offset), session) for offset in (21, 22, 23)))
    (first,) = wire.publishes()
    assert session.channels is not None
    assert (session.channels.stage, session.channels.complete) == (Stage.SLOW, 21)
    bench.send(wire, puback(first))
    (_, request) = bench.take_requests("catch_up", "stream_catch_up")
    assert request.stream_catch_up.cursor == 21


def test_no_local_leaves_out_what_the_client_has_sent_itself(bench: MqttBench) -> None:
    wire, session = channelled(bench, TopicSubscription("a", 1, no_local=True), TopicSubscription("+", 0))
    bench.inbox(message_told(a_message("a", 21, source="lamp-1"), session))
    (said,) = wire.publishes()
    assert said.qos == 0, "by the other filter"
    bench.inbox(message_told(a_message("a", 22, source="lamp-2"), session))
    assert [one.qos for one in wire.publishes()] == [1]


def test_missing_messages_are_said_with_the_next_one(bench: MqttBench) -> None:
    wire, session = channelled(bench, "a")
    assert session.device is not None
    missed = Missed(channel=session.device.filters.by_text["a"].hash, after=20, before=30, reason=LOST)
    entries = [Entry(missed=missed), a_message("a", 30), a_message("a", 31)]
    assert session.channels is not None
    session.channels.ask(bench.now_s)
    page = Page(session=session.number, ask=session.channels.number, page=1, entries=entries, last=True, complete=31)
    bench.inbox(Item(stream_page=page))
    first, second = wire.publishes()
    assert first.properties.user_properties == (("coldnotify-offset", "30"), ("coldnotify-missed", "20-30 lost"))
    assert second.properties.user_properties == (("coldnotify-offset", "31"),)


def test_an_older_protocol_is_told_without_properties(bench: MqttBench) -> None:
    wire, session = bench.connected(a_connect(protocol=MQTT_3_1_1))
    bench.subscribe(wire, session, "a")
    bench.inbox(told(a_version("a", 1, 9, b"x"), session))
    assert wire.packet(Publish).payload == b"x"


def test_streams_that_are_live_with_a_page_of_objects(bench: MqttBench) -> None:
    wire, session = channelled(bench, "#")
    assert session.channels is not None
    session.channels.ask(bench.now_s)
    bench.do(bench.gateway._recovery.catch_up(session, session.objects, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    item = a_page(session.number, request.catch_up.ask, 1, [], 9, last=True)
    item.page.streams.append(CompleteStream(complete=25, ask=session.channels.number))
    bench.inbox(item)
    assert session.channels.live
    assert session.channels.complete == 25
    assert session.objects.acked > NONE
    assert wire.packets() == []


def test_a_matcher_that_takes_over_tells_nothing_of_an_answer_a_second_time(bench: MqttBench) -> None:
    wire, session = lamp(bench, "#")

    def answers(*offsets: int) -> int:
        newest = [a_version(f"a{offset}", 1, offset, b"x", answers=["#"]) for offset in offsets]
        bench.inbox(Item(answered=Answered(session=session.number, newest=newest)))
        return len(wire.publishes())

    assert answers(3, 6) == 2
    assert answers(3, 6, 8) == 1
    bench.subscribe(wire, session, "#")
    assert answers(3, 6, 8) == 3
