"""An MQTT connection on a raw socket: it sends bytes and packets, and behaves only as well as a test makes it."""

import socket
from types import TracebackType
from typing import Any, Self, TypeVar

from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode

from coldnotify_testkit.waiting import WAIT_S

P = TypeVar("P")
_BYTES_MAX = 1 << 20
_FOR_NOW = (ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY, ReturnCode.SERVER_UNAVAILABLE)
_TRIES_MAX = 20
"""The service takes 5 s before it says so."""


class RawPackets:
    """A socket that sends what it is given and reads packets. Nothing is acknowledged by itself."""

    def __init__(self, port: int, protocol: ProtocolVersion = ProtocolVersion.MQTT_5) -> None:
        self.protocol = protocol
        self.told: list[Publish] = []
        """Every PUBLISH that was read on the way to another packet."""
        self._last_id = 0
        self._port = port
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = PacketBuffer(_BYTES_MAX, self.protocol, Side.SERVER)
        self._packets: list[Packet] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *packets: Packet | bytes) -> None:
        """Sends packets, and bytes as they are, in one write."""
        self._socket.sendall(b"".join(one if isinstance(one, bytes) else encode(one, self.protocol) for one in packets))

    def takes_at_most(self, bytes_max: int) -> None:
        """Has every larger packet be an error from now on."""
        self._buffer.take_at_most(bytes_max)

    def packet(self) -> Packet | None:
        """Returns the next packet; None at the connection's end."""
        while not self._packets:
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._packets += self._buffer.feed(data)
        return self._packets.pop(0)

    def until(self, kind: type[P]) -> P:
        """Returns the next packet of this kind. What is told before it is kept; another packet is an error."""
        while not isinstance(packet := self.packet(), kind):
            assert isinstance(packet, Publish), f"{packet} comes before a {kind.__name__}"
            self.told.append(packet)
        return packet

    def rest(self) -> list[Packet]:
        """Returns all packets up to the connection's end."""
        found = []
        while (packet := self.packet()) is not None:
            found.append(packet)
        return found

    def connect(
        self, client_id: str, *, clean: bool = True, keep_alive_s: int = 60, said: Properties = NO_PROPERTIES
    ) -> ConnAck:
        """Sends CONNECT, and returns the answer. Connects again where the service does not answer for now."""
        for _ in range(_TRIES_MAX):
            self.send(Connect(self.protocol, client_id, clean, keep_alive_s, properties=said))
            if (answer := self.until(ConnAck)).reason not in _FOR_NOW:
                break
            self._socket.close()
            self._open()
        return answer

    def subscribe(self, *asked: TopicSubscription | str, identifier: int = 0) -> SubAck:
        """Sends SUBSCRIBE, of QoS 1 where a filter alone is given, and returns the answer."""
        filters = tuple(TopicSubscription(one, 1) if isinstance(one, str) else one for one in asked)
        said = Properties(subscription_ids=(identifier,)) if identifier else NO_PROPERTIES
        self.send(Subscribe(self.next_id(), filters, said))
        return self.until(SubAck)

    def unsubscribe(self, *filters: str) -> UnsubAck:
        """Sends UNSUBSCRIBE, and returns the answer."""
        self.send(Unsubscribe(self.next_id(), filters))
        return self.until(UnsubAck)

    def publish(self, topic: str, payload: bytes = b"", **options: Any) -> PubAck:
        """Sends PUBLISH of QoS 1, and returns the answer."""
        self.send(Publish(topic, payload, 1, packet_id=self.next_id(), **options))
        return self.until(PubAck)

    def ping(self) -> None:
        """Waits for the answer to a PINGREQ."""
        self.send(PingReq())
        self.until(PingResp)

    def next_told(self, *, acknowledges: bool = True) -> Publish:
        """Returns the next PUBLISH, and acknowledges it."""
        packet = self.told.pop(0) if self.told else self.until(Publish)
        if acknowledges and packet.packet_id is not None:
            self.send(PubAck(packet.packet_id))
        return packet

    def told_up_to(self, payload: bytes) -> list[Publish]:
        """Returns what is told, up to the first PUBLISH with this payload, and acknowledges it."""
        found = [self.next_told()]
        while found[-1].payload != payload:
            found.append(self.next_told())
        return found

    def next_id(self) -> int:
        """Returns another packet identifier."""
        self._last_id += 1
        return self._last_id
