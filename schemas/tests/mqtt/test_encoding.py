"""Every packet becomes bytes that are parsed to the same packet; bytes are those of the standard's examples.

Stands for: encoding, packets, packet_kinds
"""

import re
from typing import Any

import pytest
from coldnotify_schemas.mqtt.encoding import encode, with_dup
from coldnotify_schemas.mqtt.errors import NotEncodable
from coldnotify_schemas.mqtt.packet_kinds import PacketType, ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
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
    Will,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_testkit.mqtt_packets import connects, packets
from hypothesis import given
from hypothesis import strategies as st

V4, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
CLIENT, SERVER = Side.CLIENT, Side.SERVER
BYTES_MAX = 1 << 20
BOTH = pytest.mark.parametrize("protocol", list(ProtocolVersion))

VECTORS: list[tuple[ProtocolVersion, Side, str, Packet]] = [
    # The example of 3.1.2.10 of 3.1.1: flags 0xCE, keep alive 10.
    (
        V4, CLIENT, "10 1b 0004 4d515454 04 ce 000a 0001 63 0001 77 0002 6869 0001 75 0002 7077",
        Connect(V4, "c", True, 10, "u", b"pw", Will("w", b"hi", 1)),
    ),
    # The example of 3.1.2.12 of 5.0: the same flags and keep alive, a session expiry of 10 s.
    (
        V5, CLIENT, "10 22 0004 4d515454 05 ce 000a 05 11 0000000a 0001 63 00 0001 77 0002 6869 0001 75 0002 7077",
        Connect(V5, "c", True, 10, "u", b"pw", Will("w", b"hi", 1), Properties(session_expiry_s=10)),
    ),
    (V4, CLIENT, "10 0c 0004 4d515454 04 00 0000 0000", Connect(V4, "", False)),
    (V5, CLIENT, "10 0f 0004 4d515454 05 40 0000 00 0000 0000", Connect(V5, "", False, password=b"")),
    (
        V5, CLIENT, "10 1b 0004 4d515454 05 34 0000 00 0000 05 18 00000005 0001 77 0003 00ff00",
        Connect(V5, "", False, will=Will("w", b"\x00\xff\x00", 2, True, Properties(will_delay_s=5))),
    ),
    (V4, SERVER, "20 02 01 00", ConnAck(True, ReturnCode.ACCEPTED)),
    (V4, SERVER, "20 02 00 05", ConnAck(False, ReturnCode.NOT_AUTHORIZED)),
    (V5, SERVER, "20 03 00 87 00", ConnAck(False, ReasonCode.NOT_AUTHORIZED)),
    (
        V5, SERVER, "20 0b 01 00 08 13 0e10 21 0040 24 01",
        ConnAck(True, properties=Properties(receive_max=64, server_keep_alive_s=3600, qos_max=1)),
    ),
    # The example of 3.3.2.3 of 3.1.1: topic a/b, identifier 10.
    (V4, CLIENT, "32 07 0003 612f62 000a", Publish("a/b", qos=1, packet_id=10)),
    (V4, SERVER, "3d 09 0003 612f62 ffff 6869", Publish("a/b", b"hi", 2, True, True, 0xFFFF)),
    (V4, CLIENT, "30 05 0003 612f62", Publish("a/b")),
    # "A" and U+2A6D4, the example of 1.5.4 (1.5.3 of 3.1.1).
    (V4, CLIENT, "31 08 0005 41f0aa9b94 78", Publish("A\U0002a6d4", b"x", retain=True)),
    (V5, CLIENT, "30 06 0000 03 23 0001", Publish("", properties=Properties(topic_alias=1))),
    (
        V5, SERVER, "30 17 0001 61 12 01 01 09 0001 ff 0b 01 0b 8001 26 0001 6b 0001 76 70",
        Publish("a", b"p", properties=Properties(
            1, subscription_ids=(1, 128), correlation_data=b"\xff", user_properties=(("k", "v"),)
        )),
    ),
    (V4, CLIENT, "40 02 000a", PubAck(10)),
    (V5, CLIENT, "40 02 000a", PubAck(10)),
    (V5, SERVER, "40 03 000a 10", PubAck(10, ReasonCode.NO_MATCHING_SUBSCRIBERS)),
    (V5, SERVER, "40 08 000a 97 04 1f 0001 6e", PubAck(10, ReasonCode.QUOTA_EXCEEDED, Properties(reason_string="n"))),
    (V4, CLIENT, "50 02 0001", PubRec(1)),
    (V4, CLIENT, "62 02 0001", PubRel(1)),
    (V5, CLIENT, "62 03 0001 92", PubRel(1, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)),
    (V4, CLIENT, "70 02 0001", PubComp(1)),
    # The example of 3.8.3 of 3.1.1.
    (
        V4, CLIENT, "82 0e 000a 0003 612f62 01 0003 632f64 02",
        Subscribe(10, (TopicSubscription("a/b", 1), TopicSubscription("c/d", 2))),
    ),
    (
        V5, CLIENT, "82 10 000a 03 0b ff7f 0001 23 2d 0003 612f2b 10",
        Subscribe(
            10,
            (TopicSubscription("#", 1, True, True, 2), TopicSubscription("a/+", retain_handling=1)),
            Properties(subscription_ids=(16383,)),
        ),
    ),
    # The example of 3.9.3 of 3.1.1.
    (
        V4, SERVER, "90 05 000a 00 02 80",
        SubAck(10, (ReasonCode.SUCCESS, ReasonCode.GRANTED_QOS_2, ReasonCode.UNSPECIFIED_ERROR)),
    ),
    (V5, SERVER, "90 05 000a 00 01 9e", SubAck(10, (ReasonCode.GRANTED_QOS_1, ReasonCode(0x9E)))),
    # The example of 3.10.3 of 3.1.1.
    (V4, CLIENT, "a2 0c 000a 0003 612f62 0003 632f64", Unsubscribe(10, ("a/b", "c/d"))),
    (V5, CLIENT, "a2 06 000a 00 0001 23", Unsubscribe(10, ("#",))),
    (V4, SERVER, "b0 02 000a", UnsubAck(10)),
    (V5, SERVER, "b0 05 000a 00 00 11", UnsubAck(10, (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED))),
    (V4, CLIENT, "c0 00", PingReq()),
    (V4, SERVER, "d0 00", PingResp()),
    (V4, CLIENT, "e0 00", Disconnect()),
    (V5, CLIENT, "e0 00", Disconnect()),
    (V5, CLIENT, "e0 01 04", Disconnect(ReasonCode.DISCONNECT_WITH_WILL)),
    (V5, CLIENT, "e0 07 00 05 11 00000000", Disconnect(properties=Properties(session_expiry_s=0))),
    (V5, SERVER, "e0 01 8e", Disconnect(ReasonCode.SESSION_TAKEN_OVER)),
    (V5, CLIENT, "f0 06 18 04 15 0001 53", Auth(ReasonCode(0x18), Properties(authentication_method="S"))),
    (V5, SERVER, "f0 00", Auth()),
]  # fmt: skip
"""Bytes as the standards' examples have them, or as written by hand from their tables."""


