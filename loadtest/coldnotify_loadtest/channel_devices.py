"""Light devices that subscribe to channels, a task each in a process of their own: live, or away and coming back."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from coldnotify_load.latencies import Latencies
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.interests import by_channel, digest_of, expression_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX, OBJECTS_PER_FRAME_MAX, PROTOCOL_VERSION
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    INTEREST_PATTERN,
    SINCE_NOW,
    Ack,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    Hello,
    Interest,
    Stream,
    SyncChunk,
)

_READ_BYTES = 64 * 1024
_KEEPALIVE_S = 3600
_AT_ONCE = 200
"""Devices that connect at the same time."""
_TIME_BYTES = 8
"""A message begins with the monotonic time at which it was sent, in ns, big-endian: both are of one machine."""


@dataclass
class ToldMessages:
    """Messages that the devices of one process were told."""

    latencies: Latencies = field(default_factory=Latencies)
    messages: int = 0
    bytes: int = 0
    gaps: int = 0
    """Messages before which the device had not been told all."""


def _from_now(channel: str) -> Interest:
    expression = expression_of(channel)
    if expression is not None:
        return Interest(kind=INTEREST_PATTERN, text=expression, since=SINCE_NOW)
    return Interest(kind=INTEREST_CHANNEL, text=channel, since=SINCE_NOW)


def _acknowledged(page: int) -> bytes:
    return encode(ClientFrame(ack=Ack(streams=[Stream(page=page)])))


def _live_with(caught_up: CaughtUp) -> bool:
    return any(stream.HasField("complete") for stream in caught_up.streams)


class _Device:
    def __init__(self, group: str, client: str, channel: str, told: ToldMessages, ready: asyncio.Event) -> None:
        self._who = group, client
        self._channel = channel
        self._told = told
        self._ready = ready
        self._at = -1

    async def run(self, host: str, port: int, connecting: asyncio.Semaphore) -> None:
        async with connecting:
            reader, writer = await asyncio.open_connection(host, port)
            group, client = self._who
            domain, _, name = group.partition("/")
            hello = Hello(
                protocol=PROTOCOL_VERSION,
                domain=domain,
                group=name,
                client=client,
                digest=digest_of([by_channel(self._channel)]),
                interests=[_from_now(self._channel)],
                keepalive_s=_KEEPALIVE_S,
            )
            writer.write(encode(ClientFrame(hello=hello)))
            frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
            while not self._ready.is_set():
                self._take(frames, await reader.read(_READ_BYTES), writer)
        while data := await reader.read(_READ_BYTES):
            self._take(frames, data, writer)

    def _take(self, frames: FrameBuffer, data: bytes, writer: asyncio.StreamWriter) -> None:
        if not data:
            raise ConnectionError("the gateway has closed the connection")
        now_ns = time.monotonic_ns()
        self._told.bytes += len(data)
        latencies = []
        for body in frames.feed(data):
            frame = parse_gateway_frame(body)
            kind = frame.WhichOneof("frame")
            if kind == "message":
                message = frame.message
                self._told.messages += 1
                self._told.gaps += self._at >= 0 and message.offset - message.back > self._at
                self._at = message.offset
                latencies.append(now_ns - int.from_bytes(message.payload[:_TIME_BYTES], "big"))
            elif kind == "caught_up" and _live_with(frame.caught_up):
                self._ready.set()
            elif kind == "page_end" and frame.page_end.stream:
                if frame.page_end.last:
                    self._ready.set()
                writer.write(_acknowledged(frame.page_end.page))
        self._told.latencies.add_ns(latencies)


async def _serve(pipe: Connection, host: str, port: int, group: str, names: Sequence[tuple[str, str]]) -> None:
    told, connecting = ToldMessages(), asyncio.Semaphore(_AT_ONCE)
    ready = [asyncio.Event() for _ in names]
    tasks = [
        asyncio.create_task(_Device(group, client, channel, told, one).run(host, port, connecting))
        for (client, channel), one in zip(names, ready, strict=True)
    ]
    for one in ready:
        await one.wait()
    pipe.send("ready")
    loop = asyncio.get_running_loop()
    while True:
        order = await loop.run_in_executor(None, pipe.recv)
        if order == "stop":
            break
        if order == "begin":
            told.latencies, told.messages, told.bytes, told.gaps = Latencies(), 0, 0, 0
            pipe.send("begun")
        else:
            pipe.send((told.latencies.encoded(), told.messages, told.bytes, told.gaps))
    for task in tasks:
        task.cancel()


def _process(pipe: Connection, host: str, port: int, group: str, names: Sequence[tuple[str, str]]) -> None:
    asyncio.run(_serve(pipe, host, port, group, names))


class ChannelDevices:
    """A process of devices, each subscribed to one channel, from now on."""

    def __init__(self, pipe: Connection, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def begin(self) -> None:
        """Counts from here on."""
        self._pipe.send("begin")
        assert self._pipe.recv() == "begun"

    def told(self) -> ToldMessages:
        """Since then."""
        self._pipe.send("told")
        encoded, messages, size_bytes, gaps = self._pipe.recv()
        found = ToldMessages(messages=messages, bytes=size_bytes, gaps=gaps)
        found.latencies.merge(encoded)
        return found


@contextmanager
def channel_devices(
    host: str, port: int, group: str, names: Sequence[tuple[str, str]], ready_s: float
) -> Iterator[ChannelDevices]:
    """Devices (client, channel) that are all live. Raises TimeoutError if they are not in time."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_process, args=(theirs, host, port, group, list(names)), daemon=True)
    process.start()
    try:
        if not ours.poll(ready_s):
            raise TimeoutError(f"{len(names)} devices are not all live within {ready_s:g} s")
        assert ours.recv() == "ready"
        assert process.pid is not None
        yield ChannelDevices(ours, process.pid)
    finally:
        process.kill()
        process.join()


