"""A broker for MQTT devices, in memory: QoS 1, kept sessions, retained messages; nothing of Kafka."""

import contextlib
import socketserver
import threading
from dataclasses import dataclass, field

from coldnotify_schemas.filters import fits
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
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
    Unsubscribe,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode

HOST = "127.0.0.1"


@dataclass(eq=False)
class _Due:
    """One delivery that is not acknowledged."""

    topic: str
    payload: bytes
    retain: bool
    said: tuple[str, int]
    packet_id: int = 0


@dataclass(eq=False)
class _Kept:
    """A session."""

    filters: list[str] = field(default_factory=list)
    due: list[_Due] = field(default_factory=list)
    connection: "_Serving | None" = None

    def begin(self, connection: "_Serving", *, forgets: bool) -> None:
        self.connection = connection
        if forgets:
            self.due = [one for one in self.due if not one.packet_id]

    def end(self, connection: "_Serving") -> None:
        if self.connection is connection:
            self.connection = None

    def acknowledge(self, packet_id: int) -> None:
        self.due = [one for one in self.due if one.packet_id != packet_id]


class MqttDouble(socketserver.ThreadingTCPServer):
    """Serves devices of one group in memory; `forgets` what was sent once, acknowledged or not. `shutdown` ends it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, *, forgets: bool = False) -> None:
        super().__init__((HOST, 0), _Serving)
        self.forgets = forgets
        self.pongs = True
        """Set to False, it answers no PINGREQ."""
        self.lock = threading.RLock()
        self.sessions: dict[str, _Kept] = {}
        self.versions: dict[str, tuple[int, bytes]] = {}
        self.messages: list[tuple[str, bytes]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def published(self, packet: Publish) -> None:
        if packet.retain:
            version = self.versions.get(packet.topic, (0, b""))[0] + 1
            self.versions[packet.topic] = version, packet.payload
            said = "coldnotify-version", version
        else:
            said = "coldnotify-offset", len(self.messages)
            self.messages.append((packet.topic, packet.payload))
        for session in self.sessions.values():
            if any(fits(one, packet.topic) for one in session.filters):
                self.give(session, _Due(packet.topic, packet.payload, False, said))

    def give(self, session: _Kept, due: _Due) -> None:
        session.due.append(due)
        if session.connection is not None:
            session.connection.deliver(due)


class _Serving(socketserver.BaseRequestHandler):
    """One connection."""

    server: MqttDouble
    session: _Kept

    def handle(self) -> None:
        self.packets, self.packet_id = PacketBuffer(1 << 20), 0
        try:
            while data := self.request.recv(65536):
                for packet in self.packets.feed(data):
                    with self.server.lock:
                        self.take(packet)
        except OSError:
            pass
        with self.server.lock:
            if hasattr(self, "session"):
                self.session.end(self)

    def take(self, packet: Packet) -> None:
        match packet:
            case Connect():
                self.on_connect(packet)
            case Subscribe():
                self.session.filters += [one.filter for one in packet.subscriptions]
                self.say(SubAck(packet.packet_id, (ReasonCode.GRANTED_QOS_1,) * len(packet.subscriptions)))
                for topic, (version, payload) in self.server.versions.items():
                    if payload and any(fits(one.filter, topic) for one in packet.subscriptions):
                        self.server.give(self.session, _Due(topic, payload, True, ("coldnotify-version", version)))
            case Unsubscribe():
                self.session.filters[:] = [one for one in self.session.filters if one not in packet.filters]
            case Publish():
                self.server.published(packet)
                if packet.packet_id is not None:
                    self.say(PubAck(packet.packet_id))
            case PubAck():
                self.session.acknowledge(packet.packet_id)
            case PingReq() if self.server.pongs:
                self.say(PingResp())
            case Disconnect():
                self.request.shutdown(2)
            case _:
                pass

    def on_connect(self, packet: Connect) -> None:
        sessions = self.server.sessions
        present = packet.client_id in sessions and not packet.clean_start
        self.session = sessions[packet.client_id] if present else _Kept()
        sessions[packet.client_id] = self.session
        self.session.begin(self, forgets=self.server.forgets)
        accepted = ReasonCode.SUCCESS if packet.protocol is ProtocolVersion.MQTT_5 else ReturnCode.ACCEPTED
        self.say(ConnAck(present, accepted))
        for due in self.session.due:
            self.deliver(due)

    def deliver(self, due: _Due) -> None:
        self.packet_id += 1
        due.packet_id = self.packet_id
        properties = Properties(user_properties=((due.said[0], str(due.said[1])),))
        self.say(Publish(due.topic, due.payload, 1, due.retain, packet_id=due.packet_id, properties=properties))

    def say(self, packet: Packet) -> None:
        assert self.packets.protocol is not None
        with contextlib.suppress(OSError):
            self.request.sendall(encode(packet, self.packets.protocol))