def parsed(data: bytes, protocol: ProtocolVersion, sender: Side) -> list[Packet]:
    """All packets in the bytes; a CONNECT is read as a server reads it."""
    is_connect = data[0] >> 4 == PacketType.CONNECT
    return list(PacketBuffer(BYTES_MAX, None if is_connect else protocol, sender).feed(data))


@pytest.mark.parametrize(("protocol", "sender", "text", "packet"), VECTORS)
def test_the_bytes_of_a_packet(protocol: ProtocolVersion, sender: Side, text: str, packet: Packet) -> None:
    data = bytes.fromhex(text)
    assert encode(packet, protocol).hex() == data.hex()
    assert parsed(data, protocol, sender) == [packet]


def test_every_kind_of_packet_has_a_vector() -> None:
    for protocol in ProtocolVersion:
        kinds = {bytes.fromhex(text)[0] >> 4 for version, _, text, _ in VECTORS if version is protocol}
        # An unchanged PUBREC, PUBCOMP and PING is the same in both.
        missing = {PacketType.AUTH} if protocol is V4 else {PacketType(kind) for kind in (5, 7, 12, 13)}
        assert set(PacketType) - kinds == missing


@BOTH
@given(data=st.data())
def test_a_connect_comes_back_as_it_was(protocol: ProtocolVersion, data: st.DataObject) -> None:
    packet = data.draw(connects(protocol))
    buffer = PacketBuffer(BYTES_MAX)
    assert list(buffer.feed(encode(packet, protocol))) == [packet]
    assert buffer.protocol is protocol


@BOTH
@pytest.mark.parametrize("sender", list(Side))
@given(data=st.data())
def test_a_packet_comes_back_as_it_was(protocol: ProtocolVersion, sender: Side, data: st.DataObject) -> None:
    packet = data.draw(packets(protocol, sender))
    (found,) = parsed(encode(packet, protocol), protocol, sender)
    assert found == packet
    assert type(found) is type(packet)


def test_a_packet_of_each_length_of_the_header_comes_back() -> None:
    for length in (0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152):
        packet = Publish("a", b"x" * max(0, length - 3))
        data = encode(packet, V4)
        assert list(PacketBuffer(len(data), V4).feed(data)) == [packet]


