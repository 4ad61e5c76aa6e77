"""The versions of MQTT that are spoken, the sides of a connection, and the kinds of packets."""

from enum import Enum, IntEnum


class ProtocolVersion(IntEnum):
    """The versions that are spoken, by the number that a CONNECT says."""

    MQTT_3_1_1 = 4
    MQTT_5 = 5


class Side(Enum):
    """The side of a connection that sends a packet."""

    CLIENT = "client"
    SERVER = "server"


class PacketType(IntEnum):
    """The kinds of packets, by the upper four bits of the first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


FLAGS: dict[int, int] = {
    kind: 0b0010 if kind.name in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE") else 0 for kind in PacketType
}
"""The lower four bits of the first byte, by the kind. PUBLISH has its own in them: DUP, QoS, RETAIN [MQTT-2.1.3-1]."""

SENT_BY: dict[Side, frozenset[int]] = {
    Side.CLIENT: frozenset(PacketType) - {2, 9, 11, 13},
    Side.SERVER: frozenset(PacketType) - {1, 8, 10, 12},
}
"""The kinds that each side sends in MQTT 5.0. In 3.1.1 nobody sends AUTH, and a server no DISCONNECT."""
