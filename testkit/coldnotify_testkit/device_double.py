"""For tests: a device that keeps to docs/protocol.md, in memory and as simple as can be."""

from coldnotify_schemas.digest import digest, object_crc
from coldnotify_schemas.frames import FrameBuffer, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import CAPABILITY_NAMES, Close, GatewayFrame, Notification, Welcome

from coldnotify_testkit.device_frames import ack, hello, ping, register, sync, unregister
from coldnotify_testkit.matcher_double import NONE


class DeviceDouble:
    """A device as docs/protocol.md describes it, without disk and timers. Frames to be sent are in `to_send`."""

    SYNC_OBJECTS = 2
    """The number of objects in one SyncChunk."""

    def __init__(self, client: str, *, names: bool = False) -> None:
        self.client = client
        self.names = names
        self.wanted: set[str] = set()
        self.registering: set[str] = set()
        """Registrations that are not settled: not confirmed, or confirmed and not yet notified of."""
        self.unregistering: set[str] = set()
        self.confirmed: set[str] = set()
        """The part of `registering` that was confirmed in this session."""
        self.floors: dict[str, int] = {}
        self.cursor = NONE
        self.has_epoch = False
        self.to_send = b""
        self.closed: Close | None = None
        self.caught_up = False
        self.syncing = False
        self.welcomed = False
        self.waits = 0
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._request = 0
        self._asked: dict[int, tuple[str, ...]] = {}
        self._used: dict[int, str] = {}
        self._offered: tuple[set[str], set[str]] = (set(), set())
        """Registrations and unregistrations that the next Welcome confirms."""

    def connect(self) -> None:
        """A new connection: Hello."""
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self.to_send, self.closed = b"", None
        self.caught_up = self.syncing = self.welcomed = False
        self.confirmed, self._asked, self._request = set(), {}, 0
        self._used = {object_crc(name): name for name in self.wanted | self.unregistering}
        self._offered = set(self.registering), set(self.unregistering)
        self.to_send += hello(
            self.client,
            wanted=tuple(self.wanted),
            register=tuple(self.registering),
            unregister=tuple(self.unregistering),
            cursor=self.cursor if self.has_epoch and self.cursor != NONE else None,
            capabilities=CAPABILITY_NAMES if self.names else 0,
        )

    def want(self, name: str) -> None:
        """The application registers for an object."""
        self.wanted.add(name)
        self.registering.add(name)
        self.confirmed.discard(name)
        self.unregistering.discard(name)
        self._used[object_crc(name)] = name
        self.ask_pending()

    def do_not_want(self, name: str) -> None:
        """The application does not want to hear of it any more."""
        if name in self.wanted:
            self.wanted.discard(name)
            self.registering.discard(name)
            self.confirmed.discard(name)
            self.unregistering.add(name)
            self.ask_pending()

    def ask_pending(self) -> None:
        """Sends what is pending. Calling it again corresponds to the retry after 30 s without an answer."""
        if not self.welcomed or self.syncing:
            return
        for make, names in ((unregister, self.unregistering), (register, self.registering - self.confirmed)):
            if names:
                self._request += 1
                self._asked[self._request] = tuple(names)
                self.to_send += make(self._request, *names)

    def ping(self) -> None:
        """Keepalive."""
        quiet = not self.registering and not self.unregistering and self.welcomed and not self.syncing
        self.to_send += ping(digest(self.wanted) if quiet else None)

    def receive(self, data: bytes) -> None:
        """Bytes came from the gateway."""
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
            assert self.closed is None, "a frame after Close"
            self._on_frame(frame)

    def _on_frame(self, frame: GatewayFrame) -> None:
        match frame.WhichOneof("frame"):
            case "welcome":
                self._on_welcome(frame.welcome)
            case "notification":
                self._on_notification(frame.notification)
            case "caught_up":
                self._advance(frame.caught_up.complete if frame.caught_up.HasField("complete") else NONE)
                self.caught_up = True
                self.confirmed.clear()
                self.ask_pending()
            case "page_end":
                self.to_send += ack(page=frame.page_end.page)
            case "registered":
                names = self._asked.pop(frame.registered.request, ())
                self.confirmed |= self.registering.intersection(names)
            case "unregistered":
                self.unregistering.difference_update(self._asked.pop(frame.unregistered.request, ()))
            case "pong":
                self._advance(frame.pong.complete if frame.pong.HasField("complete") else NONE)
            case "wait":
                self.waits += 1
            case "close":
                self.closed = frame.close

    def _on_welcome(self, welcome: Welcome) -> None:
        if welcome.HasField("epoch"):
            self.cursor = NONE
        self.has_epoch = True
        self.welcomed = True
        if welcome.in_sync:
            self.syncing = False
            registered, unregistered = self._offered
            self.confirmed |= self.registering & registered
            self.unregistering -= unregistered
            self.ask_pending()
            return
        self.syncing, self.caught_up = True, False
        self._asked.clear()
        self.registering = set(self.wanted)
        self.confirmed.clear()
        self.unregistering.clear()
        self._offered = set(self.wanted), set()
        names = sorted(self.wanted)
        parts = [names[i : i + self.SYNC_OBJECTS] for i in range(0, len(names), self.SYNC_OBJECTS)] or [[]]
        for index, part in enumerate(parts):
            self.to_send += sync(index, *part, last=index == len(parts) - 1)

    def _on_notification(self, one: Notification) -> None:
        assert bool(one.name) == self.names, "a name where a CRC-32 was due, or the other way round"
        name = one.name or self._used.get(one.crc)
        if name is not None and name in self.wanted:
            if one.HasField("version"):
                self.floors[name] = max(self.floors.get(name, NONE), one.version)
            if name in self.confirmed:
                self.registering.discard(name)
                self.confirmed.discard(name)
        if not one.answer:
            self._advance(one.offset - one.behind)

    def _advance(self, complete: int) -> None:
        if complete > self.cursor:
            self.cursor = complete
            self.to_send += ack(complete)
