"""The MQTT side of a connection, from its first byte: the packets' buffer, the words of its CONNECT, and, once it is a
session, its filters, deliveries, requests and publishes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import WILL_DROP, WILL_PUBLISH, WILL_UNSAID, WILL_WAIT, Kept, KeptSet, WillEnd
from coldnotify_schemas.internal_pb2 import Will as SaidWill
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import Connect, Packet, PubAck, Publish, PubRec
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.share_names import PREFETCH_MAX
from coldnotify_schemas.wire_pb2 import Register, Unregister

from coldnotify_gateway.core.mqtt import farewells
from coldnotify_gateway.core.mqtt.deliveries import IN_FLIGHT_MAX, Deliveries
from coldnotify_gateway.core.mqtt.device_publishes import DevicePublishes, PubackDue
from coldnotify_gateway.core.mqtt.device_shares import PREFETCH_UNSAID, DeviceShares
from coldnotify_gateway.core.mqtt.device_wills import said_will
from coldnotify_gateway.core.mqtt.held_filters import NO_FILTERS, HeldFilter, HeldFilters
from coldnotify_gateway.core.mqtt.received import ReceivedPublishes
from coldnotify_gateway.core.mqtt.topic_aliases import NO_ALIAS, Alias, DeviceAliases, group_aliases
from coldnotify_gateway.core.stream import NONE
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Frame

EXPIRES_NEVER_S = 0xFFFF_FFFF
SUBSCRIBES_UNANSWERED_MAX = 16
"""Most SUBSCRIBEs and UNSUBSCRIBEs of a session that are not answered; then no more is read."""
KEEPALIVES_MISSED_MAX = 1.5
"""A device is given up after so many keepalives without a packet."""
_OURS = frozenset((CloseCode.GOING_AWAY, CloseCode.UNKNOWN_SESSION, CloseCode.OVERLOADED))
"""Codes with which the service ends a connection that its client would have gone on with: it comes back at once."""
_PROTOCOLS = {ProtocolVersion.MQTT_3_1_1: "mqtt 3.1.1", ProtocolVersion.MQTT_5: "mqtt 5.0"}


class Request(NamedTuple):
    """A Register or an Unregister that the matcher has not answered."""

    register: Register | None = None
    unregister: Unregister | None = None


@dataclass(slots=True, eq=False)
class SubscribeAsked:
    """A SUBSCRIBE or an UNSUBSCRIBE that is not answered. The service may take it in several requests."""

    packet_id: int
    filters: tuple[str, ...]
    """In the client's order."""
    codes: dict[str, ReasonCode]
    """By the filter: what is known of the answer."""
    unsubscribes: bool = False
    words: str = ""
    """Why a filter is refused, if one is; the first one's."""
    open: dict[int, Request] = field(default_factory=dict)
    """The requests without an answer, by number."""

    def refuse(self, text: str, code: ReasonCode, words: str) -> None:
        """Notes that a filter is refused."""
        self.codes[text] = code
        self.words = self.words or words

    @property
    def reasons(self) -> tuple[ReasonCode, ...]:
        """Returns the code for each filter, in order."""
        return tuple(self.codes[one] for one in self.filters)


