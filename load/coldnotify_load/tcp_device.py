"""A device of ColdNotify's: Hello, reg-sync, pages, Acks, Ping; keeps its cursor over reconnects. Pure."""

from functools import lru_cache

from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX, FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.wire_pb2 import ClientFrame

from coldnotify_load.marks import Stamp, stamp_of
from coldnotify_load.population import Population
from coldnotify_load.remembered import Remembered

OBJECTS_A_FRAME = 64
KEEPALIVE_S = 86_400
"""Without a keepalive no Ping is due while a run lasts; the idle hour is measured by asking for one."""

_digest = lru_cache(maxsize=4096)(digest)
_live: Remembered[tuple[int, tuple[Stamp, ...]]] = Remembered()


@lru_cache(maxsize=4096)
def _sync_chunks(objects: tuple[str, ...]) -> bytes:
    chunks = [objects[at : at + OBJECTS_A_FRAME] for at in range(0, len(objects), OBJECTS_A_FRAME)] or [()]
    frames = b""
    for index, chunk in enumerate(chunks):
        frame = ClientFrame()
        frame.sync.index, frame.sync.last = index, index == len(chunks) - 1
        frame.sync.objects.extend(chunk)
        frames += encode(frame)
    return frames


@lru_cache(maxsize=4096)
def _ack(complete: int) -> bytes:
    frame = ClientFrame()
    frame.ack.complete = complete
    return encode(frame)


class ColdNotifyDevice:
    """Registers in its first Hello if its objects fit into one, by reg-sync else; then reconnects as known."""

    __slots__ = (
        "_acked",
        "_buffer",
        "_number",
        "_objects",
        "_population",
        "closed",
        "cursor",
        "epoch",
        "ready",
        "registered",
    )

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._objects = _objects(population, population.block_of(number))
        self._buffer: FrameBuffer | None = None
        self._acked = -1
        self.cursor: int | None = None
        self.epoch: int | None = None
        self.registered = False
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """The Hello, with the registrations as long as they are not confirmed."""
        self._buffer, self.ready, self.closed, self._acked = None, False, "", -1
        frame = ClientFrame()
        hello = frame.hello
        hello.protocol = 1
        hello.domain = self._population.domain
        hello.group = self._population.group(self._population.block_of(self._number))
        hello.client = self._population.client(self._number)
        hello.digest = _digest(self._objects)
        hello.keepalive_s = self._population.keepalive_s or KEEPALIVE_S
        hello.token = self._population.token
        if not self.registered and len(self._objects) <= OBJECTS_A_FRAME:
            hello.register.extend(self._objects)
        if self.epoch is not None:
            hello.epoch = self.epoch
            if self.cursor is not None:
                hello.cursor = self.cursor
        return encode(frame)

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """See Device."""
        buffer = self._buffer
        if self.ready and buffer is None and (known := _live.get(data)) is not None:
            self.cursor = max(self.cursor or 0, known[0])
            return b"", known[1]
        if buffer is None:
            buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        was_alone = not len(buffer)
        reply, stamps, only_live, complete = b"", [], self.ready, -1
        for body in buffer.feed(data):
            frame = parse_gateway_frame(body)
            kind = frame.WhichOneof("frame")
            if kind == "notification":
                notification = frame.notification
                if (stamp := stamp_of(notification.payload)) is not None:
                    stamps.append(stamp)
                if notification.answer:
                    only_live = False
                else:
                    complete = max(complete, notification.offset - notification.behind)
                continue
            only_live = False
            if kind == "welcome":
                if frame.welcome.HasField("epoch"):
                    self.epoch, self.cursor = frame.welcome.epoch, None
                if frame.welcome.in_sync:
                    self.registered = True
                else:
                    self.ready = False
                    reply += _sync_chunks(self._objects)
            elif kind == "page_end":
                page = ClientFrame()
                page.ack.page = frame.page_end.page
                reply += encode(page)
            elif kind == "caught_up":
                if frame.caught_up.HasField("complete"):
                    complete = max(complete, frame.caught_up.complete)
                self.ready = True
            elif kind == "pong" and frame.pong.HasField("complete"):
                complete = max(complete, frame.pong.complete)
            elif kind == "close":
                self.closed = f"{frame.close.code} {frame.close.reason}"
        if complete >= 0:
            self.cursor = max(self.cursor or 0, complete)
        whole = not len(buffer)
        if only_live and was_alone and whole:
            _live.put(data, (complete, tuple(stamps)))
        # A buffer is kept only while a frame is not whole: 100,000 idle ones would weigh.
        self._buffer = None if whole else buffer
        return reply, tuple(stamps)

    def tick(self) -> bytes:
        """Returns an Ack, if there is something to acknowledge."""
        if self.cursor is None or self.cursor == self._acked or not self.ready:
            return b""
        self._acked = self.cursor
        return _ack(self.cursor)

    def ping(self) -> bytes:
        """A Ping with the digest, as a client sends it once a keepalive."""
        frame = ClientFrame()
        frame.ping.digest = _digest(self._objects)
        return encode(frame)


@lru_cache(maxsize=4096)
def _objects(population: Population, block: int) -> tuple[str, ...]:
    return population.objects(block)
