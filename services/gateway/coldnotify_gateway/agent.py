"""A device's part of a session, played for one that keeps no cursor itself: bytes in, bytes and findings out. Pure.

It says Hello with the set that the device wants, and resumes at the cursor that somebody has kept for it, if any. If
the service has another set, it sends the whole one. What the device has taken is acknowledged. It asks for names. See
docs/protocol.md, "A session".

An agent has no clock and asks nothing twice: what was lost shows by the digest in the next session's Hello.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, PROTOCOL_VERSION
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    Ack,
    ClientFrame,
    Close,
    Hello,
    Notification,
    Ping,
    SyncChunk,
    Unregister,
    Welcome,
)

_KEEPALIVE_S = 3600
"""It need not ping: what carries the device has limits of its own, which come first."""


@dataclass(frozen=True)
class Device:
    """Who the device is, what it wants to be registered for, and how far it has caught up."""

    domain: str
    group: str
    client: str
    registrations: Sequence[str] = ()
    """The whole set, each name once."""
    epoch: int | None = None
    cursor: int | None = None
    """Of that epoch, and said about this very set; None: everything is owed."""


@dataclass
class Agent:
    """One session. `begin`, then `receive` what comes and send what it returns, until `closed` or no more is wanted.

    Every method that returns bytes returns what is to be said to the gateway; b"" is nothing.
    """

    device: Device
    epoch: int | None = field(init=False)
    cursor: int | None = field(init=False)
    """The device is complete up to here, once it has taken what was found."""
    refused: dict[str, str] = field(init=False, default_factory=dict)
    """Objects that are not registered, and why."""
    found: list[Notification] = field(init=False, default_factory=list)
    """In the order in which they came; whoever uses them takes them out."""
    was_in_sync: bool | None = field(init=False, default=None)
    """Whether the service had the very set that was said first; None: it has not said so yet."""
    page_end: int = field(init=False, default=0)
    """A page that waits to be acknowledged; 0: none."""
    caught_up: bool = field(init=False, default=False)
    closed: Close | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.epoch, self.cursor = self.device.epoch, self.device.cursor
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)

    @property
    def digest(self) -> int:
        """Of the set that is wanted."""
        return digest(self.device.registrations)

    # --- what the device does

    def begin(self) -> bytes:
        """The Hello: with the device's cursor it resumes where that was."""
        device = self.device
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            capabilities=CAPABILITY_NAMES,
            domain=device.domain,
            group=device.group,
            client=device.client,
            digest=self.digest,
            epoch=device.epoch,
            cursor=device.cursor,
            keepalive_s=_KEEPALIVE_S,
        )
        return encode(ClientFrame(hello=hello))

    def forget(self) -> bytes:
        """The device will not come back: all that it wanted is unregistered, whatever the service has of it."""
        requests = (Unregister(request=i, objects=names) for i, names in enumerate(self._portions(), 1))
        return b"".join(encode(ClientFrame(unregister=request)) for request in requests)

    def acknowledge(self) -> bytes:
        """The device has taken what was found: the next page may come."""
        page, self.page_end = self.page_end, 0
        return encode(ClientFrame(ack=Ack(page=page))) if page else b""

    def ping(self) -> bytes:
        """Is the gateway there?"""
        return encode(ClientFrame(ping=Ping()))

    # --- what the gateway says

    def receive(self, data: bytes) -> bytes:
        """Takes what the gateway said. Raises FrameError."""
        answer = b""
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
            match frame.WhichOneof("frame"):
                case "welcome":
                    answer += self._welcome(frame.welcome)
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

    def _welcome(self, welcome: Welcome) -> bytes:
        if welcome.HasField("epoch"):
            self.epoch, self.cursor = welcome.epoch, None
        for refusal in welcome.refused:
            self.refused[refusal.object] = refusal.reason
        if self.was_in_sync is None:
            self.was_in_sync = welcome.in_sync
        return b"" if welcome.in_sync else self._whole_set()

    def _complete_with(self, notification: Notification) -> None:
        if not notification.answer and notification.offset >= notification.behind:
            self._complete(notification.offset - notification.behind)

    def _complete(self, complete: int) -> None:
        self.cursor = complete if self.cursor is None else max(self.cursor, complete)

    # --- the set

    def _portions(self) -> list[Sequence[str]]:
        """What frames can hold of it, each."""
        names = self.device.registrations
        return [names[start : start + OBJECTS_PER_FRAME_MAX] for start in range(0, len(names), OBJECTS_PER_FRAME_MAX)]

    def _whole_set(self) -> bytes:
        portions = self._portions() or [()]
        chunks = (
            SyncChunk(index=index, last=index == len(portions) - 1, objects=names)
            for index, names in enumerate(portions)
        )
        return b"".join(encode(ClientFrame(sync=chunk)) for chunk in chunks)
