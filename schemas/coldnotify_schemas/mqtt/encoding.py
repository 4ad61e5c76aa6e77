"""Makes bytes of packets. What MQTT 3.1.1 cannot say of a packet is left out."""

from collections.abc import Callable, Mapping
from typing import Any

from coldnotify_schemas.mqtt.errors import NotEncodable
from coldnotify_schemas.mqtt.packet_kinds import FLAGS, PacketType, ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    PACKET_ID_MAX,
    Ack,
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
)
from coldnotify_schemas.mqtt.primitives import binary_bytes, text_bytes, varint_bytes
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, WILL, Properties, property_bytes
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode

_MQTT_5 = ProtocolVersion.MQTT_5
_DUP = 0x08


def encode(packet: Packet, protocol: ProtocolVersion) -> bytes:
    """Returns the packet's bytes. Raises NotEncodable, with the name of the field: a text is too long, an identifier is
    0, a packet carries a property that it must not; in MQTT 3.1.1 also AUTH, and a CONNACK without a ReturnCode.
    """
    return _ENCODERS[type(packet)](packet, protocol)


def with_dup(data: bytes) -> bytes:
    """Returns the bytes of a PUBLISH of QoS 1 or 2 with its DUP flag set: it is sent again."""
    return bytes((data[0] | _DUP,)) + data[1:]


def _framed(kind: PacketType, body: bytes, flags: int | None = None) -> bytes:
    return bytes((kind << 4 | (FLAGS[kind] if flags is None else flags),)) + varint_bytes(len(body)) + body


def _packet_id_bytes(packet_id: int | None) -> bytes:
    if packet_id is None or not 0 < packet_id <= PACKET_ID_MAX:
        raise NotEncodable(f"packet_id: is {packet_id} (1 to {PACKET_ID_MAX} are allowed)")
    return packet_id.to_bytes(2, "big")


def _property_bytes(properties: Properties, carrier: int, protocol: ProtocolVersion) -> bytes:
    return property_bytes(properties, carrier) if protocol is _MQTT_5 else b""


def _check_qos(qos: int, field: str = "qos") -> int:
    if not 0 <= qos <= 2:
        raise NotEncodable(f"{field}: is {qos} (0 to 2 are allowed)")
    return qos


def _publish(packet: Publish, protocol: ProtocolVersion) -> bytes:
    flags = packet.dup << 3 | _check_qos(packet.qos) << 1 | packet.retain
    body = _topic_bytes(packet.topic, "topic")
    if packet.qos:
        body += _packet_id_bytes(packet.packet_id)
    elif packet.packet_id is not None or packet.dup:
        raise NotEncodable("packet_id, dup: belong to QoS 1 and 2")
    if not packet.topic and (protocol is not _MQTT_5 or packet.properties.topic_alias is None):
        raise NotEncodable("topic: is empty, and no topic alias stands for it")
    body += _property_bytes(packet.properties, PacketType.PUBLISH, protocol)
    return _framed(PacketType.PUBLISH, body + packet.payload, flags)


def _topic_bytes(topic: str, field: str) -> bytes:
    if "+" in topic or "#" in topic:
        raise NotEncodable(f"{field}: {topic[:80]!r} has a wildcard")
    return text_bytes(topic, field)


def _connect(packet: Connect, protocol: ProtocolVersion) -> bytes:
    if packet.protocol is not protocol:
        raise NotEncodable(f"protocol: CONNECT says {packet.protocol}, its bytes are to be of {protocol}")
    flags = packet.clean_start << 1
    parts = [text_bytes(packet.client_id, "client_id")]
    if (will := packet.will) is not None:
        flags |= 4 | _check_qos(will.qos, "will.qos") << 3 | will.retain << 5
        if not will.topic:
            raise NotEncodable("will.topic: is empty")
        parts.append(_property_bytes(will.properties, WILL, protocol))
        parts += [_topic_bytes(will.topic, "will.topic"), binary_bytes(will.payload, "will.payload")]
    if packet.user_name is not None:
        flags |= 0x80
        parts.append(text_bytes(packet.user_name, "user_name"))
    if packet.password is not None:
        if packet.user_name is None and protocol is not _MQTT_5:
            raise NotEncodable("password: MQTT 3.1.1 has none without a user name")
        flags |= 0x40
        parts.append(binary_bytes(packet.password, "password"))
    if not 0 <= packet.keep_alive_s <= 0xFFFF:
        raise NotEncodable(f"keep_alive_s: is {packet.keep_alive_s} (0 to {0xFFFF} are allowed)")
    head = b"\x00\x04MQTT" + bytes((protocol, flags)) + packet.keep_alive_s.to_bytes(2, "big")
    properties = _property_bytes(packet.properties, PacketType.CONNECT, protocol)
    return _framed(PacketType.CONNECT, b"".join((head, properties, *parts)))


