"""One TCP proxy for all tests and measurements: it counts, slows, holds, swallows, cuts and refuses what passes."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, Self

HOST = "127.0.0.1"
_READ_BYTES = 65536
_SLOW_READ_BYTES = 512
_SLOW_BUFFER_BYTES = 4096
"""Buffer of each socket of a slow link. What is in it has left its sender, and may be superseded before it arrives."""
_CONNECT_S = 5.0
_OTHER_SIDE_S = 1.0
_START_S = 30.0
_BACKLOG = 100

Address = tuple[str, int]


class Watch(Protocol):
    """Sees what one connection carries, before it is passed on."""

    def from_client(self, data: bytes) -> None:
        """Bytes on their way to the server."""

    def to_client(self, data: bytes) -> None:
        """Bytes on their way to the client."""


class Network:
    """Runs all proxies in one event loop, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self._proxies: list[Proxy] = []

    def proxy(
        self, listen: Address, target: Address, watch: Callable[[], Watch | None] | None = None, bits_per_s: float = 0.0
    ) -> "Proxy":
        """A proxy from one address to another, each direction of a connection with at most `bits_per_s` (0: no limit).

        `watch` is called for each connection, and makes its watch, if it is to have one. Raises OSError if it cannot
        listen there.
        """
        proxy = Proxy(self.loop, listen, target, watch, bits_per_s)
        asyncio.run_coroutine_threadsafe(proxy.start(), self.loop).result(_START_S)
        self._proxies.append(proxy)
        return proxy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            for proxy in self._proxies:
                await proxy.stop()

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result(_START_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_START_S)
        self.loop.close()


@contextmanager
def in_front_of(
    host: str, port: int, *, watch: Callable[[], Watch | None] | None = None, bits_per_s: float = 0.0
) -> Iterator["Proxy"]:
    """Yields a proxy on a free port of this machine, with a network of its own."""
    with Network() as network:
        yield network.proxy((HOST, 0), (host, port), watch, bits_per_s)


class Proxy:
    """One listening address, passed on to another. Its faults may be set from any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listen: Address,
        target: Address,
        watch: Callable[[], Watch | None] | None,
        bits_per_s: float,
    ) -> None:
        self._loop, self.address, self._target, self._watch = loop, listen, target, watch
        self._bytes_per_s = bits_per_s / 8
        self._refusing = False
        self._swallowing = False
        self.swallowed_bytes = 0
        self.up_bytes = 0
        """Bytes from clients to the server."""
        self.down_bytes = 0
        """Bytes from the server to clients."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._listener = socket.socket()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.address[1]

    @property
    def idle(self) -> bool:
        """True while no connection is open."""
        return not self._connections

    def reset(self) -> None:
        """Count from 0."""
        self.up_bytes = self.down_bytes = 0

    async def start(self) -> None:
        """Listen.

        Without asyncio's server: of connections that it is just accepting when it is closed, nobody closes the sockets.
        """
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._shrink(self._listener)  # accepted sockets inherit it
        try:
            self._listener.bind(self.address)
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self.address = self._listener.getsockname()
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    async def stop(self) -> None:
        """Close everything."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def lead_to(self, target: Address) -> None:
        """Passes new connections on to this address."""
        self._call(lambda: setattr(self, "_target", target))

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
        """Discards everything that is sent from now on. A connection that has lost bytes stays broken, even after
        `heal`.
        """
        self._call(lambda: setattr(self, "_swallowing", True))

    def hold(self) -> None:
        """Nothing passes until this is healed; nothing is lost."""
        self._call(self._flowing.clear)

    def heal(self) -> None:
        """Restores normal operation, as at the beginning."""

        def healed() -> None:
            self._refusing = self._swallowing = False
            self._flowing.set()

        self._call(healed)

    def _call(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    def _cut(self) -> None:
        for task in self._connections:
            task.cancel()

    def _shrink(self, one: socket.socket) -> None:
        """Small buffers for a slow link. They must be set before the connection is there."""
        if self._bytes_per_s:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER_BYTES)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SLOW_BUFFER_BYTES)

    def _accept(self) -> None:
        try:
            accepted, _address = self._listener.accept()
        except OSError:
            return  # gone again
        task = self._loop.create_task(self._connection(accepted))
        self._connections.add(task)

        def ended(_task: asyncio.Task[None]) -> None:
            # Not by the task itself: one that is cancelled before it ran at all does nothing.
            self._connections.discard(task)
            accepted.close()

        task.add_done_callback(ended)

    async def _connection(self, client: socket.socket) -> None:
        with suppress(OSError, TimeoutError), socket.socket() as server:
            if self._refusing:
                return
            self._shrink(server)
            for one in (client, server):
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.sock_connect(server, self._target)
            await self._pass_on(client, server)

    async def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        watch = None if self._watch is None else self._watch()
        broken = asyncio.Event()
        pumps = [
            asyncio.ensure_future(self._pump(client, server, broken, self._up, watch.from_client if watch else None)),
            asyncio.ensure_future(self._pump(server, client, broken, self._down, watch.to_client if watch else None)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if not broken.is_set():
                # The other direction may still have something to say: Close, then end.
                await asyncio.wait(pumps, timeout=_OTHER_SIDE_S)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def _up(self, count: int) -> None:
        self.up_bytes += count

    def _down(self, count: int) -> None:
        self.down_bytes += count

    async def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        broken: asyncio.Event,
        count: Callable[[int], None],
        watch: Callable[[bytes], None] | None,
    ) -> None:
        free_at_s = time.monotonic()
        with suppress(OSError):
            while data := await self._loop.sock_recv(source, _SLOW_READ_BYTES if self._bytes_per_s else _READ_BYTES):
                await self._flowing.wait()
                if self._swallowing:
                    broken.set()
                if broken.is_set():
                    self.swallowed_bytes += len(data)
                    continue
                if self._bytes_per_s:
                    now_s = time.monotonic()
                    free_at_s = max(free_at_s, now_s) + len(data) / self._bytes_per_s
                    await asyncio.sleep(free_at_s - now_s)
                # Before it is passed on: whoever sees its effect finds it counted.
                count(len(data))
                if watch is not None:
                    watch(data)
                await self._loop.sock_sendall(sink, data)
            if broken.is_set():
                # Half-open: the other side is not told that this one is gone. It finds out, or is cut.
                await asyncio.get_running_loop().create_future()
            sink.shutdown(socket.SHUT_WR)
