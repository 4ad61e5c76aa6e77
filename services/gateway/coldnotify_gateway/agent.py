"""A device's part of a session, played for one that keeps no cursor itself: bytes in, bytes and findings out. Pure.

It says Hello with the set that the device wants, and resumes at the cursor that somebody has kept for it, if any. If
the service has another set, it sends the whole one. While the session lasts the set may change (register, unregister),
and what the device has taken is acknowledged. It asks for names. See docs/protocol.md, "A session".

An agent has no clock and asks nothing twice: what was lost shows when it pings with its digest.
"""

from collections.abc import Iterable, Sequence
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
    Refusal,
    Register,
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
    registrations: dict[str, None] = field(init=False)
    """The set that it wants now, in the order in which it came to want them."""
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
        self.registrations = dict.fromkeys(self.device.registrations)
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._in_sync = False
        self._changed: dict[str, bool] = {}
        """Objects that came to be wanted (True), or not any more, while the service did not have the set."""
        self._begun = False
        self._last_request = 0
        self._unanswered: set[int] = set()

    @property
    def digest(self) -> int:
        """Of the set that is wanted now."""
        return digest(self.registrations)

    @property
    def settled(self) -> bool:
        """The service has the whole set, and has answered every change of it."""
        return self._in_sync and not self._unanswered

    # --- what the device does

    def begin(self) -> bytes:
        """The Hello: with the device's cursor it resumes where that was."""
        device, self._begun = self.device, True
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

    def register(self, objects: Iterable[str]) -> bytes:
        """The device wants these, too. Until the service has its set, that is kept."""
        new = [name for name in dict.fromkeys(objects) if name not in self.registrations]
        for name in new:
            self.refused.pop(name, None)
            self.registrations[name] = None
        return self._change(new, wanted=True)

    def unregister(self, objects: Iterable[str]) -> bytes:
        """The device wants these no more."""
        gone = [name for name in dict.fromkeys(objects) if name in self.registrations]
        for name in gone:
            del self.registrations[name]
        return self._change(gone, wanted=False)

    def forget(self) -> bytes:
        """The device will not come back: all that it wanted is unregistered, whatever the service has of it."""
        names = list(self.registrations)
        self.registrations.clear()
        return self._requests(names, wanted=False)

    def acknowledge(self, complete: int | None = None) -> bytes:
        """The device has taken what was found: the next page may come. `complete`: it says so of all up to there."""
        page, self.page_end = self.page_end, 0
        return encode(ClientFrame(ack=Ack(page=page, complete=complete))) if page or complete is not None else b""

    def ping(self, *, check: bool = False) -> bytes:
        """Is the gateway there? `check`: and does the service have the same set? Asked only where that is settled."""
        said = digest(name for name in self.registrations if name not in self.refused) if check else None
        return encode(ClientFrame(ping=Ping(digest=said if self.settled else None)))

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
                case "registered":
                    self._unanswered.discard(frame.registered.request)
                    self._refuse(frame.registered.refused)
                case "unregistered":
                    self._unanswered.discard(frame.unregistered.request)
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
        self._refuse(welcome.refused)
        if self.was_in_sync is None:
            self.was_in_sync = welcome.in_sync
        self._in_sync = welcome.in_sync
        self._unanswered.clear()
        changed, self._changed = self._changed, {}
        if not welcome.in_sync:
            return self._chunks()
        gone, new = ([name for name in changed if changed[name] is wanted] for wanted in (False, True))
        return self._requests(gone, wanted=False) + self._requests(new, wanted=True)

    def _refuse(self, refused: Iterable[Refusal]) -> None:
        for refusal in refused:
            self.refused[refusal.object] = refusal.reason

    def _complete_with(self, notification: Notification) -> None:
        if not notification.answer and notification.offset >= notification.behind:
            self._complete(notification.offset - notification.behind)

    def _complete(self, complete: int) -> None:
        self.cursor = complete if self.cursor is None else max(self.cursor, complete)

    # --- the set

    def _change(self, names: list[str], *, wanted: bool) -> bytes:
        if self._in_sync:
            return self._requests(names, wanted=wanted)
        if self._begun:
            self._changed |= dict.fromkeys(names, wanted)
        return b""

    def _requests(self, names: list[str], *, wanted: bool) -> bytes:
        said = b""
        for start in range(0, len(names), OBJECTS_PER_FRAME_MAX):
            self._last_request += 1
            self._unanswered.add(self._last_request)
            some = names[start : start + OBJECTS_PER_FRAME_MAX]
            if wanted:
                frame = ClientFrame(register=Register(request=self._last_request, objects=some))
            else:
                frame = ClientFrame(unregister=Unregister(request=self._last_request, objects=some))
            said += encode(frame)
        return said

    def _chunks(self) -> bytes:
        names = list(self.registrations)
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
