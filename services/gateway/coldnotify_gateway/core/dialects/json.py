"""The dialect json: values for a device that this process plays, and that writes its own JSON from them.

A value counts as many bytes as its frame in the dialect names, so both have the same limits.
"""

from collections.abc import Iterable

from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import GatewayFrame

from coldnotify_gateway.core.told import Dialect, Frame, Told


def valued(said: GatewayFrame, told: Told) -> Frame:
    """Returns the frame with its value."""
    return Frame(encode(said), told, said)


def values_of(frames: Iterable[Frame]) -> list[GatewayFrame]:
    """Returns the values of frames of this dialect. Raises TypeError if one is of another dialect."""
    values: list[GatewayFrame] = []
    for frame in frames:
        if frame.value is None:
            raise TypeError("frame: is of another dialect")
        values.append(frame.value)
    return values


JSON = Dialect("json", valued, by_name=True, raw=True)
