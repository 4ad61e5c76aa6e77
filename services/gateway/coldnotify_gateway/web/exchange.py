"""A client's part of one session that asks what is new and ends: bytes in, bytes and findings out. Pure.

It says Hello with the set it wants and the cursor it has, sends the whole set if the service has another, acknowledges
pages, and is caught up then. It asks for names. See docs/protocol.md, "A session".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX, FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.names import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.wire_pb2 import CAPABILITY_NAMES, Ack, ClientFrame, Close, Hello, Notification, SyncChunk

from coldnotify_gateway.core.violation import PROTOCOL_VERSION

_KEEPALIVE_S = 3600
"""It sends no Ping: the request's own limit comes first."""


@dataclass(frozen=True)
class Asked:
    """Who asks, what it wants to be registered for, and how far it has caught up."""

    domain: str
    group: str
    client: str
    registrations: Sequence[str]
    """The whole set, each name once."""
    epoch: int | None = None
    cursor: int | None = None
    """Of that epoch, and said about this very set; None: everything is owed."""


@dataclass
class Exchange:
    """One session. `begin`, then `receive` what comes and send what it returns, until `caught_up` or `closed`."""

    asked: Asked
    epoch: int | None = field(init=False)
    cursor: int | None = field(init=False)
    refused: dict[str, str] = field(init=False, default_factory=dict)
    """Objects that are not registered, and why."""
    found: list[Notification] = field(init=False, default_factory=list)
    """In the order in which they came; whoever uses them takes them out."""
    was_in_sync: bool | None = field(init=False, default=None)
    """Whether the service had this very set; None: it has not said so yet."""
    page_end: int = field(init=False, default=0)
    """A page that waits to be acknowledged; 0: none."""
    caught_up: bool = field(init=False, default=False)
    closed: Close | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.epoch, self.cursor = self.asked.epoch, self.asked.cursor
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)

    @property
    def digest(self) -> int:
        """Of the set that is asked for."""
        return digest(self.asked.registrations)

    def begin(self) -> bytes:
        """The Hello."""
        asked = self.asked
        return encode(
            ClientFrame(
                hello=Hello(
                    protocol=PROTOCOL_VERSION,
                    capabilities=CAPABILITY_NAMES,
                    domain=asked.domain,
                    group=asked.group,
                    client=asked.client,
                    digest=self.digest,
                    epoch=asked.epoch,
                    cursor=asked.cursor,
                    keepalive_s=_KEEPALIVE_S,
                )
            )
        )

    def receive(self, data: bytes) -> bytes:
        """Takes what the gateway said; returns what is to be said to it. Raises FrameError."""
        answer = b""
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
            match frame.WhichOneof("frame"):
                case "welcome":
                    welcome = frame.welcome
                    if welcome.HasField("epoch"):
                        self.epoch, self.cursor = welcome.epoch, None
                    self.refused |= {refusal.object: refusal.reason for refusal in welcome.refused}
                    if self.was_in_sync is None:
                        self.was_in_sync = welcome.in_sync
                    if not welcome.in_sync:
                        answer += self._chunks()
                case "notification":
                    self.found.append(frame.notification)
                    self._complete_with(frame.notification)
                case "page_end":
                    self.page_end = frame.page_end.page
                case "caught_up":
                    self.caught_up = True
                    if frame.caught_up.HasField("complete"):
                        self._complete(frame.caught_up.complete)
                case "close":
                    self.closed = frame.close
        return answer

    def acknowledge_page(self) -> bytes:
        """The next page may come."""
        page, self.page_end = self.page_end, 0
        return encode(ClientFrame(ack=Ack(page=page)))

    def _complete_with(self, notification: Notification) -> None:
        if not notification.answer and notification.offset >= notification.behind:
            self._complete(notification.offset - notification.behind)

    def _complete(self, complete: int) -> None:
        self.cursor = complete if self.cursor is None else max(self.cursor, complete)

    def _chunks(self) -> bytes:
        names = self.asked.registrations
        starts = range(0, len(names) or 1, OBJECTS_PER_FRAME_MAX)
        return b"".join(
            encode(
                ClientFrame(
                    sync=SyncChunk(
                        index=index,
                        last=start + OBJECTS_PER_FRAME_MAX >= len(names),
                        objects=names[start : start + OBJECTS_PER_FRAME_MAX],
                    )
                )
            )
            for index, start in enumerate(starts)
        )
