"""The properties of MQTT 5.0: which packet may carry each, once or many times, and the bounds of its value."""

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from typing import Any, NamedTuple

import msgspec

from coldnotify_schemas.mqtt.errors import MalformedPacket, NotEncodable, ProtocolViolation
from coldnotify_schemas.mqtt.packet_kinds import PacketType, Side
from coldnotify_schemas.mqtt.primitives import (
    VARINT_MAX,
    Reader,
    binary_bytes,
    pair_bytes,
    text_bytes,
    varint_bytes,
)
from coldnotify_schemas.mqtt.reasons import ReasonCode


class Properties(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The properties of one packet, or of a will. None, or an empty tuple: absent. `_s` at a name's end: seconds."""

    payload_format: int | None = None
    """1: the payload is UTF-8. 0: unspecified."""
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    """A SUBSCRIBE has at most one; the PUBLISH of a server one for each subscription that it answers."""
    session_expiry_s: int | None = None
    """0xFFFFFFFF: never."""
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_s: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_max: int | None = None
    """The sender takes so many unacknowledged PUBLISH packets of QoS 1 and 2."""
    topic_alias_max: int | None = None
    topic_alias: int | None = None
    qos_max: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    """Pairs in their order; a name may come several times."""
    packet_bytes_max: int | None = None
    wildcards_available: bool | None = None
    subscription_ids_available: bool | None = None
    shared_available: bool | None = None


NO_PROPERTIES = Properties()
"""Shared by all packets without any."""


class ValueType(IntEnum):
    """The encodings of a property's value."""

    FLAG = auto()
    """One byte, 0 or 1, that means no or yes."""
    BYTE = auto()
    TWO_BYTES = auto()
    FOUR_BYTES = auto()
    VARINT = auto()
    """An integer of one to four bytes."""
    TEXT = auto()
    BINARY = auto()
    PAIR = auto()
    """Two texts."""


WILL = 0
"""The will of a CONNECT carries properties of its own; no packet has the type 0."""


class PropertyRule(NamedTuple):
    """One property."""

    id: int
    field: str
    """The name in `Properties`."""
    type: ValueType
    carriers: frozenset[int]
    """Types of packets, or WILL."""
    smallest: int = 0
    largest: int | None = None
    """None: what the type can hold."""
    many: bool = False


def _rule(
    number: int, field: str, type_: ValueType, carriers: str, smallest: int = 0, largest: int | None = None,
    many: bool = False,
) -> PropertyRule:  # fmt: skip
    found = frozenset(WILL if name == "WILL" else PacketType[name] for name in carriers.split())
    return PropertyRule(number, field, type_, found, smallest, largest, many)


_REASONED = "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"
_EVERY = f"{_REASONED} CONNECT WILL PUBLISH SUBSCRIBE UNSUBSCRIBE"
_T = ValueType

RULES = (
    _rule(1, "payload_format", _T.BYTE, "PUBLISH WILL", largest=1),
    _rule(2, "message_expiry_s", _T.FOUR_BYTES, "PUBLISH WILL"),
    _rule(3, "content_type", _T.TEXT, "PUBLISH WILL"),
    _rule(8, "response_topic", _T.TEXT, "PUBLISH WILL"),
    _rule(9, "correlation_data", _T.BINARY, "PUBLISH WILL"),
    _rule(11, "subscription_ids", _T.VARINT, "PUBLISH SUBSCRIBE", smallest=1, many=True),
    _rule(17, "session_expiry_s", _T.FOUR_BYTES, "CONNECT CONNACK DISCONNECT"),
    _rule(18, "assigned_client_id", _T.TEXT, "CONNACK"),
    _rule(19, "server_keep_alive_s", _T.TWO_BYTES, "CONNACK"),
    _rule(21, "authentication_method", _T.TEXT, "CONNECT CONNACK AUTH"),
    _rule(22, "authentication_data", _T.BINARY, "CONNECT CONNACK AUTH"),
    _rule(23, "request_problem_information", _T.FLAG, "CONNECT"),
    _rule(24, "will_delay_s", _T.FOUR_BYTES, "WILL"),
    _rule(25, "request_response_information", _T.FLAG, "CONNECT"),
    _rule(26, "response_information", _T.TEXT, "CONNACK"),
    _rule(28, "server_reference", _T.TEXT, "CONNACK DISCONNECT"),
    _rule(31, "reason_string", _T.TEXT, _REASONED),
    _rule(33, "receive_max", _T.TWO_BYTES, "CONNECT CONNACK", smallest=1),
    _rule(34, "topic_alias_max", _T.TWO_BYTES, "CONNECT CONNACK"),
    _rule(35, "topic_alias", _T.TWO_BYTES, "PUBLISH", smallest=1),
    _rule(36, "qos_max", _T.BYTE, "CONNACK", largest=1),
    _rule(37, "retain_available", _T.FLAG, "CONNACK"),
    _rule(38, "user_properties", _T.PAIR, _EVERY, many=True),
    _rule(39, "packet_bytes_max", _T.FOUR_BYTES, "CONNECT CONNACK", smallest=1),
    _rule(40, "wildcards_available", _T.FLAG, "CONNACK"),
    _rule(41, "subscription_ids_available", _T.FLAG, "CONNACK"),
    _rule(42, "shared_available", _T.FLAG, "CONNACK"),
)
"""All properties, in the order of their identifiers and of the fields of `Properties`."""

_BY_ID: Mapping[int, PropertyRule] = {rule.id: rule for rule in RULES}
_BY_FIELD: Mapping[str, PropertyRule] = {rule.field: rule for rule in RULES}
_LARGEST = {_T.BYTE: 0xFF, _T.TWO_BYTES: 0xFFFF, _T.FOUR_BYTES: 0xFFFF_FFFF, _T.VARINT: VARINT_MAX, _T.FLAG: 1}
_OF_ONE_SENDER: Mapping[str, Mapping[int, Side]] = {
    "subscription_ids": {PacketType.PUBLISH: Side.SERVER},  # [MQTT-3.3.4-6]
    "session_expiry_s": {PacketType.DISCONNECT: Side.CLIENT},  # [MQTT-3.14.2-2]
    "server_reference": {PacketType.DISCONNECT: Side.SERVER},
}
"""Properties that only one side may send in a packet that both send."""


def read_properties(reader: Reader, carrier: int, sender: Side) -> Properties:
    """Returns the properties at the reader's place. `carrier` is the packet's type, or WILL.

    Raises MalformedPacket where they cannot be read, ProtocolViolation where the standard forbids one.
    """
    length = reader.varint("property length")
    if not length:
        return NO_PROPERTIES
    end = reader.at + length
    if end > reader.end:
        raise MalformedPacket(f"property length: {length} bytes, but only {reader.end - reader.at} are left")
    values: dict[str, Any] = {}
    while reader.at < end:
        _read_one(reader, carrier, sender, values)
    if reader.at > end:
        raise MalformedPacket("property length: ends within a property")
    if "authentication_data" in values and "authentication_method" not in values:
        raise ProtocolViolation("authentication_data: comes without authentication_method")
    for name in ("user_properties", "subscription_ids"):
        if name in values:
            values[name] = tuple(values[name])
    return Properties(**values)


def _read_one(reader: Reader, carrier: int, sender: Side, values: dict[str, Any]) -> None:
    rule = _BY_ID.get(identifier := reader.varint("property identifier"))
    if rule is None:
        raise MalformedPacket(f"property identifier: {identifier} is not in the standard")
    if carrier not in rule.carriers:
        where = PacketType(carrier).name if carrier != WILL else "a will"
        raise ProtocolViolation(f"{rule.field}: {where} must not have it")
    if rule.field in _OF_ONE_SENDER and _OF_ONE_SENDER[rule.field].get(carrier, sender) is not sender:
        raise ProtocolViolation(f"{rule.field}: {PacketType(carrier).name} of a {sender.value} must not have it")
    value = _READ[rule.type](reader, rule.field)
    if rule.type in _LARGEST and (fault := _bounds_fault(rule, value)):
        # [MQTT-3.3.2-8] has a reason of its own.
        alias = rule.field == "topic_alias"
        raise ProtocolViolation(fault, ReasonCode.TOPIC_ALIAS_INVALID if alias else ReasonCode.PROTOCOL_ERROR)
    if rule.type is ValueType.FLAG:
        value = bool(value)
    if rule.field == "response_topic" and ("+" in value or "#" in value):
        raise ProtocolViolation("response_topic: has a wildcard [MQTT-3.3.2-14]")
    if rule.many and not (carrier == PacketType.SUBSCRIBE and rule.field == "subscription_ids"):
        values.setdefault(rule.field, []).append(value)
    elif rule.field in values:
        raise ProtocolViolation(f"{rule.field}: comes twice")
    else:
        values[rule.field] = [value] if rule.many else value


def _bounds_fault(rule: PropertyRule, value: int) -> str | None:
    largest = _LARGEST[rule.type] if rule.largest is None else rule.largest
    if rule.smallest <= value <= largest:
        return None
    return f"{rule.field}: is {value} ({rule.smallest} to {largest} are allowed)"


def property_bytes(properties: Properties, carrier: int) -> bytes:
    """Returns the properties behind their length. Raises NotEncodable."""
    if properties is NO_PROPERTIES or properties == NO_PROPERTIES:
        return b"\x00"
    parts: list[bytes] = []
    for rule, value in zip(RULES, msgspec.structs.astuple(properties), strict=True):
        if value is None or value == ():
            continue
        if carrier not in rule.carriers:
            where = PacketType(carrier).name if carrier != WILL else "a will"
            raise NotEncodable(f"{rule.field}: {where} must not have it")
        if carrier == PacketType.SUBSCRIBE and rule.field == "subscription_ids" and len(value) > 1:
            raise NotEncodable("subscription_ids: SUBSCRIBE has at most one")
        for one in value if rule.many else (value,):
            if rule.type in _LARGEST and (fault := _bounds_fault(rule, one)):
                raise NotEncodable(fault)
            parts.append(bytes((rule.id,)))
            parts.append(_WRITE[rule.type](one, rule.field))
    body = b"".join(parts)
    return varint_bytes(len(body)) + body


def one_property(field: str, value: object) -> bytes:
    """Returns one property as `property_bytes` encodes it, a single one of those that may come many times. Its bounds
    are not checked. Raises NotEncodable."""
    rule = _BY_FIELD[field]
    return bytes((rule.id,)) + _WRITE[rule.type](value, field)


_READ: Mapping[ValueType, Callable[[Reader, str], Any]] = {
    ValueType.FLAG: Reader.byte,
    ValueType.BYTE: Reader.byte,
    ValueType.TWO_BYTES: Reader.two_bytes,
    ValueType.FOUR_BYTES: Reader.four_bytes,
    ValueType.VARINT: Reader.varint,
    ValueType.TEXT: Reader.text,
    ValueType.BINARY: Reader.binary,
    ValueType.PAIR: Reader.pair,
}
_WRITE: Mapping[ValueType, Callable[[Any, str], bytes]] = {
    ValueType.FLAG: lambda value, field: b"\x01" if value else b"\x00",
    ValueType.BYTE: lambda value, field: bytes((value,)),
    ValueType.TWO_BYTES: lambda value, field: value.to_bytes(2, "big"),
    ValueType.FOUR_BYTES: lambda value, field: value.to_bytes(4, "big"),
    ValueType.VARINT: lambda value, field: varint_bytes(value),
    ValueType.TEXT: text_bytes,
    ValueType.BINARY: binary_bytes,
    ValueType.PAIR: pair_bytes,
}