def _connack(packet: ConnAck, protocol: ProtocolVersion) -> bytes:
    if (protocol is _MQTT_5) is not isinstance(packet.reason, ReasonCode):
        wanted = ReasonCode if protocol is _MQTT_5 else ReturnCode
        raise NotEncodable(f"reason: is {packet.reason!r}, and not a {wanted.__name__}")
    if packet.session_present and packet.reason:
        raise NotEncodable("session_present: is set with an error")
    body = bytes((packet.session_present, packet.reason))
    return _framed(PacketType.CONNACK, body + _property_bytes(packet.properties, PacketType.CONNACK, protocol))


def _ack(kind: PacketType) -> Callable[[Ack, ProtocolVersion], bytes]:
    def encode_ack(packet: Ack, protocol: ProtocolVersion) -> bytes:
        body = _packet_id_bytes(packet.packet_id)
        return _framed(kind, body + _reason_and_properties(packet, kind, protocol))

    return encode_ack


def _reason_and_properties(packet: Ack | Disconnect | Auth, kind: PacketType, protocol: ProtocolVersion) -> bytes:
    """Returns nothing where there is nothing to say: what an old device expects, and what costs least."""
    if protocol is not _MQTT_5 or (not packet.reason and packet.properties == NO_PROPERTIES):
        return b""
    if packet.properties == NO_PROPERTIES:
        return bytes((packet.reason,))
    return bytes((packet.reason,)) + property_bytes(packet.properties, kind)


def _subscribe(packet: Subscribe, protocol: ProtocolVersion) -> bytes:
    if not packet.subscriptions:
        raise NotEncodable("subscriptions: there are none")
    parts = [
        _packet_id_bytes(packet.packet_id),
        _property_bytes(packet.properties, PacketType.SUBSCRIBE, protocol),
    ]
    for one in packet.subscriptions:
        parts.append(text_bytes(one.filter, "filter"))
        parts.append(bytes((_options(one) if protocol is _MQTT_5 else _check_qos(one.qos),)))
    return _framed(PacketType.SUBSCRIBE, b"".join(parts))


def _options(one: TopicSubscription) -> int:
    if not 0 <= one.retain_handling <= 2:
        raise NotEncodable(f"retain_handling: is {one.retain_handling} (0 to 2 are allowed)")
    if one.no_local and one.filter.startswith("$share/"):
        raise NotEncodable("no_local: a shared subscription must not have it")
    _check_qos(one.qos)
    return one.options


def _suback(packet: SubAck, protocol: ProtocolVersion) -> bytes:
    if not packet.reasons:
        raise NotEncodable("reasons: there are none")
    reasons = bytes(packet.reasons)
    if protocol is not _MQTT_5:
        reasons = bytes(min(reason, ReasonCode.UNSPECIFIED_ERROR) for reason in reasons)
    properties = _property_bytes(packet.properties, PacketType.SUBACK, protocol)
    return _framed(PacketType.SUBACK, _packet_id_bytes(packet.packet_id) + properties + reasons)


def _unsubscribe(packet: Unsubscribe, protocol: ProtocolVersion) -> bytes:
    if not packet.filters:
        raise NotEncodable("filters: there are none")
    parts = [
        _packet_id_bytes(packet.packet_id),
        _property_bytes(packet.properties, PacketType.UNSUBSCRIBE, protocol),
        *(text_bytes(one, "filter") for one in packet.filters),
    ]
    return _framed(PacketType.UNSUBSCRIBE, b"".join(parts))


def _unsuback(packet: UnsubAck, protocol: ProtocolVersion) -> bytes:
    body = _packet_id_bytes(packet.packet_id)
    if protocol is _MQTT_5:
        if not packet.reasons:
            raise NotEncodable("reasons: there are none")
        body += property_bytes(packet.properties, PacketType.UNSUBACK) + bytes(packet.reasons)
    return _framed(PacketType.UNSUBACK, body)


def _disconnect(packet: Disconnect, protocol: ProtocolVersion) -> bytes:
    return _framed(PacketType.DISCONNECT, _reason_and_properties(packet, PacketType.DISCONNECT, protocol))


def _auth(packet: Auth, protocol: ProtocolVersion) -> bytes:
    if protocol is not _MQTT_5:
        raise NotEncodable("AUTH: MQTT 3.1.1 does not have it")
    return _framed(PacketType.AUTH, _reason_and_properties(packet, PacketType.AUTH, protocol))


_PINGREQ, _PINGRESP = b"\xc0\x00", b"\xd0\x00"
_ENCODERS: Mapping[type, Callable[[Any, ProtocolVersion], bytes]] = {
    Connect: _connect,
    ConnAck: _connack,
    Publish: _publish,
    PubAck: _ack(PacketType.PUBACK),
    PubRec: _ack(PacketType.PUBREC),
    PubRel: _ack(PacketType.PUBREL),
    PubComp: _ack(PacketType.PUBCOMP),
    Subscribe: _subscribe,
    SubAck: _suback,
    Unsubscribe: _unsubscribe,
    UnsubAck: _unsuback,
    PingReq: lambda packet, protocol: _PINGREQ,
    PingResp: lambda packet, protocol: _PINGRESP,
    Disconnect: _disconnect,
    Auth: _auth,
}
