"""Publishes of MQTT devices with QoS 2, step by step, and what is given up. Other publishes are in test_from_mqtt."""

import pytest
from coldnotify_common.security.publish_rights import EVERY_NAME, NO_NAME, Owned, PublishRight
from coldnotify_gateway.core import Identified, Limits, PublishRecord
from coldnotify_gateway.core.device_publishing import REPEAT_S
from coldnotify_gateway.core.mqtt.device_publishes import AGAIN_S
from coldnotify_gateway.core.mqtt.received import UNRELEASED_MAX, WAITING_MAX
from coldnotify_schemas.internal_pb2 import Item, Noted, Receive, Unreleased
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.mqtt_bench import (
    MQTT_3_1_1,
    MQTT_5,
    MqttBench,
    MqttWire,
    a_connect,
    last_page,
    opened_kept,
)

TOPICS = TopicNames()
BOTH = pytest.mark.parametrize("protocol", [MQTT_5, MQTT_3_1_1])


def lasting(protocol: ProtocolVersion = MQTT_5) -> Connect:
    """A CONNECT of a session that outlives its connection."""
    properties = Properties(session_expiry_s=3600) if protocol is MQTT_5 else Properties()
    return a_connect(protocol=protocol, clean=False, properties=properties)


def a_publish(
    packet_id: int = 1,
    *,
    retain: bool = False,
    payload: bytes = b"x",
    qos: int = 2,
    dup: bool = False,
    topic: str = "t",
) -> Publish:
    return Publish("t", payload, qos, retain, dup, packet_id=packet_id)


def asked(bench: MqttBench) -> Receive:
    """The only request since the last call."""
    (found,) = bench.take_requests("receive")
    return found.receive


def note(bench: MqttBench, session: Identified, said: Receive, version: int = 0, *, written: bool = False) -> None:
    """The matcher's answer: it gives this version."""
    held = []
    for one in said.received:
        copy = Unreleased()
        copy.CopyFrom(one)
        if one.object:
            copy.version = version
        copy.written = written
        held.append(copy)
    bench.inbox(Item(noted=Noted(session=session.number, ask=said.ask, received=held)))


def answer(bench: MqttBench, offset: int | None = 10, reason: str = "") -> None:
    """Kafka's, to the first publication that it has not answered."""
    bench.do(bench.gateway.on_published(bench.unanswered.pop(0), offset, reason, bench.now_s))


def ids(records: list[PublishRecord]) -> list[bytes]:
    return [dict(one.headers)["id"] for one in records]


def reconnected(
    bench: MqttBench, unreleased: list[Unreleased], protocol: ProtocolVersion = MQTT_5
) -> tuple[MqttWire, Identified]:
    """A connection at a gateway that knows by the matcher alone what is not released."""
    wire, request = bench.connecting(lasting(protocol))
    item = opened_kept(request.session, request.open.ask, present=True)
    item.opened.kept.unreleased.extend(unreleased)
    bench.inbox(item)
    bench.inbox(last_page(request.session, request.open.ask, 0))
    wire.packets()
    bench.take_requests()
    return wire, bench.session(request.session)


def left(wire: MqttWire, reason: ReasonCode) -> None:
    said = wire.packets()[-1]
    assert isinstance(said, Disconnect)
    assert said.reason is reason
    assert wire.finished


@BOTH
def test_six_steps_in_their_order(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, session = bench.connected(lasting(protocol))
    bench.send(wire, a_publish(7))
    hold = asked(bench)
    assert [(one.identifier, one.object) for one in hold.received] == [(7, "")]
    assert (bench.publications, wire.packets()) == ([], []), "nothing in Kafka before it is held"
    note(bench, session, hold)
    assert ids(bench.publications) == [hold.received[0].id.encode()]
    assert wire.packets() == [], "no PUBREC before Kafka has it"
    answer(bench)
    assert wire.packet(PubRec).packet_id == 7
    bench.send(wire, PubRel(7))
    release = asked(bench)
    assert list(release.released) == [7]
    assert wire.packets() == [], "no PUBCOMP before it is held no more"
    note(bench, session, release)
    assert wire.packet(PubComp) == PubComp(7)


def test_one_identifier_three_times_is_three_messages(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    for _ in range(3):
        bench.send(wire, a_publish(1))
        note(bench, session, asked(bench))
        answer(bench)
        bench.send(wire, PubRel(1))
        note(bench, session, asked(bench))
        assert [type(one) for one in wire.packets()] == [PubRec, PubComp]
    assert len(set(ids(bench.publications))) == 3


def test_a_version_is_given_by_the_service(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(3, retain=True))
    hold = asked(bench)
    assert [(one.id, one.object) for one in hold.received] == [("", "t")]
    note(bench, session, hold, version=77)
    (record,) = bench.publications
    assert (record.topic, b'"version":77' in record.value) == (TOPICS.objects, True)
    assert "coldnotify-arrival" not in dict(record.headers)


def test_it_is_given_behind_what_was_published_before(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1, qos=1, retain=True), a_publish(2, retain=True), a_publish(3, qos=1, retain=True))
    assert bench.take_requests() == []
    answer(bench)
    assert wire.packet(PubAck).packet_id == 1
    note(bench, session, asked(bench), version=9)
    assert len(bench.publications) == 2, "the third waits for the second"
    answer(bench)
    answer(bench)
    assert [(type(one), one.packet_id) for one in wire.packets() if isinstance(one, PubRec | PubAck)] == [
        (PubRec, 2),
        (PubAck, 3),
    ]


def test_a_repeat_in_a_connection_is_not_published_again(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1), a_publish(1, dup=True))
    note(bench, session, asked(bench))
    bench.send(wire, a_publish(1, dup=True))
    answer(bench)
    assert wire.packet(PubRec).packet_id == 1
    bench.send(wire, a_publish(1, dup=True))
    assert wire.packet(PubRec).packet_id == 1
    assert len(bench.publications) == 1
    bench.send(wire, PubRel(1), PubRel(1))
    asked(bench)
    bench.send(wire, a_publish(1))
    left(wire, ReasonCode.PROTOCOL_ERROR)


