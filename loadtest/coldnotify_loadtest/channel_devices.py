"""Light devices that subscribe to channels: one task each in a process of its own, told messages and nothing else."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.interests import by_channel, digest_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX, PROTOCOL_VERSION
from coldnotify_schemas.wire_pb2 import SINCE_NOW, Ack, Channel, ClientFrame, Hello

from coldnotify_loadtest.latency import Latencies

_READ_BYTES = 64 * 1024
_KEEPALIVE_S = 3600
_AT_ONCE = 200
"""Devices that connect at the same time."""
_TIME_BYTES = 8
"""A message begins with the monotonic time at which it was sent, in ns, big-endian: both are of one machine."""


@dataclass
class Told:
    """What the devices of one process were told."""

    latencies: Latencies = field(default_factory=Latencies)
    messages: int = 0
    bytes: int = 0
    gaps: int = 0
    """Messages in front of which the device had not been told all."""


class _Device:
    def __init__(self, group: str, client: str, channel: str, told: Told, ready: asyncio.Event) -> None:
        self._who = group, client
        self._interest = by_channel(channel)
        self._channel = Channel(name=channel, since=SINCE_NOW)
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
                digest=digest_of([self._interest]),
                channels=[self._channel],
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
            elif kind == "caught_up" and frame.caught_up.HasField("channels_complete"):
                self._ready.set()
            elif kind == "channels_end":
                if frame.channels_end.last:
                    self._ready.set()
                writer.write(encode(ClientFrame(ack=Ack(channels_page=frame.channels_end.page))))
        self._told.latencies.add_ns(latencies)


async def _serve(pipe: Connection, host: str, port: int, group: str, names: Sequence[tuple[str, str]]) -> None:
    told, connecting = Told(), asyncio.Semaphore(_AT_ONCE)
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

    def told(self) -> Told:
        """Since then."""
        self._pipe.send("told")
        encoded, messages, size_bytes, gaps = self._pipe.recv()
        found = Told(messages=messages, bytes=size_bytes, gaps=gaps)
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
