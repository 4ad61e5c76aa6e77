"""Makes packets of bytes: `PacketBuffer` cuts a stream of bytes, `parse_packet` reads one packet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from coldnotify_schemas.filters import no_local_in, qos_in, retain_as_published_in, retain_handling_in
from coldnotify_schemas.mqtt.errors import (
    MalformedPacket,
    MqttError,
    PacketTooLarge,
    ProtocolViolation,
    UnsupportedProtocol,
)
from coldnotify_schemas.mqtt.packet_kinds import FLAGS, SENT_BY, PacketType, ProtocolVersion, Side
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
from coldnotify_schemas.mqtt.primitives import Reader
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, WILL, Properties, read_properties
from coldnotify_schemas.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    PUBACK_REASONS,
    PUBREL_REASONS,
    SUBACK_REASONS,
    SUBACK_REASONS_3_1_1,
    UNSUBACK_REASONS,
    ReasonCode,
    Reasons,
    ReturnCode,
)

_NAME, _NAME_OF_3_1 = b"MQTT", b"MQIsdp"
_HEADER_BYTES_MAX = 5
_LENGTH_MIN = {2: 0, 3: 1 << 7, 4: 1 << 14, 5: 1 << 21}
"""The lowest remaining length that needs a header of so many bytes."""
_MQTT_5 = ProtocolVersion.MQTT_5


class PacketBuffer:
    """Cuts a stream of bytes into packets: `for packet in buffer.feed(data)`.

    Raises MqttError where the bytes cannot be taken, behind the packets before them, and from then on. Who stops within
    the loop goes on by `for packet in buffer`. The buffer holds what it was fed and has not given: at most one packet
    that is not whole (`bytes_max`), and the last chunk. Once all is given it holds nothing: a gateway has one for each
    of its many idle connections.
    """

    __slots__ = ("_bytes_max", "_data", "_fault", "_first_bytes", "_needed", "_protocol", "_sender", "_start")

    def __init__(self, bytes_max: int, protocol: ProtocolVersion | None = None, sender: Side = Side.CLIENT) -> None:
        """`bytes_max`: of one packet with its header. `protocol`: None is a server's, whose client says it: the first
        packet must be a CONNECT [MQTT-3.1.0-1], and no other one [MQTT-3.1.0-2]. `sender`: who sends these bytes.
        """
        if protocol is None and sender is Side.SERVER:
            raise ValueError("protocol: a client knows it, as it has said it")
        self._bytes_max = bytes_max
        self._protocol = protocol
        self._sender = sender
        self._first_bytes = _FIRST_BYTES[protocol, sender]
        self._data: bytes | bytearray = b""
        self._start = 0
        self._needed = 0
        """So many bytes must be there before it is worth looking at them."""
        self._fault: MqttError | None = None

    @property
    def protocol(self) -> ProtocolVersion | None:
        """The version that is spoken; None: no CONNECT has come yet."""
        return self._protocol

    def __len__(self) -> int:
        """Bytes that were fed and not given."""
        return len(self._data) - self._start

    def take_at_most(self, bytes_max: int) -> None:
        """Sets the bound of the packets that follow: who has connected may be trusted with more."""
        self._bytes_max = bytes_max

    def feed(self, data: bytes) -> Self:
        """Takes the next bytes of the stream, and returns itself, to iterate over."""
        if self._start == len(self._data):
            self._data, self._start = data, 0
        else:
            if not isinstance(self._data, bytearray):
                self._data = bytearray(memoryview(self._data)[self._start :])
            elif self._start:
                del self._data[: self._start]
            self._start = 0
            self._data += data
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Packet:
        if self._fault is not None:
            raise self._fault
        if len(self) < self._needed:
            raise StopIteration
        try:
            packet = self._next()
        except MqttError as fault:
            self._fault = fault
            self._data, self._start = b"", 0
            raise
        if packet is None:
            raise StopIteration
        return packet

    def _next(self) -> Packet | None:
        data, start = self._data, self._start
        if start == len(data):
            self._data, self._start = b"", 0
            return None
        if data[start] not in self._first_bytes:
            _check_first(data[start], self._protocol, self._sender)
        header = _header(data, start)
        if header is None:
            return None
        width, length = header
        total = width + length
        if total > self._bytes_max:
            raise PacketTooLarge(f"packet: has {total} bytes (at most {self._bytes_max} are taken)")
        end = start + total
        if end > len(data):
            self._needed = total
            return None
        packet = self._parse(data[start], bytes(data[start + width : end]))
        if length < _LENGTH_MIN[width] and self._protocol is _MQTT_5:  # 3.1.1 does not forbid it
            raise MalformedPacket("remaining length: has more bytes than it needs [MQTT-1.5.5-1]")
        self._needed = 0
        if end == len(data):
            self._data, self._start = b"", 0
        else:
            self._start = end
        return packet

    def _parse(self, first: int, body: bytes) -> Packet:
        if self._protocol is not None:
            return parse_packet(first, body, self._protocol, self._sender)
        connect = _connect(Reader(body), self._sender)
        self._protocol = connect.protocol
        self._first_bytes = _FIRST_BYTES[connect.protocol, self._sender]
        return connect


def bare_pubacks(data: bytes) -> Sequence[int]:
    """Returns the packet identifiers, if these bytes are whole PUBACKs without reason; none: `feed` them.

    Every client that is told something sends one for each message. Ask only if the buffer is empty.
    """
    if len(data) == 4:  # the usual case
        packet_id = data[2] << 8 | data[3]
        return (packet_id,) if data[0] == 0x40 and data[1] == 2 and packet_id else ()
    count = len(data) >> 2
    if len(data) & 3 or data[::4] != b"\x40" * count or data[1::4] != b"\x02" * count:
        return ()
    found = [high << 8 | low for high, low in zip(data[2::4], data[3::4], strict=True)]
    return found if all(found) else ()


def _header(data: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """Returns how many bytes a packet's header has, and how many follow it; None: the header is not whole."""
    length = shift = 0
    for at in range(start + 1, min(start + _HEADER_BYTES_MAX, len(data))):
        byte = data[at]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + 1 - start, length
        shift += 7
    if shift == 7 * (_HEADER_BYTES_MAX - 1):
        raise MalformedPacket("remaining length: has more than four bytes")
    return None


