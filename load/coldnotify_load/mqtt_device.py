"""A device that speaks MQTT 3.1.1: a persistent session, retained messages. Pure."""

import struct

from coldnotify_load.marks import Stamp, stamp_of
from coldnotify_load.population import Population

_CONNACK, _PUBLISH, _PUBACK, _SUBACK = 2, 3, 4, 9
PINGREQ = b"\xc0\x00"
_TOPICS_A_SUBSCRIBE = 64


def packet(first: int, body: bytes) -> bytes:
    """A control packet: its first byte, the remaining length as a varint, the body."""
    length, encoded = len(body), bytearray()
    while True:
        digit, length = length & 0x7F, length >> 7
        encoded.append(digit | (0x80 if length else 0))
        if not length:
            return bytes((first,)) + bytes(encoded) + body


def text(value: str) -> bytes:
    """A string with its length before it."""
    data = value.encode()
    return struct.pack("!H", len(data)) + data


def topic(population: Population, block: int, number: int) -> str:
    """The topic of an object."""
    return f"{population.domain}/{population.group(block)}/{population.object(block, number)}"


def connect(client: str, *, clean: bool, token: str = "") -> bytes:
    """CONNECT without keepalive. The token is the password, of a user without a name."""
    flags = (0x02 if clean else 0) | (0xC0 if token else 0)
    identity = text("") + text(token) if token else b""
    return packet(0x10, text("MQTT") + bytes((4, flags)) + b"\x00\x00" + text(client) + identity)


def publish(topic_: str, payload: bytes, packet_id: int, *, retain: bool) -> bytes:
    """PUBLISH with QoS 1."""
    return packet(0x32 | retain, text(topic_) + struct.pack("!H", packet_id) + payload)


def cut(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Returns the whole packets of a stream as (first byte, body), and the rest."""
    packets: list[tuple[int, bytes]] = []
    start = 0
    while True:
        length, shift, at = 0, 0, start + 1
        while at < len(data):
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                break
        else:
            return packets, data[start:]
        if len(data) < at + length:
            return packets, data[start:]
        packets.append((data[start], data[at : at + length]))
        start = at + length


class MqttDevice:
    """Subscribes once; afterwards the broker knows it by its client id. One without that memory subscribes again."""

    __slots__ = ("_buffer", "_number", "_population", "_subscribed", "_unanswered", "closed", "ready")
    qos = 1
    """The QoS of its subscription."""

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._buffer = b""
        self._subscribed = False
        self._unanswered = 0
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """CONNECT to the session that the broker kept."""
        self._buffer, self.ready, self.closed = b"", False, ""
        return connect(self.client_id(), clean=False, token=self._population.token)

    def client_id(self) -> str:
        """Returns its client identifier."""
        return self._population.client(self._number)

    def topics(self) -> list[str]:
        """Returns the topics that it subscribes to."""
        block = self._population.block_of(self._number)
        return [topic(self._population, block, n) for n in range(self._population.registrations)]

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """See Device. Every PUBLISH is acknowledged at once."""
        packets, self._buffer = cut(self._buffer + data if self._buffer else data)
        reply, stamps = b"", []
        for first, body in packets:
            kind = first >> 4
            if kind == _PUBLISH:
                at = 2 + (body[0] << 8 | body[1])
                if first & 0x06:
                    reply += b"\x40\x02" + body[at : at + 2]
                    at += 2
                if (stamp := stamp_of(body[at:])) is not None:
                    stamps.append(stamp)
            elif kind == _CONNACK:
                if body[1]:
                    self.closed = f"CONNACK {body[1]}"
                elif body[0] & 1 and self._subscribed:
                    self.ready = True
                else:
                    reply += self._subscribe()
            elif kind == _SUBACK:
                self._unanswered -= 1
                self.ready = self._subscribed = not self._unanswered
        return reply, tuple(stamps)

    def tick(self) -> bytes:
        """Nothing: acknowledgements are not delayed."""
        return b""

    def ping(self) -> bytes:
        """See Device."""
        return PINGREQ

    def _subscribe(self) -> bytes:
        topics = self.topics()
        packets = b""
        self._unanswered = 0
        for at in range(0, len(topics), _TOPICS_A_SUBSCRIBE):
            self._unanswered += 1
            filters = b"".join(text(one) + bytes((self.qos,)) for one in topics[at : at + _TOPICS_A_SUBSCRIBE])
            packets += packet(0x82, struct.pack("!H", self._unanswered) + filters)
        return packets


class MqttDevice0(MqttDevice):
    """Likewise, with QoS 0."""

    __slots__ = ()
    qos = 0


class MqttToColdNotify(MqttDevice):
    """A device of a gateway: its client identifier says domain and group, its topics are names in them."""

    __slots__ = ()

    def client_id(self) -> str:
        """See MqttDevice."""
        population = self._population
        group = population.group(population.block_of(self._number))
        return f"{population.domain}/{group}/{population.client(self._number)}"

    def topics(self) -> list[str]:
        """See MqttDevice."""
        return list(self._population.objects(self._population.block_of(self._number)))


class MqttToColdNotify0(MqttToColdNotify):
    """Likewise, with QoS 0."""

    __slots__ = ()
    qos = 0
