"""The outputs that the core's handlers return. The shell carries them out in order."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from coldnotify_schemas.internal_pb2 import Request

from coldnotify_gateway.core.overtaking import Urgent
from coldnotify_gateway.core.told import Frame


class Peer(Protocol):
    """The shell's handle of a connection. The core keeps it and returns it in outputs, but never calls it."""

    def send(self, frames: Sequence[Frame], /) -> None:
        """Writes these frames, or buffers them."""

    def send_urgent(self, urgent: Urgent, /) -> None:
        """Writes it ahead of the waiting frames, or in its turn if no frames wait."""

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        """Moves the waiting frames of these channels (given by hash) ahead of all other frames, and `repeats` after
        them."""

    def finish(self) -> None:
        """Closes the connection once all sent bytes are flushed."""

    def __hash__(self) -> int: ...


class Send(NamedTuple):
    """Writes these frames to one connection."""

    peer: Peer
    frames: Sequence[Frame]


class SendAll(NamedTuple):
    """Writes the same frame to each of these connections: a fan-out to the connections of one dialect."""

    peers: Sequence[Peer]
    frame: Frame
    published_ms: int = 0
    """Time at which its content was published (Unix ms); 0: unknown."""
    traceparent: str = ""
    """The trace that its content belongs to; "": none."""


class SendUrgent(NamedTuple):
    """Writes this to each of these connections, ahead of their waiting frames: a fan-out of high priority."""

    peers: Sequence[Peer]
    urgent: Urgent
    published_ms: int = 0
    traceparent: str = ""
    """As in SendAll."""


class Overtake(NamedTuple):
    """Moves the waiting frames of these channels ahead of all others, at each of these connections."""

    peers: Sequence[Peer]
    channels: Collection[int]
    """Hashes of the channels."""
    repeats: Sequence[Frame] = ()
    """Frames that follow the waiting frames of the one channel. A later page repeats them, so they need no place in the
    queue."""


class Carry(NamedTuple):
    """Makes a connection a link, which the core has forgotten: each of its sessions is a connection of its own."""

    peer: Peer
    data: bytes
    """All that it has sent, from its first Hello on."""


class Finish(NamedTuple):
    """Closes this connection once all bytes sent to it are flushed. The core has forgotten it."""

    peer: Peer


class HighWater(NamedTuple):
    """Sets the number of waiting bytes above which this connection is full."""

    peer: Peer
    size_bytes: int


class PauseReading(NamedTuple):
    """Stops reading this connection for some seconds, because its client keeps sending requests that are refused."""

    peer: Peer
    seconds: float


class Produce(NamedTuple):
    """Writes this request to this partition of the requests topic."""

    partition: int
    key: bytes
    request: Request


class PublishRecord(NamedTuple):
    """A client's publish, as a record of this topic."""

    peer: Peer
    session: int
    number: int
    """Its number in its session."""
    partition: int
    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


class PublishBatch(NamedTuple):
    """Writes publishes of one session to one partition, in this order, and reports the result of each to the core
    (`on_published`). Nothing behind a record that is not written is written."""

    records: tuple[PublishRecord, ...]


Output = Send | SendAll | SendUrgent | Overtake | Carry | Finish | HighWater | PauseReading | Produce | PublishBatch
