"""Packets of MQTT devices, and what comes of each."""

import pytest
from coldnotify_common.security.publish_rights import NO_NAME
from coldnotify_gateway.core import Limits, PauseReading
from coldnotify_gateway.core.from_mqtt import CONNACK_S, PING_S, REPEAT_S, UNREAD_BYTES_MAX
from coldnotify_gateway.core.mqtt.device import SUBSCRIBES_UNANSWERED_MAX
from coldnotify_gateway.core.mqtt.device_publishes import AGAIN_S
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.interests import filter_hash, share_hash, share_text
from coldnotify_schemas.internal_pb2 import Closed, Described, Item, Opened
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    Auth,
    ConnAck,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
)
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_bench import beat_answer
from coldnotify_testkit.mqtt_bench import (
    EPOCH,
    MQTT_3_1_1,
    MQTT_5,
    MqttBench,
    MqttWire,
    a_connect,
    a_filter,
    a_page,
    a_version,
    answered,
    last_page,
    opened_kept,
)

BOTH = pytest.mark.parametrize("protocol", ProtocolVersion)
OLD = pytest.mark.parametrize("protocol", [MQTT_3_1_1])


@pytest.fixture
def bench() -> MqttBench:
    return MqttBench()


def refused(wire: MqttWire, reason: ReasonCode | ReturnCode) -> None:
    said = wire.packet(ConnAck)
    assert said.reason is reason
    assert wire.finished


def left(wire: MqttWire, reason: ReasonCode) -> Disconnect:
    said = wire.packet(Disconnect)
    assert said.reason is reason
    assert wire.finished
    return said


# --- connecting


@BOTH
def test_a_connect_is_an_open_of_a_kept_session_and_connack_its_opened(
    bench: MqttBench, protocol: ProtocolVersion
) -> None:
    wire, request = bench.connecting(a_connect(protocol=protocol, clean=False))
    assert (request.domain, request.group, request.client) == ("farm", "barn", "lamp-1")
    kept = request.open.kept
    assert (kept.clean, kept.protocol) == (False, "mqtt 5.0" if protocol is MQTT_5 else "mqtt 3.1.1")
    assert not request.open.HasField("cursor")
    assert wire.packets() == [], "not before the set is known"
    bench.inbox(opened_kept(1, request.open.ask, [a_filter("a/#", 1, 9)], 40, present=True))
    said = wire.packet(ConnAck)
    assert said.session_present
    device = bench.session(1).device
    assert device is not None
    assert device.filters.by_text["a/#"].identifier == 9
    assert bench.session(1).objects.acked == 40


def test_connack_of_5_0_says_what_is_served(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(keep_alive_s=0))
    bench.inbox(opened_kept(1, request.open.ask))
    said = wire.packet(ConnAck)
    assert not said.session_present
    properties = said.properties
    assert (properties.receive_max, properties.qos_max, properties.shared_available) == (64, None, False), (
        "as no kinds are said"
    )
    assert properties.server_keep_alive_s == Limits().mqtt_keepalive_max_s
    assert properties.packet_bytes_max == Limits().frame_bytes_max


def test_a_client_that_is_taken_over_again_and_again_waits_for_connack(bench: MqttBench) -> None:
    for number in range(1, 4):
        wire, request = bench.connecting(a_connect(clean=False))
        bench.inbox(opened_kept(number, request.open.ask))
        bench.inbox(Item(closed=Closed(session=number, code=CloseCode.DISPLACED, reason="again")))
        assert wire.finished
    wire = bench.device()
    bench.send(wire, a_connect(clean=False))
    assert bench.take_requests() == [], "nobody is taken over meanwhile"
    bench.later(2)
    (request,) = [one for one in bench.take_requests() if one.HasField("open")]
    bench.inbox(opened_kept(request.session, request.open.ask))
    assert not wire.packet(ConnAck).reason
    other, _ = bench.connecting(a_connect("farm/barn/lamp-2"))
    assert not other.finished