# --- devices that were away


@dataclass
class Back:
    """Messages that returning devices were told."""

    seconds: list[float] = field(default_factory=list)
    """For each, from its call of connect until its channels were live."""
    messages: int = 0
    bytes: int = 0
    gaps: int = 0
    """Messages before which the device had not been told all."""


class _Returning:
    """Registers at its first visit; at each later one it sends its position, as a client does from its state."""

    def __init__(self, group: str, client: str, channels: Sequence[str]) -> None:
        domain, _, name = group.partition("/")
        self._channels = channels
        self._hello = Hello(
            protocol=PROTOCOL_VERSION,
            domain=domain,
            group=name,
            client=client,
            digest=digest_of(map(by_channel, channels)),
            keepalive_s=_KEEPALIVE_S,
        )
        self._at: dict[int, int] = {}
        self._epoch: int | None = None
        self._cursor = -1
        self._told = Back()

    async def visit(self, host: str, port: int, cursor: int | None, connecting: asyncio.Semaphore, told: Back) -> None:
        """Connects, and stays until nothing is lacking. `cursor`: the offset that it was last told;
        None: to register.
        """
        self._told, self._at = told, {}
        if cursor is not None:
            self._cursor = cursor
            self._hello.ClearField("streams")
            self._hello.streams.add(epoch=self._epoch, complete=cursor)
        begun_s = time.monotonic()
        async with connecting:
            reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(encode(ClientFrame(hello=self._hello)))
            frames, live = FrameBuffer(GATEWAY_FRAME_BYTES_MAX), False
            while not live:
                data = await reader.read(_READ_BYTES)
                if not data:
                    raise ConnectionError("the gateway has closed the connection")
                told.bytes += len(data)
                for body in frames.feed(data):
                    live |= self._take(parse_gateway_frame(body), writer)
            await writer.drain()
        finally:
            writer.close()
        told.seconds.append(time.monotonic() - begun_s)

    def _take(self, frame: GatewayFrame, writer: asyncio.StreamWriter) -> bool:
        """True once its channels are live."""
        kind = frame.WhichOneof("frame")
        if kind == "message":
            message = frame.message
            self._told.messages += 1
            self._told.gaps += message.offset - message.back > self._at.get(message.channel, self._cursor)
            self._at[message.channel] = message.offset
        elif kind == "page_end" and frame.page_end.stream:
            writer.write(_acknowledged(frame.page_end.page))
            return frame.page_end.last
        elif kind == "caught_up":
            return _live_with(frame.caught_up)
        elif kind == "welcome":
            for stream in frame.welcome.streams:
                if stream.HasField("epoch"):
                    self._epoch = stream.epoch
            if not frame.welcome.in_sync:
                self._say_all(writer)
        elif kind == "missed":
            self._told.gaps += 1
        elif kind == "close":
            raise ConnectionError(f"the gateway closes: {frame.close.reason}")
        return False

    def _say_all(self, writer: asyncio.StreamWriter) -> None:
        for index, start in enumerate(range(0, len(self._channels), OBJECTS_PER_FRAME_MAX)):
            some = self._channels[start : start + OBJECTS_PER_FRAME_MAX]
            chunk = SyncChunk(index=index, last=start + len(some) == len(self._channels))
            chunk.interests.extend(map(_from_now, some))
            writer.write(encode(ClientFrame(sync=chunk)))


async def _serve_returning(
    pipe: Connection, host: str, port: int, group: str, wants: Sequence[tuple[str, Sequence[str]]]
) -> None:
    devices = [_Returning(group, client, channels) for client, channels in wants]
    loop = asyncio.get_running_loop()
    while True:
        cursors: list[int | None] = await loop.run_in_executor(None, pipe.recv)
        told, connecting = Back(), asyncio.Semaphore(_AT_ONCE)
        visits = (
            device.visit(host, port, cursor, connecting, told) for device, cursor in zip(devices, cursors, strict=False)
        )
        try:
            await asyncio.gather(*visits)
        except OSError as error:
            pipe.send(str(error))
            return
        pipe.send(told)


def _returning_process(
    pipe: Connection, host: str, port: int, group: str, wants: Sequence[tuple[str, Sequence[str]]]
) -> None:
    asyncio.run(_serve_returning(pipe, host, port, group, wants))


class ReturningDevices:
    """A process of devices that are away, registered for channels."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def come_back(self, cursors: Sequence[int | None]) -> None:
        """The first of them connect at once, one for each cursor, and leave when nothing lacks."""
        self._pipe.send(list(cursors))

    def are_back(self) -> bool:
        """Returns true once all of them have been told everything."""
        return self._pipe.poll()

    def back(self, timeout_s: float) -> Back:
        """The outcome. Raises ConnectionError, and TimeoutError if it takes longer."""
        if not self._pipe.poll(timeout_s):
            raise TimeoutError(f"devices have not caught up within {timeout_s:g} s")
        found = self._pipe.recv()
        if not isinstance(found, Back):
            raise ConnectionError(found)
        return found


@contextmanager
def returning_devices(
    host: str, port: int, group: str, wants: Sequence[tuple[str, Sequence[str]]], ready_s: float
) -> Iterator[ReturningDevices]:
    """Devices (client, channels or patterns) that have registered, from now on, and left. Raises as
    `ReturningDevices.back`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_returning_process, args=(theirs, host, port, group, list(wants)), daemon=True)
    process.start()
    try:
        devices = ReturningDevices(ours)
        devices.come_back([None] * len(wants))
        devices.back(ready_s)
        yield devices
    finally:
        process.kill()
        process.join()
