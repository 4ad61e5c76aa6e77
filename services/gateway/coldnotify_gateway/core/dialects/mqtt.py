"""The dialect mqtt: frames that an MQTT device is not sent. `core/mqtt/` makes its packets of what the frames are made
of."""

from coldnotify_schemas.wire_pb2 import GatewayFrame

from coldnotify_gateway.core.told import Dialect, Frame, Told


def unsaid(said: GatewayFrame, told: Told) -> Frame:
    """Returns a frame without bytes, with its value."""
    return Frame(b"", told, said)


MQTT = Dialect("mqtt", unsaid, by_name=True, raw=True)
