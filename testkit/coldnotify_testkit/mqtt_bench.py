"""For tests: the gateway's core with MQTT devices on its bench. What a matcher says of kept sets is written by hand."""

import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from coldnotify_gateway.core import MQTT, Identified, Limits
from coldnotify_gateway.core.gateway import Admit, admit_all
from coldnotify_schemas.interests import filter_hash
from coldnotify_schemas.internal_pb2 import (
    Answered,
    CompleteStream,
    Entry,
    FanOut,
    Item,
    KeptSet,
    Newest,
    Opened,
    Page,
    Request,
)
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Packet,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicSubscription,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.wire_pb2 import INTEREST_FILTER, Interest, Message, Refusal

from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

MQTT_5, MQTT_3_1_1 = ProtocolVersion.MQTT_5, ProtocolVersion.MQTT_3_1_1
EPOCH = 7
P = TypeVar("P")


class MqttWire(WireDouble):
    """An MQTT device's connection."""

    def __init__(self, protocol: ProtocolVersion) -> None:
        super().__init__()
        self.protocol = protocol
        self._packets = PacketBuffer(1 << 20, protocol, Side.SERVER)

    def packets(self) -> list[Packet]:
        """The packets since the last call."""
        data, self.data = self.data, b""
        return list(self._packets.feed(data))

    def packet(self, kind: type[P]) -> P:
        """The only packet since the last call, which is of this kind."""
        (found,) = self.packets()
        assert isinstance(found, kind), found
        return found

    def publishes(self) -> list[Publish]:
        """The packets since the last call, which all are PUBLISH."""
        found = self.packets()
        assert all(isinstance(one, Publish) for one in found), found
        return [one for one in found if isinstance(one, Publish)]

    __hash__ = WireDouble.__hash__


class MqttBench(GatewayBench):
    """The core on a bench, with MQTT devices."""

    def __init__(self, limits: Limits | None = None, admit: Admit = admit_all) -> None:
        super().__init__(limits, admit)
        self.answers_beats = True

    def device(self, protocol: ProtocolVersion = MQTT_5) -> MqttWire:
        """A connection that has said nothing."""
        wire = MqttWire(protocol)
        self.do(self.gateway.on_connect(wire, "127.0.0.1", self.now_s, dialect=MQTT))
        return wire

    def send(self, wire: MqttWire, *packets: Packet) -> None:
        """Packets from a device."""
        self.say(wire, *(encode(one, wire.protocol) for one in packets))

    def connecting(self, connect: Connect | None = None) -> tuple[MqttWire, Request]:
        """A connection that has sent a CONNECT, and its Open."""
        connect = connect or a_connect()
        wire = self.device(connect.protocol)
        self.send(wire, connect)
        (request,) = self.take_requests("open")
        return wire, request

    def connected(
        self,
        connect: Connect | None = None,
        filters: Iterable[Interest] = (),
        complete: int = 0,
        *,
        present: bool = False,
    ) -> tuple[MqttWire, Identified]:
        """A live session whose CONNACK is taken. `filters`, `complete`: of the set that the service has kept."""
        wire, request = self.connecting(connect)
        number = request.session
        self.inbox(opened_kept(number, request.open.ask, filters, complete, present=present))
        self.inbox(last_page(number, request.open.ask, complete))
        said = wire.packet(ConnAck)
        assert not said.reason
        self.take_requests()
        return wire, self.session(number)

    def subscribe(
        self, wire: MqttWire, session: Identified, *filters: TopicSubscription | str, identifier: int = 0
    ) -> SubAck:
        """Subscribes, with the matcher's answer."""
        properties = Properties(subscription_ids=(identifier,)) if identifier else NO_PROPERTIES
        asked = tuple(TopicSubscription(one, 1) if isinstance(one, str) else one for one in filters)
        self.send(wire, Subscribe(9, asked, properties))
        for request in self.take_requests():
            self.inbox(answered(session, request))
        return wire.packet(SubAck)


def a_connect(
    client: str = "farm/barn/lamp-1",
    protocol: ProtocolVersion = MQTT_5,
    *,
    clean: bool = True,
    keep_alive_s: int = 60,
    properties: Properties = NO_PROPERTIES,
) -> Connect:
    """A CONNECT."""
    return Connect(protocol, client, clean, keep_alive_s, properties=properties)


def a_filter(text: str, options: int = 1, identifier: int = 0) -> Interest:
    """A filter as the service keeps it."""
    return Interest(kind=INTEREST_FILTER, text=text, options=options, identifier=identifier)


def opened_kept(
    number: int, ask: int, filters: Iterable[Interest] = (), complete: int = 0, *, present: bool = False
) -> Item:
    """An Opened of a kept session."""
    kept = KeptSet(present=present, filters=filters, complete=complete)
    said = sum(filter_hash(one.text) for one in kept.filters) % 2**64
    return Item(opened=Opened(session=number, ask=ask, in_sync=True, epoch=EPOCH, digest=said, kept=kept))


def answered(
    session: Identified, request: Request, refused: Iterable[str] = (), there: Iterable[str] = (), *, more: bool = False
) -> Item:
    """The answer to a Register or Unregister. `more`: pages are owed."""
    unregistered = request.HasField("unregister")
    number = request.unregister.request if unregistered else request.register.request
    assert session.device is not None
    said = Answered(
        session=session.number,
        request=number,
        unregistered=unregistered,
        refused=[Refusal(interest=filter_hash(one), reason="filter: too many") for one in refused],
        there=map(filter_hash, there),
        digest=session.device.filters.digest,
        catch_up=more,
    )
    return Item(answered=said)


def a_version(
    name: str, version: int, offset: int, payload: bytes = b"", *, deleted: bool = False, answers: Sequence[str] = ()
) -> Newest:
    """A version; `answers`: the filters whose registration it answers."""
    return Newest(
        name=name,
        version=version,
        offset=offset,
        payload=payload,
        deleted=deleted,
        answer=bool(answers),
        answers=map(filter_hash, answers),
    )


def told(newest: Newest, *sessions: Identified) -> Item:
    """A fan-out of a version."""
    return Item(fan_out=FanOut(newest=newest, sessions=_packed(sessions)))


def a_message(name: str, offset: int, payload: bytes = b"m", source: str = "") -> Entry:
    """A message of a channel, as sessions with filters get it."""
    return Entry(message=Message(name=name, offset=offset, payload=payload, source=source))


def message_told(entry: Entry, *sessions: Identified) -> Item:
    """A fan-out of a message."""
    return Item(stream_fan_out=FanOut(entry=entry, sessions=_packed(sessions)))


def a_page(
    number: int, ask: int, page: int, newest: Iterable[Newest], complete: int | None = None, *, last: bool = False
) -> Item:
    """A page of versions."""
    return Item(page=Page(session=number, ask=ask, page=page, newest=newest, last=last, complete=complete))


def last_page(number: int, ask: int, complete: int | None = None, streams: Iterable[CompleteStream] = ()) -> Item:
    """A page without versions, behind which nothing lacks."""
    return Item(page=Page(session=number, ask=ask, page=1, last=True, complete=complete, streams=streams))


def puback(packet: Publish) -> PubAck:
    """The PUBACK of a PUBLISH."""
    assert packet.packet_id is not None
    return PubAck(packet.packet_id)


def _packed(sessions: Sequence[Identified]) -> bytes:
    return struct.pack(f"<{len(sessions)}I", *(one.number for one in sessions))