def _check_first(first: int, protocol: ProtocolVersion | None, sender: Side) -> None:
    """Checks a packet's first byte, before its other bytes are there."""
    kind = first >> 4
    if not kind:
        raise MalformedPacket("packet: its type is 0, which is reserved")
    name = PacketType(kind).name
    if protocol is None and kind != PacketType.CONNECT:
        raise ProtocolViolation(f"packet: the first one is {name}, and not CONNECT")
    if protocol is not None and kind == PacketType.CONNECT and sender is Side.CLIENT:
        raise ProtocolViolation("packet: CONNECT comes twice on one connection")
    if kind not in SENT_BY[sender] or (protocol is ProtocolVersion.MQTT_3_1_1 and not _is_of_3_1_1(kind, sender)):
        raise ProtocolViolation(f"packet: a {sender.value} must not send {name}")
    if kind != PacketType.PUBLISH and first & 0x0F != FLAGS[kind]:
        raise MalformedPacket(f"flags: {name} has {first & 0x0F:#06b}, and not {FLAGS[kind]:#06b}")


def _is_of_3_1_1(kind: int, sender: Side) -> bool:
    return kind != PacketType.AUTH and (kind != PacketType.DISCONNECT or sender is Side.CLIENT)


def _is_good_first(first: int, protocol: ProtocolVersion | None, sender: Side) -> bool:
    try:
        _check_first(first, protocol, sender)
    except MqttError:
        return False
    return True


_FIRST_BYTES: Mapping[tuple[ProtocolVersion | None, Side], frozenset[int]] = {
    (protocol, sender): frozenset(first for first in range(256) if _is_good_first(first, protocol, sender))
    for protocol in (None, *ProtocolVersion)
    for sender in Side
}
"""First bytes without a fault."""


