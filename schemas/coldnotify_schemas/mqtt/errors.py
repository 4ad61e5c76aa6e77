"""The errors of the codec: `MqttError` and those below it are the sender's fault, `NotEncodable` is ours.

MqttError               the bytes cannot be taken; `reason` is what to tell the sender
    MalformedPacket     they are no packet of the standard
    ProtocolViolation   they are a packet that the standard forbids here
    PacketTooLarge      their packet is larger than the reader takes
    UnsupportedProtocol their CONNECT is of a protocol that is not spoken here
NotEncodable            a packet that has no bytes in the protocol
"""

from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.reasons import ReasonCode


class MqttError(Exception):
    """The sender's bytes cannot be taken, nor any behind them. The words name the field and the fault."""

    reason: ReasonCode
    """The code for a DISCONNECT, or a CONNACK, of MQTT 5.0."""


class MalformedPacket(MqttError):
    """The bytes are not a packet of the standard."""

    reason = ReasonCode.MALFORMED_PACKET


class ProtocolViolation(MqttError):
    """The packet is one that the standard forbids, or forbids at this place."""

    def __init__(self, words: str, reason: ReasonCode = ReasonCode.PROTOCOL_ERROR) -> None:
        super().__init__(words)
        self.reason = reason


class PacketTooLarge(MqttError):
    """A packet announced more bytes than the reader takes."""

    reason = ReasonCode.PACKET_TOO_LARGE


class UnsupportedProtocol(MqttError):
    """A CONNECT named another protocol, or another version of MQTT.

    Who named MQTT and a higher version is told by a CONNACK of MQTT 5.0 (0x84), who named a lower one by a CONNACK of
    MQTT 3.1.1 (code 1) [MQTT-3.1.2-2]. Another name is answered by closing [MQTT-3.1.2-1].
    """

    reason = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, name: bytes, level: int, answered_in: ProtocolVersion | None) -> None:
        super().__init__(f"protocol: {name[:20]!r} of version {level} is not spoken (MQTT 4 and 5 are)")
        self.name = name
        self.level = level
        """The protocol's version, as it was said, 0 to 255."""
        self.answered_in = answered_in
        """The version of the CONNACK that answers; None: the connection is closed without one."""


class NotEncodable(ValueError):
    """A packet has no bytes in the protocol: a text is too long, say. The words name the field."""