def test_a_client_of_3_1_1_that_is_always_wrong_is_refused_for_a_while() -> None:
    bench = MqttBench(admit=lambda _peer, _hello: NO_NAME)
    wire, _ = bench.connected(a_connect(protocol=MQTT_3_1_1))
    bench.send(wire, a_publish(3))
    assert (wire.packets(), wire.finished) == ([], True)
    again = bench.device(MQTT_3_1_1)
    bench.send(again, a_connect(protocol=MQTT_3_1_1))
    refused(again, ReturnCode.SERVER_UNAVAILABLE)
    bench.later(2)
    bench.take_requests()
    bench.connecting(a_connect(protocol=MQTT_3_1_1))


@pytest.mark.parametrize(("said", "answered_s"), [(0, 40), (41, 40), (39, None)])
def test_a_keepalive_has_a_bound_that_connack_says(said: int, answered_s: int | None) -> None:
    bench = MqttBench(Limits(mqtt_keepalive_max_s=40))
    wire, request = bench.connecting(a_connect(keep_alive_s=said))
    bench.inbox(opened_kept(1, request.open.ask))
    assert wire.packet(ConnAck).properties.server_keep_alive_s == answered_s


def test_clean_start_forgets_and_nothing_is_present(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=True))
    assert request.open.kept.clean
    bench.inbox(opened_kept(1, request.open.ask, [a_filter("a")], present=True))
    assert not wire.packet(ConnAck).session_present


