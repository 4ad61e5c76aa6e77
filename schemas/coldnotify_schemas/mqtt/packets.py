"""The packets of MQTT, as values: one class for each kind, the same for 3.1.1 and 5.0.

3.1.1 knows no properties, no reasons but those of CONNACK and SUBACK, and of a subscription only filter and QoS.
`encode` leaves out what the protocol cannot say; in a parsed packet such fields have their defaults. QoS is a number, 0
to 2.
"""

import msgspec

from coldnotify_schemas.filters import options_of
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode

PACKET_ID_MAX = 0xFFFF
"""Packet identifiers are 1 to this."""


class Will(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The message that a server publishes when its client is gone."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The first packet of a client."""

    protocol: ProtocolVersion
    client_id: str = ""
    clean_start: bool = True
    """3.1.1 calls it Clean Session, and has it end the session, too."""
    keep_alive_s: int = 0
    """0: none."""
    user_name: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


class ConnAck(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a CONNECT."""

    session_present: bool = False
    reason: ReasonCode | ReturnCode = ReasonCode.SUCCESS
    """A ReturnCode in 3.1.1 (`reasons.return_code` gives it), a ReasonCode in 5.0."""
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A message."""

    topic: str
    """Empty where a topic alias stands for it."""
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int | None = None
    """None with QoS 0, and only there."""
    properties: Properties = NO_PROPERTIES


class PubAck(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a PUBLISH of QoS 1."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class PubRec(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a PUBLISH of QoS 2."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class PubRel(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a PUBREC."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class PubComp(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a PUBREL."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class TopicSubscription(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One filter of a SUBSCRIBE with its options. The filter is any text: `filters.check_filter` judges it."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    """0: retained messages are sent; 1: if the subscription is new; 2: never."""

    @property
    def options(self) -> int:
        """Returns the byte of its options."""
        return options_of(
            self.qos,
            no_local=self.no_local,
            retain_as_published=self.retain_as_published,
            retain_handling=self.retain_handling,
        )


class Subscribe(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Asks for the messages of at least one filter."""

    packet_id: int
    subscriptions: tuple[TopicSubscription, ...]
    properties: Properties = NO_PROPERTIES


class SubAck(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a SUBSCRIBE: a reason for each of its filters, in their order."""

    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Takes back at least one filter."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class UnsubAck(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to an UNSUBSCRIBE: a reason for each of its filters, in their order; none in 3.1.1."""

    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


class PingReq(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A client asks whether its server is there."""


class PingResp(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The answer to a PINGREQ."""


class Disconnect(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The last packet of a client, or, in 5.0, of a server."""

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A step of an enhanced authentication; 5.0 only."""

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


Ack = PubAck | PubRec | PubRel | PubComp
Packet = (
    Connect | ConnAck | Publish | Ack | Subscribe | SubAck | Unsubscribe | UnsubAck | PingReq | PingResp | Disconnect
    | Auth
)  # fmt: skip
