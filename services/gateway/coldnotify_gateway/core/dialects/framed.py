"""The dialects crc and names: frames as docs/protocol.md describes them, each beginning with its length.

Either exists twice: a client that does not say CAPABILITY_RAW is told no payload that is any bytes.
"""

from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import GatewayFrame

from coldnotify_gateway.core.told import Dialect, Frame, Told


def framed(said: GatewayFrame, told: Told) -> Frame:
    """Returns the frame as bytes."""
    return Frame(encode(said), told)


CRC = Dialect("crc", framed, by_name=False, raw=False)
NAMES = Dialect("names", framed, by_name=True, raw=False)
RAW_CRC = Dialect("raw crc", framed, by_name=False, raw=True)
RAW_NAMES = Dialect("raw names", framed, by_name=True, raw=True)
