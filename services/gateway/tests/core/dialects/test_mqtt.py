"""The dialect mqtt: frames of the device protocol say nothing to an MQTT device."""

from coldnotify_gateway.core import MQTT
from coldnotify_gateway.core.told import Told
from coldnotify_schemas.wire_pb2 import GatewayFrame, Wait


def test_a_frame_has_its_value_and_no_bytes() -> None:
    said = GatewayFrame(wait=Wait(seconds=3))
    frame = MQTT.encode(said, Told())
    assert (frame.data, frame.value) == (b"", said)
