"""Wills in CONNECT: which are refused, what an Open says of one, and what a Leave does."""

import pytest
from coldnotify_common.security.publish_rights import NO_NAME
from coldnotify_gateway.core import AboveAgreement, Gateway, Limits
from coldnotify_gateway.core.session_publishes import WithoutLimits
from coldnotify_schemas.internal_pb2 import WILL_DROP, WILL_PUBLISH, WILL_UNSAID, WILL_WAIT, WillEnd
from coldnotify_schemas.mqtt.kept_properties import decode_kept
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Disconnect, PubRec, Will
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_testkit.mqtt_bench import MQTT_5, MqttBench, MqttWire, a_connect
from msgspec import structs

BOTH = pytest.mark.parametrize("protocol", ProtocolVersion)


@pytest.fixture
def bench() -> MqttBench:
    return MqttBench()


def refused(wire: MqttWire, reason: ReasonCode | ReturnCode) -> None:
    assert wire.packet(ConnAck).reason is reason
    assert wire.finished


def with_will(will: Will, protocol: ProtocolVersion = MQTT_5) -> Connect:
    return structs.replace(a_connect(protocol=protocol), will=will)


@pytest.mark.parametrize("qos", [0, 1, 2])
@BOTH
def test_a_will_goes_with_every_open(bench: MqttBench, protocol: ProtocolVersion, qos: int) -> None:
    delay = Properties(will_delay_s=7, message_expiry_s=9) if protocol is MQTT_5 else NO_PROPERTIES
    _, request = bench.connecting(with_will(Will("gone", b"x", qos, retain=True, properties=delay), protocol))
    said = request.open.kept.will
    assert decode_kept(said.properties).qos == qos
    assert (said.topic, said.payload, said.qos, said.retain) == ("gone", b"x", qos, True)
    assert said.delay_s == (7 if protocol is MQTT_5 else 0)
    assert (said.expiry_s if said.HasField("expiry_s") else None) == (9 if protocol is MQTT_5 else None)
    assert not bench.connecting()[1].open.kept.HasField("will")


@pytest.mark.parametrize(
    ("will", "reason"),
    [
        (Will("$gone"), ReasonCode.TOPIC_NAME_INVALID),
        (Will("g" * 256), ReasonCode.TOPIC_NAME_INVALID),
        (Will("gone", b"x" * (Limits().payload_bytes_max + 1), retain=True), ReasonCode.PACKET_TOO_LARGE),
    ],
)
@BOTH
def test_a_will_that_can_never_be_published_is_refused(
    bench: MqttBench, will: Will, reason: ReasonCode, protocol: ProtocolVersion
) -> None:
    wire = bench.device(protocol)
    bench.send(wire, with_will(will, protocol))
    if protocol is MQTT_5:
        refused(wire, reason)
    assert wire.finished
    assert not bench.take_requests()


@BOTH
def test_a_will_without_a_right_is_refused(protocol: ProtocolVersion) -> None:
    bench = MqttBench(admit=lambda _peer, _hello: NO_NAME)
    wire = bench.device(protocol)
    bench.send(wire, with_will(Will("gone"), protocol))
    refused(wire, ReasonCode.NOT_AUTHORIZED if protocol is MQTT_5 else ReturnCode.NOT_AUTHORIZED)
    assert not bench.take_requests()


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("clean", WILL_DROP),
        ("with will", WILL_PUBLISH),
        ("lost", WILL_PUBLISH),
        ("silent", WILL_PUBLISH),
        ("wrong", WILL_PUBLISH),
        ("wrong expiry", WILL_PUBLISH),
        ("stopped", WILL_WAIT),
        ("moved", WILL_WAIT),
    ],
)
def test_a_leave_says_what_becomes_of_the_will(bench: MqttBench, end: str, expected: WillEnd) -> None:
    wire, _ = bench.connected(with_will(Will("gone")))
    match end:
        case "clean":
            bench.send(wire, Disconnect())
        case "with will":
            bench.send(wire, Disconnect(ReasonCode.DISCONNECT_WITH_WILL))
        case "lost":
            bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
        case "silent":
            bench.later(91)
        case "wrong":
            bench.send(wire, PubRec(3))
        case "wrong expiry":
            bench.send(wire, Disconnect(properties=Properties(session_expiry_s=9)))
        case "stopped":
            bench.do(bench.gateway.go_away(9, bench.now_s))
        case _:
            bench.do(bench.gateway.cut_off(9, bench.now_s))
    (leave,) = [one.leave for one in bench.take_requests() if one.HasField("leave")]
    assert leave.will == expected


def test_a_will_of_a_connection_that_was_never_accepted_is_dropped(bench: MqttBench) -> None:
    wire, _ = bench.connecting(with_will(Will("gone")))
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    (leave,) = bench.take_requests("leave")
    assert leave.leave.will == WILL_DROP


def test_a_leave_without_a_will_says_nothing_of_it(bench: MqttBench) -> None:
    wire, _ = bench.connected()
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    (leave,) = bench.take_requests("leave")
    assert leave.leave.will == WILL_UNSAID


class OneMore(WithoutLimits):
    """Allows one publish."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def ask(self, domain: str, size_bytes: int) -> AboveAgreement | None:
        self.asked.append((domain, size_bytes))
        return AboveAgreement("tenant t is above its agreement", 1_000) if len(self.asked) > 1 else None


@BOTH
def test_a_will_counts_as_a_publish_of_its_tenant(bench: MqttBench, protocol: ProtocolVersion) -> None:
    agreed = OneMore()
    bench.gateway = Gateway(MqttBench.GATEWAY, MqttBench.INBOX, 1, Limits(), agreements=agreed)
    bench.connecting(a_connect("farm/barn/lamp-2", protocol))
    assert not agreed.asked, "without a will nothing is asked"
    _, request = bench.connecting(with_will(Will("gone", b"x" * 10), protocol))
    assert agreed.asked == [(request.domain, len(f"{request.domain}/{request.group}/gone") + 10)]
    wire = bench.device(protocol)
    bench.send(wire, with_will(Will("gone"), protocol))
    refused(wire, ReasonCode.QUOTA_EXCEEDED if protocol is MQTT_5 else ReturnCode.SERVER_UNAVAILABLE)
    assert not bench.take_requests()


def test_a_wills_properties_are_kept_up_to_a_bound(bench: MqttBench) -> None:
    fine = Properties(content_type="a/b", user_properties=(("k", "v"), ("k", "w")))
    _, request = bench.connecting(with_will(Will("gone", properties=fine)))
    said = decode_kept(request.open.kept.will.properties).properties
    assert (said.content_type, list(said.user_properties)) == ("a/b", [("k", "v"), ("k", "w")])
    wire = bench.device()
    bench.send(wire, with_will(Will("gone", properties=Properties(user_properties=(("k", "v" * 3_000),)))))
    refused(wire, ReasonCode.PACKET_TOO_LARGE)