def parse_packet(first: int, body: bytes, protocol: ProtocolVersion, sender: Side) -> Packet:
    """Returns the packet with this first byte, whose flags were checked, and this body, without the header's length.

    Raises MqttError.
    """
    kind = first >> 4
    reader = Reader(body)
    if kind == PacketType.PUBLISH:
        return _publish(first, reader, protocol, sender)
    if kind == PacketType.CONNECT:
        return _connect(reader, sender)
    return _PARSERS[kind](reader, protocol, sender)


def _publish(first: int, reader: Reader, protocol: ProtocolVersion, sender: Side) -> Publish:
    qos = first >> 1 & 3
    dup = bool(first & 8)
    if qos == 3:
        raise MalformedPacket("qos: is 3 [MQTT-3.3.1-4]")
    if dup and not qos:
        raise MalformedPacket("dup: is set, and the QoS is 0 [MQTT-3.3.1-2]")
    topic = _topic_name(reader, "topic")
    packet_id = _packet_id(reader) if qos else None
    properties = NO_PROPERTIES
    if protocol is _MQTT_5:
        properties = read_properties(reader, PacketType.PUBLISH, sender)
    if not topic and properties.topic_alias is None:
        raise ProtocolViolation("topic: is empty, without a topic alias [MQTT-4.7.3-1]")
    return Publish(topic, reader.rest(), qos, bool(first & 1), dup, packet_id, properties)


def _topic_name(reader: Reader, field: str) -> str:
    topic = reader.text(field)
    if "+" in topic or "#" in topic:
        raise MalformedPacket(f"{field}: {topic[:80]!r} has a wildcard [MQTT-3.3.2-2]")
    return topic


def _packet_id(reader: Reader) -> int:
    packet_id = reader.two_bytes("packet identifier")
    if not packet_id:
        raise ProtocolViolation("packet identifier: is 0 [MQTT-2.2.1-3]")
    return packet_id


def _connect(reader: Reader, sender: Side) -> Connect:
    protocol = _protocol(reader)
    flags = reader.byte("connect flags")
    if flags & 1:
        raise MalformedPacket("connect flags: the reserved one is set [MQTT-3.1.2-3]")
    has_will, will_qos, will_retain = flags & 4, flags >> 3 & 3, bool(flags & 0x20)
    has_user_name, has_password = flags & 0x80, flags & 0x40
    if will_qos == 3:
        raise MalformedPacket("will qos: is 3 [MQTT-3.1.2-12]")
    if not has_will and (will_qos or will_retain):
        raise MalformedPacket("will flag: is not set, but its QoS or its retain is [MQTT-3.1.2-11] [MQTT-3.1.2-13]")
    if has_password and not has_user_name and protocol is not _MQTT_5:
        raise MalformedPacket("password: is there without a user name [MQTT-3.1.2-22 of 3.1.1]")
    keep_alive_s = reader.two_bytes("keep alive")
    properties = will_properties = NO_PROPERTIES
    if protocol is _MQTT_5:
        properties = read_properties(reader, PacketType.CONNECT, sender)
    client_id = reader.text("client identifier")
    will = None
    if has_will:
        if protocol is _MQTT_5:
            will_properties = read_properties(reader, WILL, sender)
        topic = _topic_name(reader, "will topic")
        if not topic:
            raise ProtocolViolation("will topic: is empty [MQTT-4.7.3-1]")
        will = Will(topic, reader.binary("will payload"), will_qos, will_retain, will_properties)
    user_name = reader.text("user name") if has_user_name else None
    password = reader.binary("password") if has_password else None
    reader.finish()
    return Connect(protocol, client_id, bool(flags & 2), keep_alive_s, user_name, password, will, properties)


def _protocol(reader: Reader) -> ProtocolVersion:
    name = reader.binary("protocol name")
    level = reader.byte("protocol version")
    if name == _NAME and level in _VERSIONS:
        return _VERSIONS[level]
    answered_in = None
    if name in (_NAME, _NAME_OF_3_1):
        answered_in = _MQTT_5 if name == _NAME and level > _MQTT_5 else ProtocolVersion.MQTT_3_1_1
    raise UnsupportedProtocol(name, level, answered_in)


