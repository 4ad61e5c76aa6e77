"""Sizes of the PUBLISH packets that a device of MQTT 5.0 is told: one that is larger than it takes is passed over."""

from msgspec.structs import replace

from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.kept_properties import decode_kept
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import Publish


def told_bytes_min(
    topic: str, payload: bytes, kept: bytes, *, identifiers: tuple[int, ...] = (), expires: bool = False
) -> int:
    """Returns the bytes of a PUBLISH of QoS 1 without what the service may add. `kept`: see `kept_properties`."""
    properties = replace(
        decode_kept(kept).properties, subscription_ids=identifiers, message_expiry_s=0 if expires else None
    )
    return len(encode(Publish(topic, payload, 1, packet_id=1, properties=properties), ProtocolVersion.MQTT_5))