def test_a_publish_of_qos_1_is_never_a_repeat(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1))
    note(bench, session, asked(bench))
    answer(bench)
    bench.send(wire, a_publish(1, qos=1), a_publish(1, qos=1, dup=True))
    answer(bench)
    answer(bench)
    assert [type(one) for one in wire.packets()] == [PubRec, PubAck, PubAck]
    assert len(bench.publications) == 3


def test_the_next_gateway_writes_the_same_id_or_version(bench: MqttBench) -> None:
    held = [Unreleased(identifier=1, id="an-id"), Unreleased(identifier=2, object="t", version=5)]
    wire, _ = reconnected(bench, held)
    bench.send(wire, a_publish(1, dup=True), a_publish(2, dup=True, retain=True))
    assert bench.take_requests() == [], "they are held already"
    answer(bench)
    answer(bench)
    message, version = bench.publications
    assert ids([message]) == [b"an-id"]
    assert b'"version":5' in version.value
    assert [one.packet_id for one in wire.packets() if isinstance(one, PubRec)] == [1, 2]


@BOTH
def test_the_next_gateway_writes_nothing_that_is_in_kafka(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, session = reconnected(bench, [Unreleased(identifier=1, id="an-id", written=True)], protocol)
    bench.send(wire, a_publish(1, dup=True))
    assert wire.packet(PubRec).packet_id == 1
    assert bench.publications == []
    bench.send(wire, PubRel(1))
    note(bench, session, asked(bench))
    assert wire.packet(PubComp).packet_id == 1


def test_a_pubrel_alone_releases_what_a_former_connection_has_published(bench: MqttBench) -> None:
    wire, session = reconnected(bench, [Unreleased(identifier=1, id="an-id")])
    bench.send(wire, PubRel(1))
    note(bench, session, asked(bench))
    assert wire.packet(PubComp) == PubComp(1)


def test_a_session_that_ends_with_its_connection_has_no_message_held(bench: MqttBench) -> None:
    wire, session = bench.connected(a_connect())
    bench.send(wire, a_publish(1))
    assert bench.take_requests() == []
    answer(bench)
    bench.send(wire, PubRel(1), a_publish(2, retain=True))
    assert [type(one) for one in wire.packets()] == [PubRec, PubComp]
    hold = asked(bench)
    note(bench, session, hold, version=1)
    assert b'"version":1' in bench.publications[-1].value


def test_a_request_without_an_answer_is_repeated(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1))
    hold = asked(bench)
    bench.later(REPEAT_S + 1)
    (again,) = [one.receive for one in bench.take_requests() if one.HasField("receive")]
    assert again == hold
    note(bench, session, again)
    note(bench, session, again)
    assert len(bench.publications) == 1
    bench.later(2 * REPEAT_S)
    assert not [one for one in bench.take_requests() if one.HasField("receive")]


@BOTH
def test_a_publish_without_a_place_waits_and_so_do_those_behind_it(bench: MqttBench, protocol: ProtocolVersion) -> None:
    wire, session = bench.connected(lasting(protocol))
    for number in range(UNRELEASED_MAX):
        bench.send(wire, a_publish(number + 1))
        note(bench, session, asked(bench))
        answer(bench)
    bench.send(wire, *(a_publish(1000 + number) for number in range(UNRELEASED_MAX + 5)), a_publish(5, qos=1))
    assert bench.take_requests() == []
    wire.packets()
    bench.send(wire, PubRel(2))
    note(bench, session, asked(bench))
    assert wire.packet(PubComp).packet_id == 2
    hold = asked(bench)
    assert [one.identifier for one in hold.received] == [1000]


