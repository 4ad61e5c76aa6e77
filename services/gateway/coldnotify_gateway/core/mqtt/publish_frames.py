"""The PUBLISH of a version or a message, as an MQTT device is told it."""

from coldnotify_schemas.internal_pb2 import Newest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.wire_pb2 import Missed, Reason

from coldnotify_gateway.core.mqtt.deliveries import Due
from coldnotify_gateway.core.mqtt.topic_aliases import NO_ALIAS, Alias
from coldnotify_gateway.core.told import Frame

_MISSED = "coldnotify-missed"


def payload_of(newest: Newest) -> bytes:
    """Returns the payload of a version: nothing says that the object is deleted, so a version without a payload says
    its number.
    """
    if newest.deleted:
        return b""
    return newest.payload or b'{"version":%d}' % newest.version


def publish_frame(due: Due, packet_id: int, protocol: ProtocolVersion, alias: Alias = NO_ALIAS) -> Frame:
    """Returns a PUBLISH. `packet_id`: 0 with QoS 0."""
    qos, retain, identifiers = due.manner
    properties = NO_PROPERTIES
    if protocol is ProtocolVersion.MQTT_5 and (identifiers or due.missed or alias.number):
        missed = ((_MISSED, due.missed),) if due.missed else ()
        properties = Properties(subscription_ids=identifiers, user_properties=missed, topic_alias=alias.number or None)
    topic = "" if alias.known else due.topic
    packet = Publish(topic, due.payload, qos, retain, packet_id=packet_id or None, properties=properties)
    return Frame(encode(packet, protocol))


def missed_words(missed: Missed) -> str:
    """Returns what a client is told of missing messages: AFTER-BEFORE REASON."""
    after = missed.after if missed.HasField("after") else ""
    return f"{after}-{missed.before} {Reason.Name(missed.reason).removeprefix('REASON_').lower()}"