_VERSIONS: Mapping[int, ProtocolVersion] = {version.value: version for version in ProtocolVersion}


def _connack(reader: Reader, protocol: ProtocolVersion, sender: Side) -> ConnAck:
    flags = reader.byte("acknowledge flags")
    if flags > 1:
        raise MalformedPacket("acknowledge flags: a reserved one is set [MQTT-3.2.2-1]")
    reason: ReasonCode | ReturnCode
    properties = NO_PROPERTIES
    if protocol is _MQTT_5:
        reason = _reason(reader, CONNACK_REASONS)
        properties = read_properties(reader, PacketType.CONNACK, sender)
    else:
        code = reader.byte("return code")
        if code > max(ReturnCode):
            raise MalformedPacket(f"return code: is {code}, which is reserved")
        reason = ReturnCode(code)
    if flags and reason:
        raise ProtocolViolation("session present: is set with an error [MQTT-3.2.2-6]")
    reader.finish()
    return ConnAck(bool(flags), reason, properties)


def _reason(reader: Reader, reasons: Reasons) -> ReasonCode:
    number = reader.byte("reason code")
    reason = reasons.get(number)
    if reason is None:
        raise ProtocolViolation(f"reason code: is {number:#04x}, which this packet must not have")
    return reason


def _ack(
    make: Callable[[int, ReasonCode, Properties], Packet], kind: PacketType, reasons: Reasons
) -> Callable[[Reader, ProtocolVersion, Side], Packet]:
    def parse(reader: Reader, protocol: ProtocolVersion, sender: Side) -> Packet:
        packet_id = _packet_id(reader)
        reason, properties = ReasonCode.SUCCESS, NO_PROPERTIES
        if protocol is _MQTT_5:
            reason, properties = _reason_and_properties(reader, kind, sender, reasons)
        reader.finish()
        return make(packet_id, reason, properties)

    return parse


def _reason_and_properties(
    reader: Reader, kind: PacketType, sender: Side, reasons: Reasons
) -> tuple[ReasonCode, Properties]:
    """Reads both. A sender may leave out the properties, or both, if there is nothing to say."""
    if reader.at == reader.end and ReasonCode.SUCCESS in reasons:
        return ReasonCode.SUCCESS, NO_PROPERTIES
    reason = _reason(reader, reasons)
    if reader.at == reader.end:
        return reason, NO_PROPERTIES
    return reason, read_properties(reader, kind, sender)


def _subscribe(reader: Reader, protocol: ProtocolVersion, sender: Side) -> Subscribe:
    packet_id = _packet_id(reader)
    is_5 = protocol is _MQTT_5
    properties = read_properties(reader, PacketType.SUBSCRIBE, sender) if is_5 else NO_PROPERTIES
    subscriptions = []
    while reader.at < reader.end:
        filter_ = reader.text("topic filter")
        options = reader.byte("subscription options")
        subscriptions.append(_subscription(filter_, options) if is_5 else _subscription_3_1_1(filter_, options))
    if not subscriptions:
        raise ProtocolViolation("topic filters: there are none [MQTT-3.8.3-2]")
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _subscription(filter_: str, options: int) -> TopicSubscription:
    if options & 0xC0:
        raise MalformedPacket("subscription options: a reserved bit is set [MQTT-3.8.3-5]")
    qos, retain_handling, no_local = qos_in(options), retain_handling_in(options), no_local_in(options)
    if qos == 3:
        raise ProtocolViolation("subscription options: the QoS is 3")
    if retain_handling == 3:
        raise ProtocolViolation("subscription options: retain handling is 3")
    if no_local and filter_.startswith("$share/"):
        raise ProtocolViolation("subscription options: a shared subscription has No Local [MQTT-3.8.3-4]")
    return TopicSubscription(filter_, qos, no_local, retain_as_published_in(options), retain_handling)


