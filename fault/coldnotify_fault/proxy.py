"""The network between processes: TCP proxies that can cut, hold or swallow what passes, and count notifications."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, GATEWAY_FRAME_BYTES_MAX

_READ_BYTES = 65536
_CONNECT_S = 5.0
_START_S = 30.0
_BACKLOG = 100

Seen = Callable[[str, str, int | None, int], object]
"""Called with client, object, version and incarnation of each Notification that goes to a client."""


class Wire:
    """What one connection of a client carries: who it is, and which notifications go to it."""

    def __init__(self, objects: Iterable[str], seen: Seen) -> None:
        self._names = {object_crc(name): name for name in objects}
        self._seen = seen
        self._from_client = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._to_client = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._client: str | None = None
        self._domain_group = ""

    def from_client(self, data: bytes) -> None:
        """Bytes on their way to the gateway."""
        for body in self._from_client.feed(data):
            frame = parse_client_frame(body)
            if frame.WhichOneof("frame") == "hello":
                self._domain_group = f"{frame.hello.domain}/{frame.hello.group}"
                self._client = f"{self._domain_group}/{frame.hello.client}"

    def to_client(self, data: bytes) -> None:
        """Bytes on their way to the client."""
        for body in self._to_client.feed(data):
            frame = parse_gateway_frame(body)
            if frame.WhichOneof("frame") != "notification" or self._client is None:
                continue
            told = frame.notification
            name = told.name or self._names.get(told.crc, f"crc-{told.crc:08x}")
            version = told.version if told.HasField("version") else None
            self._seen(self._client, f"{self._domain_group}/{name}", version, told.incarnation)


class Network:
    """The event loop, in a thread of its own, that all proxies run in."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self._proxies: list[Proxy] = []

    def proxy(
        self, listen: tuple[str, int], target: tuple[str, int], wire: Callable[[], Wire] | None = None
    ) -> "Proxy":
        """A proxy from one address to another. Raises OSError if it cannot listen there."""
        proxy = Proxy(self.loop, listen, target, wire)
        asyncio.run_coroutine_threadsafe(proxy.start(), self.loop).result(_START_S)
        self._proxies.append(proxy)
        return proxy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            for proxy in self._proxies:
                await proxy.stop()
            await asyncio.sleep(0)  # transports that were aborted say so in the loop's next turn

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result(_START_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_START_S)
        self.loop.close()


class Proxy:
    """One listening address, passed on to another. Its faults may be set from any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listen: tuple[str, int],
        target: tuple[str, int],
        wire: Callable[[], Wire] | None,
    ) -> None:
        self._loop = loop
        self._listen = listen
        self._target = target
        self._wire = wire
        self._refusing = False
        self._swallowing = False
        self.swallowed_bytes = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._listener: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen.

        Without asyncio's server: of connections that it is just accepting when it is closed, nobody closes the sockets.
        """
        self._listener = socket.create_server(self._listen, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept, self._listener)

    async def stop(self) -> None:
        """Close everything."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        """End all connections, without a word; new ones are served."""
        self._call(self._cut)

    def refuse(self) -> None:
        """End all connections, and new ones at once."""

        def refused() -> None:
            self._refusing = True
            self._cut()

        self._call(refused)

    def swallow(self) -> None:
        """What is sent vanishes. A connection that has lost bytes stays so for good, also when this is healed."""
        self._call(lambda: setattr(self, "_swallowing", True))

    def hold(self) -> None:
        """Nothing passes until this is healed; nothing is lost."""
        self._call(self._flowing.clear)

    def heal(self) -> None:
        """As in the beginning."""

        def healed() -> None:
            self._refusing = self._swallowing = False
            self._flowing.set()

        self._call(healed)

    def _call(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    def _refuses(self) -> bool:
        return self._refusing

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _address = listener.accept()
        except OSError:
            return  # gone again
        accepted.setblocking(False)
        task = self._loop.create_task(self._connection(accepted))
        self._connections.add(task)

        def ended(_task: asyncio.Task[None]) -> None:
            # Not by the task itself: one that is cancelled before it ran at all does nothing.
            self._connections.discard(task)
            accepted.close()

        task.add_done_callback(ended)

    async def _connection(self, accepted: socket.socket) -> None:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(sock=accepted)
            try:
                await self._pass_on(reader, writer)
            finally:
                writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses():
            return
        async with asyncio.timeout(_CONNECT_S):
            target_reader, target_writer = await asyncio.open_connection(*self._target)
        if self._refuses():  # since then
            target_writer.transport.abort()
            return
        both = {writer, target_writer}
        self._writers |= both
        wire = None if self._wire is None else self._wire()
        broken = asyncio.Event()
        pumps = [
            asyncio.ensure_future(self._pump(reader, target_writer, wire.from_client if wire else None, broken)),
            asyncio.ensure_future(self._pump(target_reader, writer, wire.to_client if wire else None, broken)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if not broken.is_set():
                # The other direction may still have something to say: Close, then end.
                await asyncio.wait(pumps, timeout=1.0)
        finally:
            self._writers -= both
            for pump in pumps:
                pump.cancel()
            target_writer.transport.abort()  # before what may be cancelled once more
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watch: Callable[[bytes], None] | None,
        broken: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._flowing.wait()
                if self._swallowing:
                    broken.set()
                if broken.is_set():
                    self.swallowed_bytes += len(data)
                    continue
                if watch is not None:
                    watch(data)
                writer.write(data)
                await writer.drain()
            if broken.is_set():
                # Half-open: the other side is not told that this one is gone. It finds out, or is cut.
                await asyncio.get_running_loop().create_future()
            if writer.can_write_eof():
                writer.write_eof()