@BOTH
def test_a_matcher_that_does_not_answer_in_time(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, _ = bench.connecting(a_connect(protocol=protocol))
    bench.later(CONNACK_S - 1)
    assert wire.packets() == []
    bench.later(2)
    refused(wire, ReasonCode.SERVER_UNAVAILABLE if protocol is MQTT_5 else ReturnCode.SERVER_UNAVAILABLE)


def test_an_empty_identifier_is_assigned_one_that_must_have_a_place(bench: MqttBench) -> None:
    wire = bench.device()
    bench.send(wire, a_connect(""))
    refused(wire, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
    old = bench.device(MQTT_3_1_1)
    bench.send(old, a_connect("", MQTT_3_1_1, clean=False))
    refused(old, ReturnCode.IDENTIFIER_REJECTED)


def test_other_protocols_are_refused_in_theirs(bench: MqttBench) -> None:
    newer, older, none = bench.device(), bench.device(MQTT_3_1_1), bench.device()
    bench.say(newer, b"\x10\x0d\x00\x04MQTT\x06\x02\x00\x00\x00\x00\x00")
    refused(newer, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
    bench.say(older, b"\x10\x0e\x00\x06MQIsdp\x03\x02\x00\x00\x00\x00")
    refused(older, ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)
    bench.say(none, b"GET / HTTP/1.1\r\n\r\n")
    assert (none.data, none.finished) == (b"", True)


def test_packets_behind_a_connect_wait_for_its_connack(bench: MqttBench) -> None:
    wire, request = bench.connecting()
    bench.send(wire, Publish("a", b"1", 1, packet_id=3), PingReq())
    assert bench.publications == []
    bench.inbox(opened_kept(1, request.open.ask), last_page(1, request.open.ask))
    assert len(bench.publications) == 1
    assert [type(one) for one in wire.packets()] == [ConnAck, PingResp]


def test_too_much_before_the_connack_ends_the_connection(bench: MqttBench) -> None:
    wire, _ = bench.connecting()
    for number in range(UNREAD_BYTES_MAX // 4000 + 2):
        bench.send(wire, Publish("a", bytes(4000), 1, packet_id=number + 1))
    refused(wire, ReasonCode.QUOTA_EXCEEDED)


def test_an_opened_that_keeps_nothing_does_not_end_the_set(bench: MqttBench) -> None:
    """An empty set in answer would take from the client what the service has kept."""
    wire, request = bench.connecting(a_connect(clean=False))
    bench.inbox(Item(opened=Opened(session=1, ask=request.open.ask, in_sync=False)))
    refused(wire, ReasonCode.SERVER_BUSY)
    assert [one.WhichOneof("body") for one in bench.take_requests()] == ["leave"]


@BOTH
def test_a_client_that_connects_twice_is_taken_over(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, session = bench.connected(a_connect(protocol=protocol))
    bench.inbox(Item(closed=Closed(session=session.number, code=CloseCode.DISPLACED, reason="elsewhere")))
    if protocol is MQTT_5:
        assert left(wire, ReasonCode.SESSION_TAKEN_OVER).properties.reason_string == "elsewhere"
    else:
        assert (wire.packets(), wire.finished) == ([], True)


def test_a_name_of_the_device_protocol_is_refused(bench: MqttBench) -> None:
    wire, _ = bench.connecting()
    bench.inbox(Item(closed=Closed(session=1, code=CloseCode.NOT_ALLOWED, reason="forget it first")))
    refused(wire, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)


@pytest.mark.parametrize(("keep_alive_s", "ends_after_s"), [(10, 15), (0, 5400)])
def test_silence_ends_a_session(bench: MqttBench, keep_alive_s: int, ends_after_s: int) -> None:
    wire, _ = bench.connected(a_connect(keep_alive_s=keep_alive_s))
    bench.later(ends_after_s - 1)
    assert not wire.finished
    bench.later(2)
    left(wire, ReasonCode.KEEP_ALIVE_TIMEOUT)


@pytest.mark.parametrize(("said_s", "expected_s"), [(None, 60), (5, 5), (0, 0)])
def test_disconnect_may_change_the_expiry(bench: MqttBench, said_s: int | None, expected_s: int) -> None:
    wire, _ = bench.connected(a_connect(properties=Properties(session_expiry_s=60)), complete=7)
    bench.send(wire, Disconnect(properties=Properties(session_expiry_s=said_s)))
    (leave,) = bench.take_requests("leave")
    assert (leave.leave.expiry_s, leave.leave.complete, leave.leave.epoch) == (expected_s, 7, EPOCH)
    assert (wire.packets(), wire.finished) == ([], True)


def test_an_expiry_of_0_stays_so(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, Disconnect(properties=Properties(session_expiry_s=5)))
    left(wire, ReasonCode.PROTOCOL_ERROR)


@pytest.mark.parametrize("packet", [PubRec(4), PubComp(4), Auth(ReasonCode.RE_AUTHENTICATE)])
def test_packets_that_answer_nothing_end_the_connection(bench: MqttBench, packet: Packet) -> None:
    wire, _ = bench.connected()
    bench.send(wire, packet)
    left(wire, ReasonCode.PROTOCOL_ERROR)


def test_a_pubrel_of_another_time_is_answered(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, PubRel(4))
    assert wire.packet(PubComp).reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND


@pytest.mark.parametrize("said", [Properties(request_problem_information=False), Properties(packet_bytes_max=40)])
def test_words_fall_away_where_a_client_takes_none(bench: MqttBench, said: Properties) -> None:
    wire, _ = bench.connected(a_connect(properties=said))
    topic = "$SYS/" + "a" * 40
    bench.send(wire, a_publish(3, topic=topic), Publish(topic, qos=2, packet_id=4))
    wrong = ReasonCode.TOPIC_NAME_INVALID
    assert wire.packets() == [PubAck(3, wrong), PubRec(4, wrong)]
    bench.say(wire, b"\xff")
    small = said.packet_bytes_max is not None
    assert (left(wire, ReasonCode.MALFORMED_PACKET).properties.reason_string is None) is small


@pytest.mark.parametrize(("bytes_max", "answers"), [(15, 1), (4, 0)])
def test_a_client_that_takes_no_connack_is_refused(bench: MqttBench, bytes_max: int, answers: int) -> None:
    wire = bench.device()
    bench.send(wire, a_connect(properties=Properties(packet_bytes_max=bytes_max)))
    assert [one.reason for one in wire.packets() if isinstance(one, ConnAck)] == [ReasonCode.PACKET_TOO_LARGE] * answers
    assert wire.finished


def test_a_subscribe_whose_answer_a_client_does_not_take_ends_the_connection(bench: MqttBench) -> None:
    wire, _ = bench.connected(a_connect(properties=Properties(packet_bytes_max=50)))
    bench.send(wire, Subscribe(9, tuple(TopicSubscription(f"a/{number}") for number in range(50))))
    assert bench.take_requests()[0].HasField("leave"), "nothing is registered"
    left(wire, ReasonCode.PACKET_TOO_LARGE)


# --- pings


def test_the_first_ping_is_answered_behind_what_lacks(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    bench.inbox(opened_kept(1, request.open.ask, [a_filter("#")], 4, present=True))
    bench.send(wire, PingReq())
    assert [type(one) for one in wire.packets()] == [ConnAck]
    bench.inbox(a_page(1, request.open.ask, 1, [a_version("a", 1, 6, b"x")], 6, last=True))
    assert [type(one) for one in wire.packets()] == [Publish, PingResp]
    bench.send(wire, PingReq())
    assert wire.packet(PingResp)


def test_and_behind_what_a_subscribe_before_it_brings(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, Subscribe(9, (TopicSubscription("#", 1),)), PingReq())
    (request,) = bench.take_requests("register")
    assert wire.packets() == []
    bench.inbox(answered(session, request, more=True))
    assert [type(one) for one in wire.packets()] == [SubAck]
    (asked,) = bench.take_requests("catch_up")
    bench.inbox(a_page(session.number, asked.catch_up.ask, 1, [a_version("a", 1, 6, b"x")], 6, last=True))
    assert [type(one) for one in wire.packets()] == [Publish, PingResp]


def test_and_after_a_while_whatever_lacks(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    bench.inbox(opened_kept(1, request.open.ask, [a_filter("#")], 4, present=True))
    bench.send(wire, PingReq())
    wire.packets()
    bench.later(PING_S - 1)
    assert wire.packets() == []
    bench.later(2)
    assert wire.packet(PingResp)


def test_no_other_ping_is_answered_before_the_first(bench: MqttBench) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    bench.inbox(opened_kept(1, request.open.ask, [a_filter("#")], 4, present=True))
    bench.send(wire, PingReq())
    bench.later(1.0)
    bench.send(wire, PingReq())
    assert [type(one) for one in wire.packets()] == [ConnAck]
    bench.inbox(a_page(1, request.open.ask, 1, [a_version("a", 1, 6, b"x")], 6, last=True))
    assert [type(one) for one in wire.packets()] == [Publish, PingResp, PingResp]


def test_a_ping_acknowledges_the_position_of_a_client_that_owes_nothing(bench: MqttBench) -> None:
    wire, session = bench.connected(complete=5)
    bench.later(1)
    bench.inbox(beat_answer(30))
    bench.send(wire, PingReq())
    assert session.objects.acked == 30


@pytest.mark.parametrize("answers_the_last_question", [True, False])
def test_a_matcher_that_has_lost_what_another_one_had_kept_hears_of_the_session_before_it_tells_anything(
    bench: MqttBench, answers_the_last_question: bool
) -> None:
    wire, request = bench.connecting(a_connect(clean=False))
    number, ask = request.session, request.open.ask
    bench.inbox(opened_kept(number, ask, [a_filter("a/#")], 4, present=True))
    assert wire.packet(ConnAck).session_present
    bench.take_requests()
    bench.new_matcher()
    bench.inbox(opened_kept(number, ask if answers_the_last_question else ask + 7, (), 9))
    again = [one.open for one in bench.take_requests("open")][-1]
    assert (again.again, again.cursor, again.ask > ask) == (True, 4, True)
    bench.inbox(last_page(number, ask, 9))
    assert bench.session(number).objects.complete == 4
    bench.inbox(opened_kept(number, again.ask, (), 9))
    assert not [one for one in bench.take_requests() if one.WhichOneof("body") == "open"]


def test_a_ping_has_the_set_checked_that_another_matcher_has_loaded(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.subscribe(wire, session, "a")
    bench.send(wire, PingReq())
    assert bench.take_requests() == []
    bench.new_matcher()
    bench.later(6)
    bench.take_requests()
    bench.send(wire, PingReq())
    (check,) = bench.take_requests("check_digest")
    assert check.check_digest.digest == filter_hash("a")
    bench.inbox(Item(opened=Opened(session=1, ask=check.check_digest.ask, in_sync=False)))
    (sync,) = bench.take_requests("sync")
    assert ([one.text for one in sync.sync.interests], sync.sync.last) == (["a"], True)


# --- subscribing


def test_a_subscribe_is_a_register_and_suback_its_answer(bench: MqttBench) -> None:
    wire, session = bench.connected()
    asked = (TopicSubscription("a/+", 2), TopicSubscription("b", 0, True, True, 2), TopicSubscription("a/b#"))
    bench.send(wire, Subscribe(77, (*asked, TopicSubscription("$share/x/a")), Properties(subscription_ids=(5,))))
    (request,) = bench.take_requests("register")
    assert [(one.text, one.options, one.identifier) for one in request.register.interests] == [
        ("a/+", 2, 5),
        ("b", 0x2C, 5),
    ]
    assert wire.packets() == []
    bench.inbox(answered(session, request))
    said = wire.packet(SubAck)
    assert (said.packet_id, list(said.reasons)) == (77, [1, 0, 0x8F, 0x83])
    assert not session.device or set(session.device.filters.by_text) == {"a/+", "b"}


def test_a_filter_above_a_limit_is_refused_by_itself(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, Subscribe(7, (TopicSubscription("a", 1), TopicSubscription("b", 1))))
    (request,) = bench.take_requests("register")
    bench.inbox(answered(session, request, refused=["b"]))
    assert list(wire.packet(SubAck).reasons) == [1, 0x97]
    assert session.device is not None
    assert set(session.device.filters.by_text) == {"a"}


def test_many_filters_go_in_several_requests_and_one_answer(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, Subscribe(7, tuple(TopicSubscription(f"a/{number}") for number in range(100))))
    first, second = bench.take_requests("register", "register")
    assert (len(first.register.interests), len(second.register.interests)) == (64, 36)
    bench.inbox(answered(session, second))
    assert wire.packets() == []
    bench.inbox(answered(session, first))
    assert len(wire.packet(SubAck).reasons) == 100


def test_no_more_subscribes_are_read_than_may_be_unanswered(bench: MqttBench) -> None:
    wire, session = bench.connected()
    asked = SUBSCRIBES_UNANSWERED_MAX + 3
    bench.send(wire, *(Subscribe(number + 1, (TopicSubscription(f"a/{number}"),)) for number in range(asked)))
    requests = bench.take_requests()
    assert len(requests) == SUBSCRIBES_UNANSWERED_MAX
    bench.inbox(answered(session, requests[0]))
    assert wire.packet(SubAck).packet_id == 1
    requests += bench.take_requests("register")
    for request in requests[1:]:
        bench.inbox(answered(session, request))
    for request in bench.take_requests("register", "register"):
        bench.inbox(answered(session, request))
    said = [one.packet_id for one in wire.packets() if isinstance(one, SubAck)]
    assert said == list(range(2, asked + 1))


def test_a_request_without_an_answer_is_repeated(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, Subscribe(7, (TopicSubscription("a", 1),)))
    (request,) = bench.take_requests("register")
    bench.later(REPEAT_S + 1)
    (again,) = [one for one in bench.take_requests() if one.HasField("register")]
    assert again.register == request.register
    bench.inbox(answered(session, again), answered(session, again))
    assert wire.packet(SubAck), "one"
    bench.later(2 * REPEAT_S)
    assert not [one for one in bench.take_requests() if one.HasField("register")]


@BOTH
def test_unsuback_says_what_was_not_there(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, session = bench.connected(a_connect(protocol=protocol))
    bench.subscribe(wire, session, "a")
    bench.send(wire, Unsubscribe(8, ("a", "b", "$share/x/a")))
    (request,) = bench.take_requests("unregister")
    assert list(request.unregister.interests) == [
        filter_hash("a"),
        filter_hash("b"),
        share_hash(share_text("x", "a")),
    ]
    bench.inbox(answered(session, request, there=["b"]))
    said = wire.packet(UnsubAck)
    assert list(said.reasons) == ([0, 0x11, 0] if protocol is MQTT_5 else [])
    assert session.device is not None
    assert len(session.device.filters) == 0


def test_a_set_that_the_matcher_lacks_is_sent_in_chunks(bench: MqttBench) -> None:
    filters = [a_filter(f"a/{number}") for number in range(70)]
    wire, session = bench.connected(a_connect(clean=False), filters, 9, present=True)
    bench.new_matcher()
    bench.do(bench.gateway.on_inbox_lost(bench.now_s))
    again = bench.take_requests()[-1]
    assert (again.open.again, again.open.cursor, again.open.kept.clean) == (True, 9, False)
    bench.inbox(Item(opened=Opened(session=session.number, ask=again.open.ask, in_sync=False)))
    chunks = [one.sync for one in bench.take_requests("sync", "sync")]
    assert [len(one.interests) for one in chunks] == [64, 6]
    assert [(one.index, one.last) for one in chunks] == [(0, False), (1, True)]
    bench.inbox(opened_kept(session.number, again.open.ask, filters, 9, present=True))
    assert wire.packets() == [], "one CONNACK a connection"


# --- publishing


def a_publish(packet_id: int = 3, *, retain: bool = False, payload: bytes = b"x", topic: str = "a/b") -> Publish:
    return Publish(topic, payload, 1 if packet_id else 0, retain, packet_id=packet_id or None)


def answer(bench: MqttBench, offset: int | None, reason: str = "") -> None:
    """Kafka's, to the first publication that it has not answered."""
    bench.do(bench.gateway.on_published(bench.unanswered.pop(0), offset, reason, bench.now_s))


def test_retain_is_an_object_and_its_absence_a_channel(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, a_publish(3, retain=True), a_publish(4))
    answer(bench, 10)
    bench.send(wire, a_publish(5, retain=True, payload=b""))
    answer(bench, 11)
    topics = TopicNames()
    assert [one.topic for one in bench.publications] == [topics.objects, topics.channels_1d, topics.objects]
    assert [one.key for one in bench.publications] == [b"farm/barn/a/b"] * 3
    assert b'"deleted":true' in bench.publications[2].value.replace(b" ", b"")
    assert bench.publications[0].headers[-2:] == (("coldnotify-arrival", b""), ("mqtt-qos", b"1"))
    assert [one.packet_id for one in wire.packets() if isinstance(one, PubAck)] == [3, 4]


def a_description(packet_id: int, patch: str, *, retain: bool = True) -> Publish:
    properties = Properties(user_properties=(("describe", patch), ("unit", "K")))
    return Publish("a/b", b"21", 1, retain, packet_id=packet_id, properties=properties)


def test_a_retained_publish_describes_its_object_before_its_value_is_written(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, a_description(3, '{"Kind":"lamp"}'), a_description(4, "not for objects", retain=False))
    (asked,) = bench.take_requests("describe")
    assert (asked.describe.object, asked.describe.patch) == ("a/b", b'{"Kind":"lamp"}')
    assert not bench.publications
    bench.inbox(Item(described=Described(session=session.number, ask=asked.describe.ask)))
    assert [name for name, _ in bench.publications[0].headers][-2:] == ["mqtt-qos", "mqtt-user-unit"]
    answer(bench, 10)
    assert bench.publications[1].topic == TopicNames().channels_1d
    answer(bench, 11)
    assert [one.packet_id for one in wire.packets() if isinstance(one, PubAck)] == [3, 4]


def test_a_wrong_patch_refuses_its_publish_alone(bench: MqttBench) -> None:
    wire, session = bench.connected()
    bench.send(wire, a_description(3, "[]"), a_description(4, '{"a":1}'), a_publish(5))
    (asked,) = bench.take_requests("describe")
    refused = Described(session=session.number, ask=asked.describe.ask, reason="description: has 65 keys")
    bench.inbox(Item(described=refused))
    answer(bench, 10)
    said = [(one.packet_id, one.reason) for one in wire.packets() if isinstance(one, PubAck)]
    expected = [ReasonCode.PAYLOAD_FORMAT_INVALID, ReasonCode.NOT_AUTHORIZED, ReasonCode.SUCCESS]
    assert said == list(zip((3, 4, 5), expected, strict=True))


def test_puback_comes_after_kafka_in_order(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, a_publish(3), a_publish(0), a_publish(4))
    assert wire.packets() == []
    answer(bench, 10)
    assert wire.packet(PubAck).packet_id == 3
    answer(bench, 11)
    assert wire.packets() == [], "QoS 0"
    answer(bench, 12)
    assert wire.packet(PubAck).packet_id == 4


def test_no_more_is_read_than_may_be_under_way(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, *(a_publish(number + 1) for number in range(PUBLISHES_UNANSWERED_MAX + 5)))
    while bench.unanswered:
        answer(bench, 1)
    said = [one.packet_id for one in wire.packets() if isinstance(one, PubAck)]
    assert said == list(range(1, PUBLISHES_UNANSWERED_MAX + 6))
    data = b"".join(b"\x30\x04\x00\x01a%d" % (number % 10) for number in range(2 * PUBLISHES_UNANSWERED_MAX))
    outputs = bench.gateway.on_client_bytes(wire, data.replace(b"\x30\x04\x00\x01a", b"\x30\x05\x00\x01a\x00"), 1.0)
    assert any(isinstance(one, PauseReading) for one in outputs)


def test_a_publish_that_kafka_refuses_is_tried_again_and_not_answered(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.send(wire, a_publish(3, payload=b"1"), a_publish(4, payload=b"2"))
    answer(bench, None, "Kafka is away")
    bench.send(wire, a_publish(5, payload=b"3"))
    assert wire.packets() == []
    bench.later(2)
    while bench.unanswered:
        answer(bench, 1)
    assert [one.packet_id for one in wire.packets() if isinstance(one, PubAck)] == [3, 4, 5]
    values = [one.value for one in bench.publications]
    assert values[-1] == b"3"
    assert values.index(b"1") < values.index(b"2") < values.index(b"3")


@BOTH
def test_a_publish_that_is_refused_for_too_long(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, _ = bench.connected(a_connect(protocol=protocol))
    bench.send(wire, a_publish(3))
    for _ in range(int(AGAIN_S) + 5):
        while bench.unanswered:
            answer(bench, None, "Kafka is away")
        bench.later(1.5)
    if protocol is MQTT_5:
        assert wire.packet(PubAck).reason is ReasonCode.QUOTA_EXCEEDED
    else:
        assert (wire.packets(), wire.finished) == ([], True)


@BOTH
@pytest.mark.parametrize(
    ("packet", "acknowledged", "reason"),
    [
        (a_publish(3, topic="$SYS/a"), True, ReasonCode.TOPIC_NAME_INVALID),
        (a_publish(0, topic="$SYS/a"), False, ReasonCode.TOPIC_NAME_INVALID),
        (a_publish(3, retain=True, payload=bytes(5000)), False, ReasonCode.PACKET_TOO_LARGE),
    ],
)
def test_wrong_for_ever(
    bench: MqttBench, protocol: ProtocolVersion, packet: Publish, acknowledged: bool, reason: ReasonCode
) -> None:
    wire, _ = bench.connected(a_connect(protocol=protocol))
    bench.send(wire, packet)
    assert bench.publications == []
    if protocol is MQTT_5 and acknowledged:
        assert wire.packet(PubAck).reason is reason
    elif protocol is MQTT_5:
        left(wire, reason)
    elif reason is ReasonCode.PACKET_TOO_LARGE:
        assert wire.packet(PubAck).packet_id == 3, "it would send it for ever"
    else:
        assert (wire.packets(), wire.finished) == ([], True)


def test_properties_are_headers_of_either_log(bench: MqttBench) -> None:
    bench.gateway.on_wall_clock(1_000_000, bench.now_s)
    wire, _ = bench.connected()
    said = Properties(payload_format=1, message_expiry_s=60, user_properties=(("b", "2"), ("a", "1")))
    for retain in (True, False):
        bench.send(wire, Publish("a", b"x", 0, retain, properties=said))
        answer(bench, 10)
    of_object, of_channel = bench.publications
    kept = (("mqtt-qos", b"0"), ("mqtt-payload-format", b"1"), ("mqtt-user-b", b"2"), ("mqtt-user-a", b"1"))
    assert of_object.headers[1:] == (("coldnotify-arrival", b""), *kept)
    assert b'"expires_at":1000060000' in of_object.value
    assert of_channel.headers == (("expires_at", b"1000060000"), ("source", b"lamp-1"), *kept)


@pytest.mark.parametrize("qos", [0, 1])
def test_too_many_properties_end_the_connection(bench: MqttBench, qos: int) -> None:
    wire, _ = bench.connected()
    said = Properties(user_properties=(("a", "x" * 1000),) * 3)
    bench.send(wire, Publish("a", b"x", qos, packet_id=qos or None, properties=said))
    assert "properties: have 30" in str(left(wire, ReasonCode.PACKET_TOO_LARGE).properties.reason_string)


def test_an_alias_stands_for_its_topic(bench: MqttBench) -> None:
    wire, request = bench.connecting()
    bench.inbox(opened_kept(1, request.open.ask))
    assert wire.packet(ConnAck).properties.topic_alias_max == 16
    bench.send(wire, *(Publish(topic, b"x", properties=Properties(topic_alias=3)) for topic in ("a/b", "")))
    answer(bench, 10)
    assert [record.key for record in bench.publications] == [b"farm/barn/a/b"] * 2


def test_without_the_right_to_publish() -> None:
    bench = MqttBench(admit=lambda _peer, _hello: NO_NAME)
    wire, _ = bench.connected()
    bench.send(wire, a_publish(3))
    said = wire.packet(PubAck)
    assert said.reason is ReasonCode.NOT_AUTHORIZED
    assert said.properties.reason_string is not None
    assert "right to publish" in said.properties.reason_string
    assert bench.publications == []


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (Publish("a", properties=Properties(topic_alias=17)), ReasonCode.TOPIC_ALIAS_INVALID),
        (Publish("", properties=Properties(topic_alias=1)), ReasonCode.TOPIC_ALIAS_INVALID),
    ],
)
def test_a_publish_that_is_not_served_ends_the_connection(
    bench: MqttBench, packet: Publish, reason: ReasonCode
) -> None:
    wire, _ = bench.connected()
    bench.send(wire, packet)
    left(wire, reason)
