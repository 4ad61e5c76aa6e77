"""A device that subscribes to channels, from now on, and keeps its place in their log over reconnects. Pure."""

from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.interests import by_channel, digest_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, PROTOCOL_VERSION
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    SINCE_NOW,
    Ack,
    ClientFrame,
    GatewayFrame,
    Hello,
    Interest,
    Ping,
    Stream,
    SyncChunk,
)

from coldnotify_load.marks import Stamp, stamp_of
from coldnotify_load.population import Population
from coldnotify_load.tcp_device import KEEPALIVE_S


class ChannelDevice:
    """Subscribes to its population's names, as to channels."""

    __slots__ = ("_acked", "_buffer", "_complete", "_epoch", "_number", "_population", "_registered", "closed", "ready")

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._epoch: int | None = None
        self._complete: int | None = None
        self._acked: int | None = None
        self._registered = False
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """See LoadDevice."""
        self._buffer, self.ready, self.closed = FrameBuffer(GATEWAY_FRAME_BYTES_MAX), False, ""
        population, channels = self._population, self._channels()
        block = population.block_of(self._number)
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            domain=population.domain,
            group=population.group(block),
            client=population.client(self._number),
            digest=digest_of(map(by_channel, channels)),
            keepalive_s=population.keepalive_s or KEEPALIVE_S,
            token=population.token,
        )
        if not self._registered and len(channels) <= OBJECTS_PER_FRAME_MAX:
            hello.interests.extend(map(_from_now, channels))
        if self._epoch is not None:
            hello.streams.add(epoch=self._epoch, complete=self._complete)
        return encode(ClientFrame(hello=hello))

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """See LoadDevice."""
        reply, stamps = b"", []
        for body in self._buffer.feed(data):
            frame = parse_gateway_frame(body)
            if frame.WhichOneof("frame") == "message":
                if not frame.message.paged:
                    self._complete = frame.message.offset
                if (stamp := stamp_of(frame.message.payload)) is not None:
                    stamps.append(stamp)
            else:
                reply += self._take(frame)
        return reply, tuple(stamps)

    def _take(self, frame: GatewayFrame) -> bytes:
        """Returns what to answer to a frame that is no message."""
        kind = frame.WhichOneof("frame")
        if kind == "welcome":
            for stream in frame.welcome.streams:
                if stream.HasField("epoch"):
                    self._epoch, self._complete = stream.epoch, None
            if frame.welcome.in_sync:
                self._registered = True
            else:
                return self._sync()
        elif kind == "caught_up":
            for stream in frame.caught_up.streams:
                self._live(stream.complete if stream.HasField("complete") else None)
        elif kind == "page_end":
            end = frame.page_end
            if not end.stream:
                return encode(ClientFrame(ack=Ack(page=end.page)))
            if end.last:
                self._live(end.complete if end.HasField("complete") else None)
            return encode(ClientFrame(ack=Ack(streams=[Stream(page=end.page)])))
        elif kind == "close":
            self.closed = f"{frame.close.code} {frame.close.reason}"
        return b""

    def _live(self, complete: int | None) -> None:
        self.ready = True
        if complete is not None:
            self._complete = max(self._complete or 0, complete)

    def tick(self) -> bytes:
        """Returns an Ack, if there is something to acknowledge."""
        if self._complete is None or self._complete == self._acked or not self.ready:
            return b""
        self._acked = self._complete
        return encode(ClientFrame(ack=Ack(streams=[Stream(complete=self._complete)])))

    def ping(self) -> bytes:
        """See LoadDevice."""
        return encode(ClientFrame(ping=Ping(digest=digest_of(map(by_channel, self._channels())))))

    def _channels(self) -> tuple[str, ...]:
        return self._population.objects(self._population.block_of(self._number))

    def _sync(self) -> bytes:
        channels, frames = self._channels(), b""
        for index, start in enumerate(range(0, len(channels), OBJECTS_PER_FRAME_MAX)):
            some = channels[start : start + OBJECTS_PER_FRAME_MAX]
            chunk = SyncChunk(index=index, last=start + len(some) == len(channels))
            chunk.interests.extend(map(_from_now, some))
            frames += encode(ClientFrame(sync=chunk))
        return frames


def _from_now(channel: str) -> Interest:
    return Interest(kind=INTEREST_CHANNEL, text=channel, since=SINCE_NOW)
