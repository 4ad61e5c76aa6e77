"""A link as slow as a radio's: a proxy with a rate and small buffers, and the frames that came through to clients."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import GatewayFrame, Notification

from coldnotify_testkit.proxy import Proxy, in_front_of


def needed_bytes(names: Iterable[str], payload: object, version: int) -> int:
    """Returns the number of bytes on the link that the newest version of each of these objects
    needs, as Notifications.
    """
    said = json.dumps(payload).encode()
    frames = (
        Notification(crc=object_crc(name), version=version, offset=100_000, behind=1, payload=said) for name in names
    )
    return sum(len(encode(GatewayFrame(notification=one))) for one in frames)


@dataclass
class SlowLink:
    """A slow link that runs."""

    proxy: Proxy
    frames: list[tuple[float, GatewayFrame]] = field(default_factory=list)
    """The frames that came through to clients, each with its time (monotonic clock, seconds)."""

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self.proxy.port

    @property
    def down_bytes(self) -> int:
        """Bytes that came through to clients."""
        return self.proxy.down_bytes

    def times_of(self, kind: str) -> list[float]:
        """Returns the times at which frames of this kind came through."""
        return [at_s for at_s, frame in list(self.frames) if frame.WhichOneof("frame") == kind]


class _Frames:
    """Parses what goes to the client of one connection."""

    def __init__(self, frames: list[tuple[float, GatewayFrame]]) -> None:
        self._frames, self._buffer = frames, FrameBuffer(GATEWAY_FRAME_BYTES_MAX)

    def from_client(self, data: bytes) -> None:
        """Nothing is noted."""

    def to_client(self, data: bytes) -> None:
        """Notes the frames that end in these bytes."""
        at_s = time.monotonic()
        self._frames += [(at_s, parse_gateway_frame(body)) for body in self._buffer.feed(data)]


@contextmanager
def slow_link(host: str, port: int, *, bits_per_s: float) -> Iterator[SlowLink]:
    """Yields a link on a port of its own. Each direction of a connection carries at most `bits_per_s`."""
    frames: list[tuple[float, GatewayFrame]] = []
    with in_front_of(host, port, watch=lambda: _Frames(frames), bits_per_s=bits_per_s) as proxy:
        yield SlowLink(proxy, frames)
