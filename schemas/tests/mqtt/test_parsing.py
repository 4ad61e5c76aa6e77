"""Any cut of a stream gives the same packets; garbage, and what the standard forbids, gives the defined errors."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.errors import (
    MalformedPacket,
    MqttError,
    PacketTooLarge,
    ProtocolViolation,
    UnsupportedProtocol,
)
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    Connect,
    Packet,
    PingReq,
    PubAck,
    Publish,
    Subscribe,
    TopicSubscription,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer, bare_pubacks
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_testkit.mqtt_packets import connects, packets
from hypothesis import given
from hypothesis import strategies as st

V4, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
CLIENT, SERVER = Side.CLIENT, Side.SERVER
BYTES_MAX = 4096
MQTT = "0004 4d515454"


def read(text: str, protocol: ProtocolVersion | None, sender: Side = CLIENT) -> list[Packet]:
    """The packets in bytes that are written in hexadecimal."""
    return list(PacketBuffer(BYTES_MAX, protocol, sender).feed(bytes.fromhex(text)))


@given(data=st.data(), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_any_cut_of_the_stream_gives_the_same_packets(data: st.DataObject, cuts: list[int]) -> None:
    protocol = data.draw(st.sampled_from(ProtocolVersion))
    sent: Sequence[Packet] = [
        data.draw(connects(protocol)),
        *data.draw(st.lists(packets(protocol, CLIENT), max_size=6)),
    ]
    stream = b"".join(encode(packet, protocol) for packet in sent)
    buffer = PacketBuffer(len(stream))
    received: list[Packet] = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        received += buffer.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert received == sent
    assert len(buffer) == 0


def test_a_reader_that_stops_goes_on_later_without_a_loss() -> None:
    sent = [Publish(f"a/{i}", b"x" * i) for i in range(50)]
    stream = b"".join(encode(packet, V5) for packet in sent)
    buffer = PacketBuffer(BYTES_MAX, V5)
    received: list[Packet] = []
    for start in range(0, len(stream), 100):
        for packet in buffer.feed(stream[start : start + 100]):
            received.append(packet)
            break
    received += buffer
    assert received == sent
    assert list(buffer) == []


def test_the_packets_before_a_bad_one_are_given_and_none_behind_it() -> None:
    buffer = PacketBuffer(BYTES_MAX, V4)
    stream = iter(buffer.feed(bytes.fromhex("c000 c001 c000")))
    assert next(stream) == PingReq()
    for _ in range(2):
        with pytest.raises(MalformedPacket):
            next(stream)
    with pytest.raises(MalformedPacket):
        list(buffer.feed(bytes.fromhex("c000")))


def test_a_packet_over_the_limit_is_refused_before_its_bytes_come() -> None:
    assert list(PacketBuffer(130, V4).feed(b"\x30\x7f")) == []
    assert list(PacketBuffer(131, V4).feed(b"\x30\x80\x01")) == []
    with pytest.raises(PacketTooLarge, match=r"131 bytes .at most 130") as caught:
        list(PacketBuffer(130, V4).feed(b"\x30\x80\x01"))
    assert caught.value.reason == 0x95


def test_the_limit_can_be_another_one_behind_the_connect() -> None:
    connect, large = Connect(V5, "c"), Publish("a", b"x" * 1000)
    buffer = PacketBuffer(100)
    assert list(buffer.feed(encode(connect, V5))) == [connect]
    buffer.take_at_most(2000)
    assert list(buffer.feed(encode(large, V5))) == [large]


def test_a_large_packet_in_small_chunks_is_not_copied_for_each() -> None:
    data = encode(Publish("a", b"x" * 10_000), V4)
    buffer = PacketBuffer(len(data), V4)
    assert list(buffer.feed(data[:16])) == list(buffer.feed(data[16:32])) == []
    kept = buffer._data
    for at in range(32, len(data) - 16, 16):
        assert list(buffer.feed(data[at : at + 16])) == []
        assert buffer._data is kept
    assert [type(packet) for packet in buffer.feed(data[len(data) - len(data) % 16 :])] == [Publish]


def test_an_idle_buffer_holds_nothing() -> None:
    buffer = PacketBuffer(BYTES_MAX, V4)
    assert list(buffer.feed(bytes.fromhex("c000 c0"))) == [PingReq()]
    assert len(buffer) == 1
    assert list(buffer.feed(b"\x00")) == [PingReq()]
    assert (len(buffer), buffer._data) == (0, b"")


def test_a_client_knows_its_protocol() -> None:
    with pytest.raises(ValueError, match="protocol"):
        PacketBuffer(BYTES_MAX, None, SERVER)


FORBIDDEN: list[tuple[ProtocolVersion | None, Side, str, type[MqttError], str]] = [
    # The fixed header.
    (V4, CLIENT, "00 00", MalformedPacket, "type is 0"),
    (V4, CLIENT, "f0 00", ProtocolViolation, "client must not send AUTH"),
    (V4, SERVER, "e0 00", ProtocolViolation, "server must not send DISCONNECT"),
    (V5, CLIENT, "20", ProtocolViolation, "client must not send CONNACK"),
    (V5, SERVER, "82", ProtocolViolation, "server must not send SUBSCRIBE"),
    (V4, CLIENT, "41", MalformedPacket, "flags: PUBACK"),
    (V4, CLIENT, "60", MalformedPacket, "flags: PUBREL has 0b0000, and not 0b0010"),
    (V4, CLIENT, "80", MalformedPacket, "flags: SUBSCRIBE"),
    (V4, CLIENT, "a3", MalformedPacket, "flags: UNSUBSCRIBE"),
    (V4, CLIENT, "c1", MalformedPacket, "flags: PINGREQ"),
    (V5, CLIENT, "e2", MalformedPacket, "flags: DISCONNECT"),
    (V4, CLIENT, "c0 80808080", MalformedPacket, "remaining length: has more than four"),
    (V5, CLIENT, "c0 8000", MalformedPacket, "remaining length: has more bytes than it needs"),
    (None, CLIENT, f"10 8d00 {MQTT} 05 02 0000 00 0000", MalformedPacket, "remaining length: has more bytes"),
    (V4, CLIENT, "c0 01 00", MalformedPacket, "1 bytes are left"),
    (V5, CLIENT, "c0 01 00", MalformedPacket, "1 bytes are left"),
    (V4, CLIENT, "e0 01 00", MalformedPacket, "1 bytes are left"),
    # CONNECT.
    (None, CLIENT, "c0 00", ProtocolViolation, "first one is PINGREQ"),
    (None, CLIENT, "47 45 54", ProtocolViolation, "first one is PUBACK"),  # GET
    (None, CLIENT, "16 03 01", MalformedPacket, "flags: CONNECT"),  # TLS
    (V5, CLIENT, "10", ProtocolViolation, "CONNECT comes twice"),
    (None, CLIENT, f"10 0c {MQTT} 04 01 0000 0000", MalformedPacket, "connect flags"),
    (None, CLIENT, f"10 0c {MQTT} 04 08 0000 0000", MalformedPacket, "will flag"),
    (None, CLIENT, f"10 0c {MQTT} 04 20 0000 0000", MalformedPacket, "will flag"),
    (None, CLIENT, f"10 0c {MQTT} 04 1c 0000 0000", MalformedPacket, "will qos: is 3"),
    (None, CLIENT, f"10 0e {MQTT} 04 40 0000 0000 0000", MalformedPacket, "password"),
    (None, CLIENT, f"10 0d {MQTT} 04 02 0000 0000 00", MalformedPacket, "1 bytes are left"),
    (None, CLIENT, f"10 0c {MQTT} 04 82 0000 0000", MalformedPacket, "user name: the packet ends"),
    (None, CLIENT, f"10 0f {MQTT} 04 82 0000 0000 0005 61", MalformedPacket, "user name: the packet ends within"),
    (None, CLIENT, f"10 0e {MQTT} 04 02 0000 0002 c328", MalformedPacket, "client identifier: .* UTF-8"),
    (None, CLIENT, f"10 0f {MQTT} 04 02 0000 0003 eda080", MalformedPacket, "client identifier: .* UTF-8"),  # U+D800
    (None, CLIENT, f"10 0d {MQTT} 04 02 0000 0001 00", MalformedPacket, "client identifier: .* U.0000"),
    (None, CLIENT, f"10 11 {MQTT} 04 06 0000 0000 0001 2b 0000", MalformedPacket, "will topic: .* wildcard"),
    (None, CLIENT, f"10 10 {MQTT} 04 06 0000 0000 0000 0000", ProtocolViolation, "will topic: is empty"),
    (None, CLIENT, f"10 12 {MQTT} 05 02 0000 05 01 0000000a 0000", ProtocolViolation, "payload_format: CONNECT must"),
    # CONNACK.
    (V4, SERVER, "20 02 02 00", MalformedPacket, "acknowledge flags"),
    (V4, SERVER, "20 02 00 06", MalformedPacket, "return code: is 6"),
    (V4, SERVER, "20 02 01 01", ProtocolViolation, "session present"),
    (V5, SERVER, "20 03 00 8e 00", ProtocolViolation, "reason code: is 0x8e"),
    (V5, SERVER, "20 02 00 00", MalformedPacket, "property length: the packet ends"),
    # PUBLISH.
    (V4, CLIENT, "36 05 0001 61 0001", MalformedPacket, "qos: is 3"),
    (V4, CLIENT, "38 03 0001 61", MalformedPacket, "dup"),
    (V4, CLIENT, "30 05 0003 612f2b", MalformedPacket, "topic: 'a/.' has a wildcard"),
    (V4, CLIENT, "30 03 0001 23", MalformedPacket, "topic: .* wildcard"),
    (V4, CLIENT, "30 02 0000", ProtocolViolation, "topic: is empty"),
    (V5, CLIENT, "30 03 0000 00", ProtocolViolation, "topic: is empty"),
    (V4, CLIENT, "32 05 0001 61 0000", ProtocolViolation, "packet identifier: is 0"),
    (V4, CLIENT, "32 04 0001 61 00", MalformedPacket, "packet identifier: the packet ends"),
    (V4, CLIENT, "30 03 0001 00", MalformedPacket, "topic: .* U.0000"),
    (V5, CLIENT, "30 06 0001 61 02 0b 01", ProtocolViolation, "subscription_ids: PUBLISH of a client"),
    # The acknowledgements.
    (V4, CLIENT, "40 02 0000", ProtocolViolation, "packet identifier: is 0"),
    (V4, CLIENT, "40 03 0001 00", MalformedPacket, "1 bytes are left"),
    (V5, CLIENT, "40 03 0001 92", ProtocolViolation, "reason code: is 0x92"),
    (V5, CLIENT, "62 03 0001 10", ProtocolViolation, "reason code: is 0x10"),
    (V5, CLIENT, "40 05 0001 00 00 00", MalformedPacket, "1 bytes are left"),
    # SUBSCRIBE, UNSUBSCRIBE, and their answers.
    (V4, CLIENT, "82 02 0001", ProtocolViolation, "topic filters: there are none"),
    (V5, CLIENT, "82 03 0001 00", ProtocolViolation, "topic filters: there are none"),
    (V4, CLIENT, "82 06 0000 0001 61 00", ProtocolViolation, "packet identifier: is 0"),
    (V4, CLIENT, "82 06 0001 0001 61 03", MalformedPacket, "requested qos"),
    (V4, CLIENT, "82 06 0001 0001 61 04", MalformedPacket, "requested qos"),
    (V4, CLIENT, "82 05 0001 0001 61", MalformedPacket, "subscription options: the packet ends"),
    (V5, CLIENT, "82 07 0001 00 0001 61 03", ProtocolViolation, "QoS is 3"),
    (V5, CLIENT, "82 07 0001 00 0001 61 30", ProtocolViolation, "retain handling is 3"),
    (V5, CLIENT, "82 07 0001 00 0001 61 40", MalformedPacket, "reserved bit"),
    (V5, CLIENT, "82 0f 0001 00 0009 2473686172652f6761 04", ProtocolViolation, "No Local"),
    (V5, CLIENT, "82 0b 0001 04 0b01 0b02 0001 61 00", ProtocolViolation, "subscription_ids: comes twice"),
    (V5, CLIENT, "82 09 0001 02 0b00 0001 61 00", ProtocolViolation, "subscription_ids: is 0"),
    (V4, SERVER, "90 03 0001 03", ProtocolViolation, "reason code: is 0x03"),
    (V4, SERVER, "90 02 0001", ProtocolViolation, "reason codes: there are none"),
    (V4, CLIENT, "a2 02 0001", ProtocolViolation, "topic filters: there are none"),
    (V4, SERVER, "b0 03 0001 00", MalformedPacket, "1 bytes are left"),
    # DISCONNECT and AUTH.
    (V5, CLIENT, "e0 01 8e", ProtocolViolation, "reason code: is 0x8e"),
    (V5, SERVER, "e0 01 04", ProtocolViolation, "reason code: is 0x04"),
    (V5, SERVER, "e0 07 00 05 11 00000000", ProtocolViolation, "session_expiry_s: DISCONNECT of a server"),
    (V5, CLIENT, "e0 06 00 04 1c 0001 61", ProtocolViolation, "server_reference: DISCONNECT of a client"),
    (V5, CLIENT, "f0 00", MalformedPacket, "reason code: the packet ends"),
    (V5, CLIENT, "f0 01 00", ProtocolViolation, "reason code: is 0x00"),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "sender", "text", "error", "words"), FORBIDDEN)
def test_a_packet_that_the_standard_forbids(
    protocol: ProtocolVersion | None, sender: Side, text: str, error: type[MqttError], words: str
) -> None:
    with pytest.raises(MqttError, match=words) as caught:
        read(text, protocol, sender)
    assert type(caught.value) is error
    assert caught.value.reason == (0x81 if error is MalformedPacket else 0x82)


def test_a_topic_alias_of_zero_has_a_reason_of_its_own() -> None:
    with pytest.raises(ProtocolViolation, match="topic_alias: is 0") as caught:
        read("30 07 0001 61 03 23 0000", V5)
    assert caught.value.reason is ReasonCode.TOPIC_ALIAS_INVALID


def test_3_1_1_does_not_forbid_a_length_of_more_bytes_than_it_needs() -> None:
    assert read(f"10 8c80 8000 {MQTT} 04 02 0000 0000 c0 8000", None) == [Connect(V4), PingReq()]


def test_a_filter_is_any_text() -> None:
    assert read("82 08 0001 0003 2b2b23 00", V4) == [Subscribe(1, (TopicSubscription("++#"),))]
    assert read("82 05 0001 0000 00", V4) == [Subscribe(1, (TopicSubscription(""),))]


@pytest.mark.parametrize(
    ("name", "level", "answered_in"),
    [
        (b"MQTT", 3, V4),
        (b"MQTT", 6, V5),
        (b"MQTT", 0x84, V5),
        (b"MQIsdp", 3, V4),
        (b"MQTT ", 4, None),
        (b"mqtt", 5, None),
        (b"", 0, None),
    ],
)
def test_another_protocol_is_named_with_what_answers_it(name: bytes, level: int, answered_in: ProtocolVersion) -> None:
    body = len(name).to_bytes(2, "big") + name + bytes((level,)) + b"\x02\x00\x00\x00\x00"
    with pytest.raises(UnsupportedProtocol) as caught:
        list(PacketBuffer(BYTES_MAX).feed(b"\x10" + bytes((len(body),)) + body))
    assert (caught.value.name, caught.value.level, caught.value.answered_in) == (name, level, answered_in)
    assert caught.value.reason == 0x84


@given(st.lists(st.integers(1, 0xFFFF), min_size=1, max_size=5))
def test_bare_pubacks_are_read_as_the_parser_reads_them(packet_ids: list[int]) -> None:
    for protocol in ProtocolVersion:
        data = b"".join(encode(PubAck(one), protocol) for one in packet_ids)
        assert list(bare_pubacks(data)) == packet_ids
        assert list(PacketBuffer(4, protocol).feed(data)) == [PubAck(one) for one in packet_ids]
    assert not bare_pubacks(data[:-1])
    assert not bare_pubacks(b"\x50" + data[1:])
    assert not bare_pubacks(data + encode(PingReq(), V4))
    assert not bare_pubacks(data + b"\x40\x02\x00\x00")


@given(st.binary(min_size=4, max_size=4), st.integers(0, 2))
def test_only_bare_pubacks_are_read_as_such(data: bytes, before: int) -> None:
    for one in (data, b"\x40\x02" + data[2:], b"\x40" + data[1:], b"\x50\x02" + data[2:]):
        all_of_it = b"\x40\x02\x00\x01" * before + one
        if packet_ids := bare_pubacks(all_of_it):
            assert list(PacketBuffer(4, V4).feed(all_of_it)) == [PubAck(each) for each in packet_ids]
    assert not bare_pubacks(b"\x40\x02\x00\x00")


GARBAGE = st.one_of(
    st.binary(max_size=60),
    # Packets with a wrong byte find more ways than noise.
    st.tuples(
        st.sampled_from([(protocol, sender) for protocol in ProtocolVersion for sender in Side])
        .flatmap(lambda one: packets(*one).map(lambda packet: encode(packet, one[0])))
        .filter(len),
        st.integers(0, 400),
        st.integers(0, 255),
    ).map(lambda drawn: drawn[0][: (at := drawn[1] % len(drawn[0]))] + bytes((drawn[2],)) + drawn[0][at + 1 :]),
)


@given(
    chunks=st.lists(GARBAGE, max_size=10),
    protocol=st.sampled_from([None, V4, V5]),
    sender=st.sampled_from(Side),
)
def test_garbage_gives_packets_or_the_defined_errors(
    chunks: list[bytes], protocol: ProtocolVersion | None, sender: Side
) -> None:
    buffer = PacketBuffer(400, protocol, sender if protocol else CLIENT)
    with suppress(MqttError):
        for chunk in chunks:
            for packet in buffer.feed(chunk):
                # A packet that is read can be said, and is read as the same.
                spoken = buffer.protocol
                assert spoken is not None
                again = PacketBuffer(800, None if isinstance(packet, Connect) else spoken, sender)
                assert list(again.feed(encode(packet, spoken))) == [packet]
            assert len(buffer) <= 400
