"""The last packet of a connection: why the gateway ends it, in CONNACK or DISCONNECT."""

from collections.abc import Mapping

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Disconnect
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import CONNACK_REASONS, DISCONNECT_REASONS, ReasonCode, return_code

_OF_CLOSE: Mapping[int, ReasonCode] = {
    CloseCode.GOING_AWAY: ReasonCode.SERVER_SHUTTING_DOWN,
    CloseCode.SILENT: ReasonCode.KEEP_ALIVE_TIMEOUT,
    CloseCode.TOO_SLOW: ReasonCode.QUOTA_EXCEEDED,
    CloseCode.OVERLOADED: ReasonCode.SERVER_BUSY,
    CloseCode.DISPLACED: ReasonCode.SESSION_TAKEN_OVER,
    CloseCode.UNKNOWN_SESSION: ReasonCode.SERVER_BUSY,
    CloseCode.EXPIRED: ReasonCode.NOT_AUTHORIZED,
    CloseCode.DISCONNECTED: ReasonCode.ADMINISTRATIVE_ACTION,
    CloseCode.ABOVE_AGREEMENT: ReasonCode.QUOTA_EXCEEDED,
    CloseCode.PROTOCOL_ERROR: ReasonCode.PROTOCOL_ERROR,
    CloseCode.FRAME_TOO_LARGE: ReasonCode.PACKET_TOO_LARGE,
    CloseCode.BAD_NAME: ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    CloseCode.UNSUPPORTED_PROTOCOL: ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    CloseCode.NOT_AUTHENTICATED: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    CloseCode.NOT_ALLOWED: ReasonCode.NOT_AUTHORIZED,
}


def of_close(code: int) -> ReasonCode:
    """Returns the reason of a close code."""
    return _OF_CLOSE.get(code, ReasonCode.UNSPECIFIED_ERROR)


def connack_refusal(reason: ReasonCode, words: str, protocol: ProtocolVersion) -> bytes:
    """Returns the CONNACK that refuses a connection; nothing if MQTT 3.1.1 has no code for the reason."""
    if protocol is ProtocolVersion.MQTT_5:
        if reason not in CONNACK_REASONS:
            reason = ReasonCode.SERVER_UNAVAILABLE
        return encode(ConnAck(reason=reason, properties=Properties(reason_string=words or None)), protocol)
    code = return_code(reason)
    return b"" if code is None else encode(ConnAck(reason=code), protocol)


def disconnect(reason: ReasonCode, words: str, protocol: ProtocolVersion) -> bytes:
    """Returns the DISCONNECT that ends a connection; nothing in MQTT 3.1.1, which has none of a server."""
    if protocol is not ProtocolVersion.MQTT_5:
        return b""
    if reason not in DISCONNECT_REASONS[Side.SERVER]:
        reason = ReasonCode.UNSPECIFIED_ERROR
    return encode(Disconnect(reason, Properties(reason_string=words or None)), protocol)
