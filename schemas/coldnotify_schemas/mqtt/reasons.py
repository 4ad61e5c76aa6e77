"""The reason codes of MQTT 5.0 and the return codes of MQTT 3.1.1, and the packets that may carry each."""

from collections.abc import Mapping
from enum import IntEnum

from coldnotify_schemas.mqtt.packet_kinds import Side


class ReasonCode(IntEnum):
    """The reason codes of MQTT 5.0. From 0x80 on they say a failure."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class ReturnCode(IntEnum):
    """The return codes of CONNACK in MQTT 3.1.1."""

    ACCEPTED = 0
    UNACCEPTABLE_PROTOCOL_VERSION = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    BAD_USER_NAME_OR_PASSWORD = 4
    NOT_AUTHORIZED = 5


def return_code(reason: ReasonCode) -> ReturnCode | None:
    """Returns what CONNACK says in MQTT 3.1.1 for a reason; None: no code is for it, and the server closes without a
    CONNACK [MQTT-3.2.2-6 of 3.1.1].
    """
    return _RETURN_CODES.get(reason)


_RETURN_CODES: Mapping[ReasonCode, ReturnCode] = {
    ReasonCode.SUCCESS: ReturnCode.ACCEPTED,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ReturnCode.IDENTIFIER_REJECTED,
    ReasonCode.SERVER_UNAVAILABLE: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_SHUTTING_DOWN: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.QUOTA_EXCEEDED: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.USE_ANOTHER_SERVER: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_MOVED: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.CONNECTION_RATE_EXCEEDED: ReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ReturnCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.BANNED: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.BAD_AUTHENTICATION_METHOD: ReturnCode.NOT_AUTHORIZED,
}

Reasons = Mapping[int, ReasonCode]
"""The codes that a packet may carry, by their numbers."""


def _reasons(*numbers: int) -> Reasons:
    return {number: ReasonCode(number) for number in numbers}


CONNACK_REASONS = _reasons(
    0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
)  # fmt: skip
PUBACK_REASONS = _reasons(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
"""The codes of PUBREC, too."""
PUBREL_REASONS = _reasons(0x00, 0x92)
"""The codes of PUBCOMP, too."""
SUBACK_REASONS = _reasons(0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
SUBACK_REASONS_3_1_1 = _reasons(0x00, 0x01, 0x02, 0x80)
UNSUBACK_REASONS = _reasons(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)
AUTH_REASONS: Mapping[Side, Reasons] = {
    Side.CLIENT: _reasons(0x18, 0x19),
    Side.SERVER: _reasons(0x00, 0x18),
}
DISCONNECT_REASONS: Mapping[Side, Reasons] = {
    Side.CLIENT: _reasons(0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99),
    Side.SERVER: _reasons(
        0x00, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3),
    ),
}  # fmt: skip