def test_3_1_1_leaves_out_what_it_cannot_say() -> None:
    held = Properties(user_properties=(("a", "b"),))
    cases: list[tuple[Packet, Packet]] = [
        (Publish("a", properties=held), Publish("a")),
        (PubAck(1, ReasonCode.QUOTA_EXCEEDED, held), PubAck(1)),
        (Subscribe(1, (TopicSubscription("a", 1, True, True, 2),)), Subscribe(1, (TopicSubscription("a", 1),))),
        (SubAck(1, (ReasonCode.QUOTA_EXCEEDED, ReasonCode.GRANTED_QOS_1)), SubAck(1, (ReasonCode(128), ReasonCode(1)))),
        (UnsubAck(1, (ReasonCode.SUCCESS,)), UnsubAck(1)),
        (Disconnect(ReasonCode.DISCONNECT_WITH_WILL, held), Disconnect()),
    ]  # fmt: skip
    for rich, plain in cases:
        assert encode(rich, V4) == encode(plain, V4)


def test_a_repeat_has_the_flag_dup() -> None:
    packet = Publish("a", b"x", 1, packet_id=5)
    assert with_dup(encode(packet, V5)) == encode(Publish("a", b"x", 1, dup=True, packet_id=5), V5)


LONG = "x" * 65_536
NOT_ENCODABLE: list[tuple[ProtocolVersion, Any, str]] = [
    (V4, Publish("a" * 65_536), "topic: has 65536 bytes"),
    (V4, Publish("a\x00b"), "topic: .* U+0000"),
    (V4, Publish("a\ud800b"), "topic: .* not valid UTF-8"),
    (V4, Publish("a/+"), "topic: .* wildcard"),
    (V4, Publish(""), "topic: is empty"),
    (V5, Publish(""), "topic: is empty"),
    (V4, Publish("", properties=Properties(topic_alias=1)), "topic: is empty"),
    (V4, Publish("a", qos=3, packet_id=1), "qos: is 3"),
    (V4, Publish("a", qos=1), "packet_id: is None"),
    (V4, Publish("a", qos=1, packet_id=0), "packet_id: is 0"),
    (V4, Publish("a", qos=1, packet_id=65_536), "packet_id: is 65536"),
    (V4, Publish("a", packet_id=1), "packet_id, dup"),
    (V4, Publish("a", dup=True), "packet_id, dup"),
    (V5, Publish("a", properties=Properties(session_expiry_s=1)), "session_expiry_s: PUBLISH must not"),
    (V5, Publish("a", properties=Properties(topic_alias=0)), "topic_alias: is 0"),
    (V5, Publish("a", properties=Properties(content_type=LONG)), "content_type: has 65536 bytes"),
    (V4, Connect(V5), "protocol"),
    (V4, Connect(V4, keep_alive_s=65_536), "keep_alive_s: is 65536"),
    (V4, Connect(V4, password=b"x"), "password"),
    (V4, Connect(V4, will=Will("")), "will.topic: is empty"),
    (V4, Connect(V4, will=Will("a", qos=3)), "will.qos: is 3"),
    (V4, Connect(V4, will=Will("a", LONG.encode())), "will.payload: has 65536 bytes"),
    (V4, ConnAck(False, ReasonCode.SUCCESS), "reason"),
    (V5, ConnAck(False, ReturnCode.ACCEPTED), "reason"),
    (V5, ConnAck(True, ReasonCode.BANNED), "session_present"),
    (V4, Subscribe(1, ()), "subscriptions"),
    (V4, Subscribe(1, (TopicSubscription("a", 3),)), "qos: is 3"),
    (V5, Subscribe(1, (TopicSubscription("a", retain_handling=3),)), "retain_handling: is 3"),
    (V5, Subscribe(1, (TopicSubscription("$share/a/b", no_local=True),)), "no_local"),
    (V5, Subscribe(1, (TopicSubscription("a"),), Properties(subscription_ids=(1, 2))), "subscription_ids"),
    (V4, SubAck(1, ()), "reasons"),
    (V4, Unsubscribe(1, ()), "filters"),
    (V5, UnsubAck(1), "reasons"),
    (V4, Auth(), "AUTH"),
]


@pytest.mark.parametrize(("protocol", "packet", "words"), NOT_ENCODABLE)
def test_a_packet_that_has_no_bytes_names_its_field(protocol: ProtocolVersion, packet: Any, words: str) -> None:
    with pytest.raises(NotEncodable, match=words.replace("U+", re.escape("U+"))):
        encode(packet, protocol)
