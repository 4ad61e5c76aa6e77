"""The PUBLISH of what is told."""

import pytest
from coldnotify_gateway.core.mqtt.deliveries import Due
from coldnotify_gateway.core.mqtt.held_filters import Manner
from coldnotify_gateway.core.mqtt.publish_frames import missed_words, payload_of, publish_frame
from coldnotify_schemas.internal_pb2 import Newest
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import Packet
from coldnotify_schemas.mqtt.packets import Publish as PublishPacket
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.wire_pb2 import LOST, RETENTION, Missed


def parsed(data: bytes, protocol: ProtocolVersion) -> Packet:
    (packet,) = PacketBuffer(1 << 20, protocol, Side.SERVER).feed(data)
    return packet


@pytest.mark.parametrize(
    ("newest", "payload"),
    [
        (Newest(version=3, payload=b"{}"), b"{}"),
        (Newest(version=42), b'{"version":42}'),
        (Newest(version=42, payload=b"", raw=True), b'{"version":42}'),
        (Newest(version=42, deleted=True), b""),
    ],
)
def test_only_a_deletion_says_nothing(newest: Newest, payload: bytes) -> None:
    assert payload_of(newest) == payload


def test_a_publish_says_identifiers_and_what_is_missing_in_5_0_alone() -> None:
    due = Due(
        0,
        4,
        topic="a/b",
        payload=b"x",
        manner=Manner(1, True, (5, 6)),
        missed=("3-9 lost", "5-9 lost"),
        version=2,
        offset=9,
    )
    said = parsed(publish_frame(due, 7, ProtocolVersion.MQTT_5).data, ProtocolVersion.MQTT_5)
    held = Properties(subscription_ids=(5, 6), user_properties=_OURS)
    assert said == PublishPacket("a/b", b"x", 1, True, packet_id=7, properties=held)
    old = parsed(publish_frame(due, 7, ProtocolVersion.MQTT_3_1_1).data, ProtocolVersion.MQTT_3_1_1)
    assert old == PublishPacket("a/b", b"x", 1, True, packet_id=7)


_OURS = (
    ("coldnotify-version", "2"),
    ("coldnotify-offset", "9"),
    ("coldnotify-missed", "3-9 lost"),
    ("coldnotify-missed", "5-9 lost"),
)


@pytest.mark.parametrize(("left_ms", "said_s"), [(None, None), (1, 1), (1000, 1), (1001, 2), (1 << 60, 0xFFFF_FFFF)])
def test_the_time_left_is_said_in_whole_seconds(left_ms: int | None, said_s: int | None) -> None:
    due = Due(0, 4, topic="a/b", payload=b"x", properties=b"\x03\x01\x01")
    said = parsed(publish_frame(due, 0, ProtocolVersion.MQTT_5, left_ms=left_ms).data, ProtocolVersion.MQTT_5)
    assert said == PublishPacket("a/b", b"x", properties=Properties(payload_format=1, message_expiry_s=said_s))


def test_the_words_of_what_is_missing() -> None:
    assert missed_words(Missed(after=3, before=9, reason=LOST)) == "3-9 lost"
    assert missed_words(Missed(before=9, reason=RETENTION)) == "-9 retention"