def _subscription_3_1_1(filter_: str, options: int) -> TopicSubscription:
    if options > 2:
        raise MalformedPacket("requested qos: is above 2, or a reserved bit is set [MQTT-3-8.3-4 of 3.1.1]")
    return TopicSubscription(filter_, options)


def _suback(reader: Reader, protocol: ProtocolVersion, sender: Side) -> SubAck:
    packet_id = _packet_id(reader)
    properties = NO_PROPERTIES
    if protocol is _MQTT_5:
        properties = read_properties(reader, PacketType.SUBACK, sender)
    reasons = _all_reasons(reader, SUBACK_REASONS if protocol is _MQTT_5 else SUBACK_REASONS_3_1_1)
    return SubAck(packet_id, reasons, properties)


def _all_reasons(reader: Reader, allowed: Reasons) -> tuple[ReasonCode, ...]:
    reasons = []
    while reader.at < reader.end:
        reasons.append(_reason(reader, allowed))
    if not reasons:
        raise ProtocolViolation("reason codes: there are none")
    return tuple(reasons)


def _unsubscribe(reader: Reader, protocol: ProtocolVersion, sender: Side) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = NO_PROPERTIES
    if protocol is _MQTT_5:
        properties = read_properties(reader, PacketType.UNSUBSCRIBE, sender)
    filters = []
    while reader.at < reader.end:
        filters.append(reader.text("topic filter"))
    if not filters:
        raise ProtocolViolation("topic filters: there are none [MQTT-3.10.3-2]")
    return Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(reader: Reader, protocol: ProtocolVersion, sender: Side) -> UnsubAck:
    packet_id = _packet_id(reader)
    if protocol is not _MQTT_5:
        reader.finish()
        return UnsubAck(packet_id)
    properties = read_properties(reader, PacketType.UNSUBACK, sender)
    return UnsubAck(packet_id, _all_reasons(reader, UNSUBACK_REASONS), properties)


def _pingreq(reader: Reader, protocol: ProtocolVersion, sender: Side) -> PingReq:
    reader.finish()
    return _PINGREQ


def _pingresp(reader: Reader, protocol: ProtocolVersion, sender: Side) -> PingResp:
    reader.finish()
    return _PINGRESP


_PINGREQ, _PINGRESP = PingReq(), PingResp()


def _disconnect(reader: Reader, protocol: ProtocolVersion, sender: Side) -> Disconnect:
    reason, properties = ReasonCode.SUCCESS, NO_PROPERTIES
    if protocol is _MQTT_5:
        kind = PacketType.DISCONNECT
        reason, properties = _reason_and_properties(reader, kind, sender, DISCONNECT_REASONS[sender])
    reader.finish()
    return Disconnect(reason, properties)


def _auth(reader: Reader, protocol: ProtocolVersion, sender: Side) -> Auth:
    reason, properties = _reason_and_properties(reader, PacketType.AUTH, sender, AUTH_REASONS[sender])
    reader.finish()
    return Auth(reason, properties)


_PARSERS: Mapping[int, Callable[[Reader, ProtocolVersion, Side], Packet]] = {
    PacketType.CONNACK: _connack,
    PacketType.PUBACK: _ack(PubAck, PacketType.PUBACK, PUBACK_REASONS),
    PacketType.PUBREC: _ack(PubRec, PacketType.PUBREC, PUBACK_REASONS),
    PacketType.PUBREL: _ack(PubRel, PacketType.PUBREL, PUBREL_REASONS),
    PacketType.PUBCOMP: _ack(PubComp, PacketType.PUBCOMP, PUBREL_REASONS),
    PacketType.SUBSCRIBE: _subscribe,
    PacketType.SUBACK: _suback,
    PacketType.UNSUBSCRIBE: _unsubscribe,
    PacketType.UNSUBACK: _unsuback,
    PacketType.PINGREQ: _pingreq,
    PacketType.PINGRESP: _pingresp,
    PacketType.DISCONNECT: _disconnect,
    PacketType.AUTH: _auth,
}