def test_too_much_that_waits_ends_the_connection(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    for number in range(UNRELEASED_MAX):
        bench.send(wire, a_publish(number + 1))
        note(bench, session, asked(bench))
        answer(bench)
    bench.send(wire, *(a_publish(1000 + number) for number in range(WAITING_MAX)))
    left(wire, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)


def test_a_matcher_without_room_ends_the_connection(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1))
    hold = asked(bench)
    bench.inbox(Item(noted=Noted(session=session.number, ask=hold.ask)))
    left(wire, ReasonCode.QUOTA_EXCEEDED)
    assert bench.publications == []


@BOTH
def test_nobody_holds_a_publish_that_is_wrong_for_ever(protocol: ProtocolVersion) -> None:
    bench = MqttBench(admit=lambda _peer, _hello: NO_NAME)
    wire, _ = bench.connected(lasting(protocol))
    bench.send(wire, a_publish(1))
    assert not [one for one in bench.take_requests() if one.HasField("receive")]
    if protocol is MQTT_3_1_1:
        assert (wire.packets(), wire.finished) == ([], True)
        return
    assert wire.packet(PubRec).reason is ReasonCode.NOT_AUTHORIZED
    bench.send(wire, PubRel(1))
    assert wire.packet(PubComp).reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND


def test_a_publish_that_is_too_large_is_taken_from_3_1_1_and_goes_nowhere(bench: MqttBench) -> None:
    wire, _ = bench.connected(lasting(MQTT_3_1_1))
    bench.send(wire, a_publish(1, retain=True, payload=bytes(5000)), PubRel(1))
    assert [type(one) for one in wire.packets()] == [PubRec, PubComp]
    assert (bench.publications, bench.take_requests()) == ([], [])


def test_a_refusal_for_now_is_tried_again_with_the_same_id(bench: MqttBench) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1), a_publish(2))
    for request in bench.take_requests("receive", "receive"):
        note(bench, session, request.receive)
    answer(bench, None, "Kafka is away")
    while bench.unanswered:
        answer(bench, None, "Kafka is away")
    bench.later(2)
    while bench.unanswered:
        answer(bench)
    assert [one.packet_id for one in wire.packets() if isinstance(one, PubRec)] == [1, 2]
    written = ids(bench.publications)
    assert written[-2:] == list(dict.fromkeys(written))


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_is_given_up_is_answered_and_the_next_is_taken(bench: MqttBench, qos: int) -> None:
    wire, session = bench.connected(lasting())
    bench.send(wire, a_publish(1, qos=qos))
    if qos == 2:
        note(bench, session, asked(bench))
    for _ in range(int(AGAIN_S) + 5):
        while bench.unanswered:
            answer(bench, None, "Kafka is away")
        bench.later(1.5)
    if qos == 2:
        assert wire.packets() == [], "PUBREC frees the identifier: it is held no more before"
        (release,) = [one.receive for one in bench.take_requests() if one.HasField("receive")][:1]
        note(bench, session, release)
    said = wire.packets()
    assert [(type(one), _reason(one)) for one in said] == [(PubRec if qos == 2 else PubAck, ReasonCode.QUOTA_EXCEEDED)]
    bench.take_requests()
    bench.send(wire, a_publish(1, qos=1))
    answer(bench)
    assert wire.packet(PubAck).packet_id == 1


OWN = PublishRight(every=False, owned=(Owned("lamp-1", "units/{client}/"),))


@pytest.mark.parametrize(
    ("right", "topic", "granted"),
    [
        (EVERY_NAME, "units/lamp-1/t", True),
        (EVERY_NAME, "elsewhere", True),
        (OWN, "units/lamp-1/t", True),
        (OWN, "units/lamp-1", False),
        (OWN, "units/lamp-2/t", False),
        (OWN, "elsewhere", False),
        (NO_NAME, "units/lamp-1/t", False),
    ],
)
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_each_grant_at_this_door(right: PublishRight, topic: str, granted: bool, retain: bool, qos: int) -> None:
    bench = MqttBench(admit=lambda _peer, _hello: right)
    wire, session = bench.connected(lasting())
    bench.send(wire, Publish(topic, b"x", qos, retain, packet_id=1))
    if granted and qos == 2:
        note(bench, session, asked(bench), version=1)
    assert [one.key for one in bench.publications] == [f"farm/barn/{topic}".encode()] * granted
    if not granted:
        (refusal,) = wire.packets()
        assert _reason(refusal) is ReasonCode.NOT_AUTHORIZED
    elif retain:
        assert b'"source":"lamp-1"' in bench.publications[0].value
    else:
        assert dict(bench.publications[0].headers)["source"] == b"lamp-1"


def _reason(packet: Packet) -> ReasonCode:
    assert isinstance(packet, PubRec | PubAck)
    return packet.reason


@pytest.fixture
def bench() -> MqttBench:
    return MqttBench(Limits(beat_answer_s=1e6))
