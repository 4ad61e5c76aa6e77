"""`Link`: several `Notify` of one program, or several programs of one unit, share one connection to a gateway.

with Link(Connection(address="gateway.example", token=...)) as link:
    one = Notify(domain=..., group_id="region-1", client_id="unit-7", state=State(...), connection=link)
    two = Notify(domain=..., group_id="solar", client_id="unit-7", state=State(...), connection=link)
"""

import asyncio
import os
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from coldnotify._link_hub import LinkHub
from coldnotify.connection import Connection

__all__ = ["Link"]


_ACCEPT_TURNS = 5
"""Turns of the loop after which the hub knows of each connection that was accepted."""


class Link:
    """One connection to a gateway for several clients: one TLS handshake, and a wake of all in one packet each way.

    A thread of its own has the connection; clients reach it through a Unix socket. It connects when the first client
    does, and the connection ends with the last one. Where it is lost, all clients come back by themselves.
    """

    def __init__(
        self, connection: Connection | None = None, *, path: str | os.PathLike[str] | None = None, mode: int = 0o600
    ) -> None:
        """`connection`: how to reach the service, and who all of these clients are: certificate or token. `path`: of
        the socket, for clients in other programs, which name it as their address, "unix:PATH"; None: a temporary one.
        `mode`: of the socket's file: who may write to it may be any client that the identity may be.

        Raises ValueError (a certificate cannot be used, a directory is given), OSError (no socket can be made there).
        """
        own = Connection() if connection is None else connection
        hub = LinkHub(own)
        self._directory = None if path is not None else tempfile.TemporaryDirectory(prefix="coldnotify-link-")
        self.path = Path(self._directory.name, "link") if self._directory is not None else Path(path or "")
        self.connection = replace(
            own, address=f"unix:{self.path}", home=None, ca_cert=None, cert=None, key=None, token=None
        )
        """The way of a client to this link."""
        begun: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._ends = asyncio.Event()
        # A daemon, as the threads of clients are: a program that forgets to close it can still end.
        self._thread = threading.Thread(
            target=self._run, args=(hub, mode, begun), name=f"coldnotify-link-{self.path.name}", daemon=True
        )
        self._thread.start()
        try:
            begun.result()
        except BaseException:
            self.close()
            raise

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the connection. Clients that are still connected to the link try to come back."""
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(timeout_s)
        if self._directory is not None:
            self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, hub: LinkHub, mode: int, begun: Future[None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(hub, mode, begun))

    async def _serve(self, hub: LinkHub, mode: int, begun: Future[None]) -> None:
        try:
            server = await _listening(hub, self.path, mode)
        except BaseException as error:
            begun.set_exception(error)
            return
        begun.set_result(None)
        looking = asyncio.create_task(hub.run())
        await self._ends.wait()
        # A server that is closed while it accepts a connection would leave that one open.
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        server.close()
        looking.cancel()
        await asyncio.wait([looking])
        self.path.unlink(missing_ok=True)


async def _listening(hub: LinkHub, path: Path, mode: int) -> asyncio.Server:
    """Raises OSError: a program listens there already, or none can."""
    loop = asyncio.get_running_loop()
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        pass  # nobody is there, or who was has died
    else:
        writer.close()
        raise OSError(f"path: another link listens at {path}")
    before = os.umask(0o777 & ~mode)
    try:
        return await loop.create_unix_server(hub.application, str(path), backlog=256)
    finally:
        os.umask(before)
