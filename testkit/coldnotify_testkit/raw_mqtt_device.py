"""An MQTT device without a library: the codec, and a history of all that it says and is told. No I/O.

`RawMqttDevice` holds one session over many connections. Lines of its history are written before the bytes that they are
about leave, so that a crash at any moment leaves a history that says no less than was sent. `RawMqttLink` connects it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from coldnotify_checker.histories import (
    Event,
    MqttAcknowledge,
    MqttConnect,
    MqttConnected,
    MqttDisconnected,
    MqttFilter,
    MqttPong,
    MqttPublish,
    MqttPublished,
    MqttSubscribe,
    MqttSubscribed,
    MqttTold,
    MqttUnsubscribe,
    MqttWill,
    now_us,
)
from coldnotify_cli.noting import message_payload
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.errors import MqttError
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    PACKET_ID_MAX,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicSubscription,
    Unsubscribe,
    Will,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties

FOR_EVER_S = 0xFFFF_FFFF
_PACKET_BYTES_MAX = 1024 * 1024
_VERSION, _OFFSET, _MISSED = "coldnotify-version", "coldnotify-offset", "coldnotify-missed"


@dataclass(frozen=True)
class MqttManner:
    """The way in which a device connects."""

    protocol: ProtocolVersion = ProtocolVersion.MQTT_5
    clean: bool = False
    """Every connection begins a session of its own."""
    expiry_s: int = FOR_EVER_S
    """5.0: how long its session outlives a connection. 3.1.1 has it for ever, or with a clean session not at all."""
    keep_alive_s: int = 60
    packet_bytes_max: int | None = None
    """5.0 alone."""
    receive_max: int | None = None
    """5.0 alone."""
    client_id: str | None = None
    """None: domain/group/client."""
    password: bytes | None = None
    """The token."""
    will: Will | None = None


@dataclass(slots=True)
class _Sent:
    """A PUBLISH of QoS 1 that waits for its PUBACK."""

    packet: Publish
    id: int
    """The id of its line."""


@dataclass(slots=True)
class _Waiting:
    """All that waits for an answer in a connection."""

    subscribes: dict[int, int] = field(default_factory=dict)
    """By packet identifier: the id of the line."""
    pings: list[int] = field(default_factory=list)
    """When each PINGREQ was sent; Unix time in microseconds."""


class RawMqttDevice:
    """The device's side: bytes in, bytes out, lines of a history. `over` says why its connection has to be closed."""

    def __init__(
        self,
        client: str,
        write: Callable[[Event], None],
        manner: MqttManner = MqttManner(),
        *,
        first_id: int | None = None,
        now: Callable[[], int] = now_us,
    ) -> None:
        """`client` is domain/group/client. `write` takes the lines of its history. `first_id`: of its lines; None: the
        time in microseconds, so that a process that follows another one repeats none. `now` returns that time.
        """
        self.client = client
        self.manner = manner
        self.over: str | None = None
        self.connected = False
        """A CONNACK has let it in."""
        self.present = False
        """That one said that its session was there."""
        self.filters: dict[str, int] = {}
        """By filter, the QoS that was granted."""
        self.pongs = 0
        """PINGRESPs of this connection."""
        self.told: list[Publish] = []
        """All that it was told."""
        self.acknowledges = True
        """Set to False, it acknowledges nothing, until `acknowledge_all`."""
        self._write = write
        self._now = now
        self._id = now() if first_id is None else first_id
        self._packet_id = 0
        self._out = bytearray()
        self._packets = PacketBuffer(_PACKET_BYTES_MAX, manner.protocol, Side.SERVER)
        self._waiting = _Waiting()
        self._asked: dict[int, tuple[TopicSubscription, ...]] = {}
        self._sent: dict[int, _Sent] = {}
        """By packet identifier; kept from one connection to the next."""
        self._unacknowledged: list[int] = []

    @property
    def unanswered(self) -> int:
        """Returns how many PUBLISH and SUBSCRIBE packets wait for their answers."""
        return len(self._sent) + len(self._waiting.subscribes)

    @property
    def pinged(self) -> int | None:
        """Returns when the first PINGREQ without its PINGRESP was sent; Unix time in microseconds."""
        return self._waiting.pings[0] if self._waiting.pings else None

    # --- what it does

    def connect(self, *, clean: bool = False) -> None:
        """Begins a connection: sends CONNECT."""
        manner = self.manner
        clean = clean or manner.clean
        is_5 = manner.protocol is ProtocolVersion.MQTT_5
        expiry_s = manner.expiry_s if is_5 else 0 if clean else FOR_EVER_S
        self._out.clear()
        self._packets = PacketBuffer(manner.packet_bytes_max or _PACKET_BYTES_MAX, manner.protocol, Side.SERVER)
        self._waiting = _Waiting()
        self._asked.clear()
        self._unacknowledged.clear()
        self.over, self.connected, self.pongs = None, False, 0
        if clean:
            self._sent.clear()
        properties = NO_PROPERTIES
        if is_5:
            properties = Properties(
                session_expiry_s=expiry_s, receive_max=manner.receive_max, packet_bytes_max=manner.packet_bytes_max
            )
        self._write(
            MqttConnect(
                t=self._now(),
                client=self.client,
                protocol=5 if is_5 else 4,
                clean=clean,
                expiry_s=expiry_s,
                packet_bytes_max=manner.packet_bytes_max,
                will=_as_line(manner.will),
            )
        )
        self._send(
            Connect(
                manner.protocol,
                self.client if manner.client_id is None else manner.client_id,
                clean,
                manner.keep_alive_s,
                # 3.1.1 has no password without a user name.
                "device" if manner.password is not None else None,
                manner.password,
                manner.will,
                properties,
            )
        )

    def subscribe(self, *filters: TopicSubscription) -> None:
        """Sends SUBSCRIBE."""
        packet_id, id_ = self._next_packet_id(), self._next_id()
        asked = [
            MqttFilter(
                filter=one.filter,
                qos=one.qos,
                no_local=one.no_local,
                retain_as_published=one.retain_as_published,
                retain_handling=one.retain_handling,
            )
            for one in filters
        ]
        self._write(MqttSubscribe(t=self._now(), client=self.client, id=id_, filters=asked))
        self._waiting.subscribes[packet_id] = id_
        self._asked[packet_id] = filters
        self._send(Subscribe(packet_id, filters))

    def unsubscribe(self, *filters: str) -> None:
        """Sends UNSUBSCRIBE."""
        self._write(MqttUnsubscribe(t=self._now(), client=self.client, filters=list(filters)))
        for text in filters:
            self.filters.pop(text, None)
        self._send(Unsubscribe(self._next_packet_id(), filters))

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Sends PUBLISH of QoS 0 or 1. One without its PUBACK is sent again in the next connection of the session."""
        packet = Publish(topic, payload, qos, retain, packet_id=self._next_packet_id() if qos else None)
        self._say_publish(packet)

    def ping(self) -> None:
        """Sends PINGREQ."""
        self._waiting.pings.append(self._now())
        self._send(PingReq())

    def acknowledge_all(self) -> None:
        """Acknowledges all that was withheld, in its order, and everything from now on."""
        self.acknowledges = True
        for packet_id in self._unacknowledged:
            self._acknowledge(packet_id)
        self._unacknowledged.clear()

    def sleep(self) -> None:
        """Sends DISCONNECT: what comes behind it is not heard."""
        if self.over is None and self.connected:
            self._send(Disconnect())
        self.ended("device")

    def ended(self, by: Literal["device", "crash", "service"], reason: str = "") -> None:
        """The connection is over, or will be at once."""
        if self.over is None:
            self._write(MqttDisconnected(t=self._now(), client=self.client, by=by, reason=reason))
        self.over, self.connected = self.over or reason or by, False
        self._unacknowledged.clear()
        self.pongs = 0

    # --- bytes

    def bytes_to_send(self) -> bytes:
        """Returns the bytes to send now."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> None:
        """Takes bytes of the service."""
        try:
            for packet in self._packets.feed(data):
                if self.over is not None:
                    return
                self._take(packet)
        except MqttError as error:
            self.ended("service", f"it said what is not MQTT: {error}")

    def _take(self, packet: Packet) -> None:
        match packet:
            case ConnAck():
                self._on_connack(packet)
            case Publish():
                self._on_publish(packet)
            case PubAck():
                sent = self._sent.pop(packet.packet_id, None)
                if sent is not None:
                    self._write(MqttPublished(t=self._now(), client=self.client, id=sent.id, code=packet.reason))
            case SubAck():
                self._on_suback(packet)
            case PingResp():
                asked = self._waiting.pings.pop(0) if self._waiting.pings else 0
                self._write(MqttPong(t=self._now(), client=self.client, asked=asked))
                self.pongs += 1
            case Disconnect():
                self.ended("service", packet.reason.name)
            case _:
                pass

    def _on_connack(self, packet: ConnAck) -> None:
        if packet.reason:
            self.ended("service", packet.reason.name)
            return
        self.connected, self.present = True, packet.session_present
        self._write(MqttConnected(t=self._now(), client=self.client, present=packet.session_present))
        again, self._sent = self._sent, {}
        if not packet.session_present:
            self.filters.clear()
            return
        for sent in again.values():
            one = sent.packet
            self._say_publish(Publish(one.topic, one.payload, one.qos, one.retain, dup=True, packet_id=one.packet_id))

    def _on_suback(self, packet: SubAck) -> None:
        id_ = self._waiting.subscribes.pop(packet.packet_id, None)
        if id_ is None:
            return
        codes = [int(reason) for reason in packet.reasons]
        self._write(MqttSubscribed(t=self._now(), client=self.client, id=id_, codes=codes))
        for one, code in zip(self._asked.pop(packet.packet_id), codes, strict=False):
            if code < 0x80:
                self.filters[one.filter] = code

    def _on_publish(self, packet: Publish) -> None:
        said: dict[str, list[str]] = {}
        for name, value in packet.properties.user_properties:
            said.setdefault(name, []).append(value)
        self._write(
            MqttTold(
                t=self._now(),
                client=self.client,
                topic=packet.topic,
                payload=message_payload(packet.payload),
                qos=packet.qos,
                retain=packet.retain,
                dup=packet.dup,
                packet_id=packet.packet_id,
                # The publisher's properties come first.
                version=_number(said.get(_VERSION)),
                offset=_number(said.get(_OFFSET)),
                missed=said.get(_MISSED, []),
            )
        )
        self.told.append(packet)
        if packet.packet_id is None:
            return
        if self.acknowledges:
            self._acknowledge(packet.packet_id)
        else:
            self._unacknowledged.append(packet.packet_id)

    def _acknowledge(self, packet_id: int) -> None:
        self._write(MqttAcknowledge(t=self._now(), client=self.client, packet_id=packet_id))
        self._send(PubAck(packet_id))

    def _say_publish(self, packet: Publish) -> None:
        id_ = self._next_id()
        self._write(
            MqttPublish(
                t=self._now(),
                client=self.client,
                id=id_,
                topic=packet.topic,
                payload=message_payload(packet.payload),
                qos=packet.qos,
                retain=packet.retain,
            )
        )
        if packet.packet_id is not None:
            self._sent[packet.packet_id] = _Sent(packet, id_)
        self._send(packet)

    def _send(self, packet: Packet) -> None:
        self._out += encode(packet, self.manner.protocol)

    def _next_id(self) -> int:
        self._id += 1
        return self._id

    def _next_packet_id(self) -> int:
        for _ in range(PACKET_ID_MAX):
            self._packet_id = self._packet_id % PACKET_ID_MAX + 1
            if self._packet_id not in self._sent and self._packet_id not in self._waiting.subscribes:
                return self._packet_id
        raise RuntimeError("all packet identifiers wait for an answer")


def _number(said: list[str] | None) -> int | None:
    return int(said[-1]) if said and said[-1].isascii() and said[-1].isdigit() else None


def _as_line(will: Will | None) -> MqttWill | None:
    if will is None:
        return None
    return MqttWill(
        topic=will.topic,
        payload=message_payload(will.payload),
        retain=will.retain,
        delay_s=will.properties.will_delay_s or 0,
    )
