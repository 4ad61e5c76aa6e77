"""Each property in each packet: taken where the standard's table allows it, and refused elsewhere, or out of bounds."""

from typing import Any

import pytest
from coldnotify_schemas.mqtt.errors import MalformedPacket, NotEncodable, ProtocolViolation
from coldnotify_schemas.mqtt.packet_kinds import PacketType, Side
from coldnotify_schemas.mqtt.primitives import Reader
from coldnotify_schemas.mqtt.properties import (
    NO_PROPERTIES,
    RULES,
    WILL,
    Properties,
    PropertyRule,
    ValueType,
    property_bytes,
    read_properties,
)

VALUES = {
    ValueType.FLAG: (b"\x01", True),
    ValueType.BYTE: (b"\x01", 1),
    ValueType.TWO_BYTES: (b"\x01\x02", 0x102),
    ValueType.FOUR_BYTES: (b"\x01\x02\x03\x04", 0x1020304),
    ValueType.VARINT: (b"\x80\x01", 128),
    ValueType.TEXT: (b"\x00\x01a", "a"),
    ValueType.BINARY: (b"\x00\x01\xff", b"\xff"),
    ValueType.PAIR: (b"\x00\x01a\x00\x01b", ("a", "b")),
}
TABLE = """
1 Publish,Will
2 Publish,Will
3 Publish,Will
8 Publish,Will
9 Publish,Will
11 Publish,Subscribe
17 Connect,ConnAck,Disconnect
18 ConnAck
19 ConnAck
21 Connect,ConnAck,Auth
22 Connect,ConnAck,Auth
23 Connect
24 Will
25 Connect
26 ConnAck
28 ConnAck,Disconnect
31 ConnAck,PubAck,PubRec,PubRel,PubComp,SubAck,UnsubAck,Disconnect,Auth
33 Connect,ConnAck
34 Connect,ConnAck
35 Publish
36 ConnAck
37 ConnAck
38 Connect,ConnAck,Publish,Will,PubAck,PubRec,PubRel,PubComp,Subscribe,SubAck,Unsubscribe,UnsubAck,Disconnect,Auth
39 Connect,ConnAck
40 ConnAck
41 ConnAck
42 ConnAck
"""
"""Table 2-4 of MQTT 5.0."""
METHOD = b"\x15\x00\x01m"
"""Authentication data is refused without it."""


def read(body: bytes, carrier: int, sender: Side = Side.SERVER) -> Properties:
    """The properties in these bytes, which have their length before them."""
    reader = Reader(bytes((len(body),)) + body + b"behind")
    found = read_properties(reader, carrier, sender)
    assert reader.rest() == b"behind"
    return found


def one(rule: PropertyRule) -> bytes:
    """The property once, with an allowed value."""
    return bytes((rule.id,)) + VALUES[rule.type][0]


def test_the_rules_are_those_of_the_standards_table() -> None:
    found = {}
    for line in TABLE.split():
        if line.isdigit():
            number = int(line)
        else:
            found[number] = {WILL if name == "Will" else PacketType[name.upper()] for name in line.split(",")}
    assert {rule.id: set(rule.carriers) for rule in RULES} == found
    assert [rule.field for rule in RULES] == list(Properties.__struct_fields__)


@pytest.mark.parametrize("carrier", [WILL, *PacketType])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.field)
def test_a_property_in_a_packet(rule: PropertyRule, carrier: int) -> None:
    # A client's alone.
    sender = Side.CLIENT if rule.field == "session_expiry_s" else Side.SERVER
    value = VALUES[rule.type][1]
    values: dict[str, Any] = {rule.field: (value,) if rule.many else value}
    held = Properties(**values)
    if carrier not in rule.carriers:
        with pytest.raises(ProtocolViolation, match=f"{rule.field}: .* must not have it"):
            read(one(rule), carrier, sender)
        with pytest.raises(NotEncodable, match=f"{rule.field}: .* must not have it"):
            property_bytes(held, carrier)
        return
    if rule.field == "authentication_data":
        with pytest.raises(ProtocolViolation, match="authentication_method"):
            read(one(rule), carrier, sender)
        held = Properties(authentication_data=held.authentication_data, authentication_method="m")
        assert read(one(rule) + METHOD, carrier, sender) == held
        return
    assert read(one(rule), carrier, sender) == held
    assert property_bytes(held, carrier) == bytes((len(one(rule)),)) + one(rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.field)
def test_a_property_twice(rule: PropertyRule) -> None:
    (carrier, *_) = sorted(rule.carriers - {PacketType.SUBSCRIBE}, reverse=True)
    sender = Side.CLIENT if rule.field == "session_expiry_s" else Side.SERVER
    if rule.many:
        assert getattr(read(one(rule) * 2, carrier, sender), rule.field) == (VALUES[rule.type][1],) * 2
    else:
        with pytest.raises(ProtocolViolation, match=f"{rule.field}: comes twice"):
            read(one(rule) * 2, carrier, sender)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.smallest], ids=lambda rule: rule.field)
def test_a_number_below_its_bounds(rule: PropertyRule) -> None:
    (carrier, *_) = sorted(rule.carriers)
    width = {ValueType.TWO_BYTES: 2, ValueType.FOUR_BYTES: 4, ValueType.VARINT: 1}[rule.type]
    with pytest.raises(ProtocolViolation, match=f"{rule.field}: is 0 .1 to"):
        read(bytes((rule.id,)) + bytes(width), carrier)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.type in (ValueType.FLAG, ValueType.BYTE)], ids=lambda rule: rule.field
)
def test_a_byte_above_its_bounds(rule: PropertyRule) -> None:
    (carrier, *_) = sorted(rule.carriers)
    with pytest.raises(ProtocolViolation, match=f"{rule.field}: is 2 .0 to 1 are"):
        read(bytes((rule.id, 2)), carrier)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x03\x01\x01", "property length: 3 bytes, but only 2 are left"),
        (b"\x02\x23\x00\x01", "property length: ends within a property"),
        (b"\x01\x04", "property identifier: 4 is not in the standard"),
        (b"\x02\x81\x00", "property identifier: has more bytes than it needs"),
        (b"", "property length: the packet ends before it"),
        (b"\x80\x00", "property length: has more bytes than it needs"),
    ],
)
def test_properties_that_cannot_be_read(data: bytes, words: str) -> None:
    with pytest.raises(MalformedPacket, match=words):
        read_properties(Reader(data), PacketType.PUBLISH, Side.CLIENT)


def test_a_response_topic_has_no_wildcards() -> None:
    with pytest.raises(ProtocolViolation, match="response_topic: has a wildcard"):
        read(b"\x08\x00\x01#", PacketType.PUBLISH)


def test_user_properties_keep_their_order() -> None:
    pairs = (("b", "1"), ("a", "2"), ("b", "1"))
    data = property_bytes(Properties(user_properties=pairs), PacketType.PUBLISH)
    assert read(data[1:], PacketType.PUBLISH).user_properties == pairs


def test_no_properties_are_one_byte() -> None:
    assert property_bytes(Properties(), PacketType.PUBLISH) == b"\x00"
    assert read(b"", PacketType.PUBLISH) is NO_PROPERTIES
