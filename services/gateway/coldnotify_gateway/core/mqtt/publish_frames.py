"""The PUBLISH of a version or a message, as an MQTT device is told it."""

from collections.abc import Iterator

from coldnotify_schemas.internal_pb2 import Newest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.kept_properties import decode_kept
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.wire_pb2 import Missed, Reason
from msgspec.structs import replace

from coldnotify_gateway.core.mqtt.deliveries import Due
from coldnotify_gateway.core.mqtt.topic_aliases import NO_ALIAS, Alias
from coldnotify_gateway.core.stream import NONE
from coldnotify_gateway.core.told import Frame

_VERSION, _OFFSET, _MISSED = "coldnotify-version", "coldnotify-offset", "coldnotify-missed"
_EXPIRY_S_MAX = 0xFFFF_FFFF


def payload_of(newest: Newest) -> bytes:
    """Returns the payload of a version: nothing says that the object is deleted, so a version without a payload says
    its number.
    """
    if newest.deleted:
        return b""
    return newest.payload or b'{"version":%d}' % newest.version


def publish_frame(
    due: Due, packet_id: int, protocol: ProtocolVersion, alias: Alias = NO_ALIAS, left_ms: int | None = None
) -> Frame:
    """Returns a PUBLISH. `packet_id`: 0 with QoS 0. `left_ms`: time until it expires; None: it does not."""
    qos, retain, identifiers = due.manner
    if protocol is not ProtocolVersion.MQTT_5:
        packet = Publish(due.topic, due.payload, qos, retain, due.dup, packet_id or None)
        return Frame(encode(packet, protocol))
    kept = decode_kept(due.properties).properties
    properties = replace(
        kept,
        subscription_ids=identifiers,
        user_properties=(*kept.user_properties, *_said_of(due)),
        topic_alias=alias.number or None,
        message_expiry_s=None if left_ms is None else min(-(-left_ms // 1000), _EXPIRY_S_MAX),
    )
    topic = "" if alias.known else due.topic
    packet = Publish(topic, due.payload, qos, retain, due.dup, packet_id or None, properties)
    return Frame(encode(packet, protocol))


def bare(due: Due) -> Due:
    """Returns a message without what the service can leave out, for a client that takes small packets only."""
    return due._replace(version=NONE, offset=NONE)


def _said_of(due: Due) -> Iterator[tuple[str, str]]:
    """Yields the user properties that the service adds, behind the publisher's."""
    if due.version != NONE:
        yield _VERSION, str(due.version)
    if due.offset != NONE:
        yield _OFFSET, str(due.offset)
    for words in due.missed:
        yield _MISSED, words


def missed_words(missed: Missed) -> str:
    """Returns what a client is told of missing messages: AFTER-BEFORE REASON."""
    after = missed.after if missed.HasField("after") else ""
    return f"{after}-{missed.before} {Reason.Name(missed.reason).removeprefix('REASON_').lower()}"
