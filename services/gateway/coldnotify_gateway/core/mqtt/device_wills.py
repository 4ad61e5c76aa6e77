"""Wills in CONNECT: whether one can be published, and whether its client may publish it."""

from coldnotify_common.security.publish_rights import NotGranted, PublishRight
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Will as SaidWill
from coldnotify_schemas.mqtt.errors import ProtocolViolation
from coldnotify_schemas.mqtt.kept_properties import TooManyProperties, headers_of_publish, read_kept
from coldnotify_schemas.mqtt.packets import Publish, Will

from coldnotify_gateway.core.mqtt.device_publishes import fault_of
from coldnotify_gateway.core.violation import Violation


def check_will(will: Will, payload_bytes_max: int) -> None:
    """Checks a will. Raises ProtocolViolation if it can never be published."""
    if (wrong := fault_of(_as_published(will), payload_bytes_max)) is not None:
        raise ProtocolViolation(f"will {wrong.words}", wrong.reason)


def check_will_right(will: SaidWill, client: str, right: PublishRight) -> None:
    """Checks the right of a client to publish its will. Raises Violation without one."""
    try:
        right.publisher("will topic", will.topic, client)
    except NotGranted as error:
        raise Violation(CloseCode.NOT_ALLOWED, str(error)) from None


def size_of_will(will: SaidWill, domain: str, group: str) -> int:
    """Returns the bytes that its publish has for the tenant: of key and payload."""
    return len(domain) + len(group) + len(will.topic) + 2 + len(will.payload)


def said_will(will: Will, *, doubled: bool = False) -> SaidWill:
    """Returns a will as an Open says it. `doubled`: one with retain is a message, too."""
    return SaidWill(
        topic=will.topic,
        payload=will.payload,
        retain=will.retain,
        qos=will.qos,
        delay_s=will.properties.will_delay_s or 0,
        expiry_s=will.properties.message_expiry_s,
        properties=_properties(will),
        doubled=doubled and will.retain,
    )


def _properties(will: Will) -> bytes:
    try:
        return read_kept(headers_of_publish(_as_published(will))).encoded
    except TooManyProperties:
        return b""  # it is refused


def _as_published(will: Will) -> Publish:
    return Publish(will.topic, will.payload, will.qos, will.retain, properties=will.properties)