class MqttSide:
    """The MQTT side of one connection. Times are seconds of the core's clock."""

    __slots__ = (
        "_aliases",
        "_answered",
        "_last_request",
        "_prefetch",
        "_publishes",
        "_reason",
        "_received",
        "_rejected",
        "_shares",
        "_told_aliases_max",
        "asking",
        "assigned_id",
        "buffer",
        "clean",
        "connected",
        "deliveries",
        "due_s",
        "expiry_s",
        "filters",
        "keepalive_is_ours",
        "keepalive_s",
        "missed",
        "packet_bytes_max",
        "ping_due_s",
        "pings",
        "present",
        "protocol",
        "repeat_s",
        "socket_full",
        "subscribed",
        "wants_words",
        "will",
        "will_end",
        "woken",
    )

    def __init__(self, packet_bytes_max: int) -> None:
        """`packet_bytes_max`: of a packet that the client sends."""
        self.buffer = PacketBuffer(packet_bytes_max)
        self.protocol: ProtocolVersion | None = None
        """None: no CONNECT has come yet."""
        self.assigned_id = ""
        """The client identifier that it got, because it said none."""
        self.clean = True
        self.expiry_s = 0
        self.keepalive_s = 0
        """0: none."""
        self.keepalive_is_ours = False
        """It is another one than the client said."""
        self.will: SaidWill | None = None
        self.will_end: WillEnd = WILL_PUBLISH
        """Its fate once the connection ends."""
        self.packet_bytes_max: int | None = None
        """Most bytes of a packet that the client takes; None: any."""
        self.wants_words = True
        """It is told reasons in words in other packets, too, than the one that ends the connection."""
        self.connected = False
        """Its CONNACK was sent."""
        self.present = False
        """True if its CONNACK said that its session was kept, and no matcher has lost it since."""
        self.filters: HeldFilters = NO_FILTERS
        self.subscribed: HeldFilters = NO_FILTERS
        """The filters for which a SUBSCRIBE came on this connection."""
        self._answered: dict[str, tuple[int, tuple[str, ...]]] | None = None
        """By filter, the offset up to which its answer has come on this connection, with the names of this offset. Made
        for the first answer."""
        self.deliveries = Deliveries()
        self.asking: list[SubscribeAsked] = []
        self._publishes: DevicePublishes | None = None
        self._received: ReceivedPublishes | None = None
        self._shares: DeviceShares | None = None
        self._prefetch = PREFETCH_UNSAID
        self.socket_full = False
        self.woken = False
        """Its first PINGREQ was answered, or is waiting."""
        self.pings = 0
        """PINGREQs that are answered once nothing lacks."""
        self.ping_due_s = NEVER_S
        """The time at which they are answered anyway."""
        self.due_s = NEVER_S
        """The time by which the matcher must have answered the CONNECT."""
        self.repeat_s = NEVER_S
        """The time at which requests without an answer are repeated."""
        self.missed: dict[int, str] = {}
        """Words about missing messages, by the hash of the filter, until a message of it is sent."""
        self._aliases: DeviceAliases | None = None
        """None: none was used yet."""
        self._told_aliases_max = 0
        self._last_request = 0
        self._reason: ReasonCode | None = None
        self._rejected: list[tuple[int, str]] = []

    @property
    def is_5(self) -> bool:
        """Returns true for MQTT 5.0."""
        return self.protocol is ProtocolVersion.MQTT_5

    @property
    def publishes(self) -> DevicePublishes:
        """Returns its publishes. Made at the first use, because many devices publish nothing."""
        if self._publishes is None:
            self._publishes = DevicePublishes()
        return self._publishes

    @property
    def received(self) -> ReceivedPublishes:
        """Returns its publishes of QoS 2. Made at the first use."""
        if self._received is None:
            self._received = ReceivedPublishes()
        return self._received

    @property
    def receives(self) -> bool:
        """Returns true if it has published with QoS 2."""
        return self._received is not None

    @property
    def shares(self) -> DeviceShares | None:
        """Returns what it holds of shares; None: it is a member of none, and was not."""
        return self._shares

    def join_shares(self, now_s: float, *, registered: bool = False) -> None:
        """Notes the shares among its filters. `registered`: the service has just said that it knows one of them."""
        if self._shares is None and self.filters.shares:
            self._shares = DeviceShares(self._prefetch)
        if self._shares is not None:
            self._shares.join(self.filters.shares, now_s, registered=registered)

    @property
    def reads(self) -> bool:
        """Returns true if more of its packets may be handled: not too many of them wait for an answer."""
        own = self._publishes
        if len(self.asking) >= SUBSCRIBES_UNANSWERED_MAX:
            return False
        if own is None:
            return True
        # A PUBREL may come behind what waits for it.
        waiting = len(self._received.waiting) if self._received is not None and self._received.room <= 0 else 0
        return not (own.again or len(own.under_way) - waiting >= PUBLISHES_UNANSWERED_MAX)

    @property
    def wake_s(self) -> float:
        """Returns the time of its next timed work."""
        again_s = NEVER_S if self._publishes is None else self._publishes.again_s
        held_s = NEVER_S if self._received is None else self._received.repeat_s
        shares_s = NEVER_S if self._shares is None else self._shares.wake_s
        return min(self.due_s, self.repeat_s, self.ping_due_s, again_s, held_s, shares_s)

    @property
    def silence_s(self) -> float:
        """Returns the time without a packet after which it is given up."""
        return KEEPALIVES_MISSED_MAX * self.keepalive_s if self.keepalive_s else NEVER_S

    def connect(self, connect: Connect, keepalive_max_s: int = 3600, *, doubles: bool = False) -> None:
        """Takes what a CONNECT says. `keepalive_max_s`: the service's bound. `doubles`: retained messages are messages
        of channels, too."""
        said = connect.properties
        self.protocol = connect.protocol
        self.clean = connect.clean_start
        if self.is_5:
            self.expiry_s = said.session_expiry_s or 0
            self.packet_bytes_max = said.packet_bytes_max
            self.wants_words = said.request_problem_information is not False
            self._told_aliases_max = said.topic_alias_max or 0
            self.keepalive_s = min(connect.keep_alive_s or keepalive_max_s, keepalive_max_s)
            self.keepalive_is_ours = self.keepalive_s != connect.keep_alive_s
        else:
            self.expiry_s = 0 if connect.clean_start else EXPIRES_NEVER_S
            self.keepalive_s = connect.keep_alive_s
        self.deliveries = Deliveries(said.receive_max or IN_FLIGHT_MAX)
        self._prefetch = min(said.receive_max or PREFETCH_UNSAID, PREFETCH_MAX)
        if (will := connect.will) is not None:
            self.will = said_will(will, doubled=doubles)

    def speak(self, protocol: ProtocolVersion) -> None:
        """Notes the protocol in which a client that speaks none of these is refused."""
        self.protocol = protocol

    def kept(self, *, again: bool) -> Kept:
        """Returns what an Open says of its set."""
        assert self.protocol is not None
        clean = self.clean and not again
        return Kept(
            clean=clean,
            expiry_s=self.expiry_s,
            protocol=_PROTOCOLS[self.protocol],
            will=self.will,
            packet_bytes_max=self.packet_bytes_max or 0,
        )

    @property
    def leaves_will(self) -> WillEnd:
        """Returns what a Leave says of its will. A client that has had no CONNACK has left none."""
        if self.will is None:
            return WILL_UNSAID
        return self.will_end if self.connected else WILL_DROP

    def drop_will(self) -> None:
        """Notes that its client ends the connection, and wants no will published."""
        self.will_end = WILL_DROP

    def closed_by(self, code: int) -> None:
        """Notes that the connection is closed with this code."""
        if code in _OURS:
            self.will_end = WILL_WAIT

    def assign(self, client_id: str) -> None:
        """Notes the identifier that a client without one gets."""
        self.assigned_id = client_id

    def wait_for_connack(self, due_s: float) -> None:
        """Notes the time by which the matcher must have answered."""
        self.due_s = due_s

    def has_lost(self, kept: KeptSet) -> bool:
        """Returns true, once, if the client was told that its session was kept, and a matcher has not found it."""
        lost = self.present and not kept.present
        self.present = self.present and not lost
        return lost

    def begin(self, filters: HeldFilters, group_key: str, *, present: bool = False) -> None:
        """Notes that the CONNACK is sent. `filters`: those of the set that the service has kept, which it has if
        `present`. `group_key`: domain/group."""
        self.present = present
        self.connected, self.filters, self.due_s = True, filters, NEVER_S
        if self._told_aliases_max:
            self._aliases = DeviceAliases(self._told_aliases_max, group_aliases(group_key))

    def resolved(self, packet: Publish) -> Publish:
        """Returns a PUBLISH of the client with the topic that its alias stands for. Raises ProtocolViolation."""
        if packet.properties.topic_alias is None:
            return packet
        if self._aliases is None:
            self._aliases = DeviceAliases()
        return self._aliases.resolved(packet)

    def alias_of(self, topic: str) -> Alias:
        """Returns the alias with which the client is told this topic."""
        return NO_ALIAS if self._aliases is None else self._aliases.of(topic)

    def told(self, alias: Alias) -> None:
        """Notes that a PUBLISH with this alias is sent."""
        if self._aliases is not None:
            self._aliases.told(alias)

    def hold(self, filters: HeldFilters) -> None:
        """Replaces its filters."""
        self.filters = filters

    def subscribe(self, filters: Collection[HeldFilter]) -> None:
        """Adds filters of a SUBSCRIBE."""
        self.filters = self.filters.with_filters(filters)
        self.subscribed = self.subscribed.with_filters(filters)

    def subscribed_by(self, filters: Iterable[HeldFilter]) -> bool:
        """Returns true if a SUBSCRIBE for one of these filters came on this connection."""
        return any(one.text in self.subscribed.by_text for one in filters)

    def begin_answers(self, texts: Iterable[str]) -> None:
        """Notes that answers to these filters come from the beginning: a SUBSCRIBE for them is handled."""
        if self._answered:
            for text in texts:
                self._answered.pop(text, None)

    def take_answer(self, filters: Iterable[HeldFilter], offset: int, name: str) -> bool:
        """Notes that this object's version at this offset answers these filters. Returns false if the same answer to
        each of them had it already: a matcher that takes over answers from the beginning what was not acknowledged.
        """
        answered = self._answered
        if answered is None:
            answered = self._answered = {}
        is_new = False
        for one in filters:
            reached, names = answered.get(one.text, (NONE, ()))
            if reached < offset:
                answered[one.text], is_new = (offset, (name,)), True
            elif reached == offset and name not in names:
                answered[one.text], is_new = (offset, (*names, name)), True
        return is_new

    def forget_answers(self) -> None:
        """Notes that offsets are those of another log from now on."""
        self._answered = None

    def expire_after(self, expiry_s: int) -> None:
        """Changes how long its set outlives the session."""
        self.expiry_s = expiry_s

    def take_request(self) -> int:
        """Returns the number of the next request."""
        self._last_request += 1
        return self._last_request

    def ask(self, asking: SubscribeAsked, repeat_s: float) -> None:
        """Notes a SUBSCRIBE or UNSUBSCRIBE that the matcher is asked for."""
        self.asking.append(asking)
        self.repeat_s = min(self.repeat_s, repeat_s)

    def repeat_at(self, repeat_s: float) -> None:
        """Notes when requests without an answer are repeated."""
        self.repeat_s = repeat_s if self.asking else NEVER_S

    def asked(self, request: int) -> SubscribeAsked | None:
        """Returns what a request belongs to; None: it is answered already."""
        return next((one for one in self.asking if request in one.open), None)

    def answered(self, asking: SubscribeAsked) -> None:
        """Forgets what is answered."""
        self.asking.remove(asking)
        if not self.asking:
            self.repeat_s = NEVER_S

    def fill(self) -> None:
        """Notes that the socket takes no more bytes."""
        self.socket_full = True

    def drain(self) -> None:
        """Notes that the socket has taken all bytes."""
        self.socket_full = False
        self.deliveries.drained()

    def fits(self, frame: Frame) -> bool:
        """Returns true if a packet is not larger than the client takes."""
        return self.packet_bytes_max is None or len(frame.data) <= self.packet_bytes_max

    def wake(self) -> None:
        """Notes that its first PINGREQ is answered."""
        self.woken = True

    def ping(self, due_s: float) -> None:
        """Notes a PINGREQ that is answered once nothing lacks."""
        self.woken = True
        self.pings += 1
        self.ping_due_s = min(self.ping_due_s, due_s)

    def take_pings(self) -> int:
        """Returns the PINGREQs that are answered now."""
        pings, self.pings, self.ping_due_s = self.pings, 0, NEVER_S
        return pings

    def miss(self, filter_hash: int, words: str) -> None:
        """Notes that messages of a filter are missing."""
        self.missed[filter_hash] = words

    def take_missed(self, hashes: list[int]) -> tuple[str, ...]:
        """Returns, once, what is to be said of missing messages of these filters."""
        found = [self.missed.pop(one) for one in hashes if one in self.missed]
        return tuple(dict.fromkeys(found))

    def published(self, request: int) -> list[Frame]:
        """Notes that a publish is in Kafka. Returns the PUBACKs that can be sent."""
        return self.pubacks(self.publishes.published(request))

    def refused(self, request: int, words: str, *, for_now: bool) -> None:
        """Notes that a publish was refused, for now or for ever."""
        if for_now:
            self.publishes.refuse(request)
        else:
            self._rejected.append((request, words))

    def take_rejected(self) -> list[tuple[int, str]]:
        """Returns, once, the publishes that were refused for ever, each with the reason in words."""
        found, self._rejected = self._rejected, []
        return found

    def pubacks(self, answers: Iterable[PubackDue], words: str = "") -> list[Frame]:
        """Returns the PUBACKs and PUBRECs of these answers. `words`: of those that are a refusal, if the client takes
        them.
        """
        frames = []
        for packet_id, qos, reason in answers:
            if packet_id:
                kind = PubRec if qos > 1 else PubAck
                said = Properties(reason_string=words) if words and reason and self.wants_words else NO_PROPERTIES
                frame = self.encode(kind(packet_id, reason, said))
                frames.append(frame if self.fits(frame) else self.encode(kind(packet_id, reason)))
            if qos > 1:
                self.received.answer(packet_id, reason)
        return frames

    def blame(self, reason: ReasonCode) -> None:
        """Notes the reason that ends the connection, where the close code says less."""
        self._reason = reason

    def encode(self, packet: Packet) -> Frame:
        """Returns a packet's bytes."""
        assert self.protocol is not None
        return Frame(encode(packet, self.protocol))

    def farewell(self, code: int, words: str) -> list[Frame]:
        """Returns the last packet, without words if it is too large with them; nothing where the protocol has none."""
        if self.protocol is None:
            return []
        reason = farewells.of_close(code) if self._reason is None else self._reason
        make = farewells.disconnect if self.connected else farewells.connack_refusal
        found = [Frame(make(reason, said, self.protocol)) for said in (words, "")]
        return [frame for frame in found if frame.data and self.fits(frame)][:1]
