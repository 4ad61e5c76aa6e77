"""What the core's handlers return: the shell does it, in this order."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from coldnotify_schemas.internal_pb2 import Request

from coldnotify_gateway.core.overtaking import Urgent
from coldnotify_gateway.core.told import Frame


class Peer(Protocol):
    """A connection as the shell knows it. The core keeps it and hands it back in outputs; it never calls it."""

    def send(self, frames: Sequence[Frame], /) -> None:
        """Write these frames, or buffer them."""

    def send_urgent(self, urgent: Urgent, /) -> None:
        """Write it in front of what waits, or in its turn where nothing does."""

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        """Write what waits of these channels, by their hashes, in front of what waits of others, and behind it
        `repeats`."""

    def finish(self) -> None:
        """Close the connection once what was sent is flushed."""

    def __hash__(self) -> int: ...


class Send(NamedTuple):
    """Write these frames to one connection."""

    peer: Peer
    frames: Sequence[Frame]


class SendAll(NamedTuple):
    """Write the same frame to each of these connections: a fan-out, to those of one dialect."""

    peers: Sequence[Peer]
    frame: Frame
    published_ms: int = 0
    """When what it tells was published (Unix ms); 0: unknown."""
    traceparent: str = ""
    """The trace that what it tells belongs to; "": none."""


class SendUrgent(NamedTuple):
    """Write this to each of these connections, in front of what waits there: a fan-out of high priority."""

    peers: Sequence[Peer]
    urgent: Urgent
    published_ms: int = 0
    traceparent: str = ""
    """As in SendAll."""


class Overtake(NamedTuple):
    """What waits of these channels at each of these connections goes in front of what waits there of others."""

    peers: Sequence[Peer]
    channels: Collection[int]
    """By their hashes."""
    repeats: Sequence[Frame] = ()
    """Frames that follow what waits of the one channel. They come once more later, so they wait in no turn here."""


class Finish(NamedTuple):
    """Close this connection once what was sent to it is flushed. The core has forgotten it."""

    peer: Peer


class HighWater(NamedTuple):
    """With more than this waiting to be written, this connection is full from here on."""

    peer: Peer
    size_bytes: int


class PauseReading(NamedTuple):
    """Read nothing of this connection for so long: what its client says is refused again and again."""

    peer: Peer
    seconds: float


class Produce(NamedTuple):
    """Write this request to this partition of the requests topic."""

    partition: int
    key: bytes
    request: Request


class PublishRecord(NamedTuple):
    """Write what a client publishes to this topic, and tell the core what came of it (`on_published`)."""

    peer: Peer
    session: int
    partition: int
    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


Output = Send | SendAll | SendUrgent | Overtake | Finish | HighWater | PauseReading | Produce | PublishRecord
