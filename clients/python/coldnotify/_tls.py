"""TLS with session resumption: the next connection to a host offers the ticket of the last one, and sends far less.

The context offers it by itself, in `wrap_socket` and in `wrap_bio`, which asyncio uses. Sessions live as long as the
context: a restarted process begins with a full handshake.
"""

import os
import socket
import ssl
from typing import Any, Protocol


class _Connected(Protocol):
    """An SSLSocket or SSLObject."""

    @property
    def server_hostname(self) -> str | None: ...

    @property
    def session(self) -> ssl.SSLSession | None: ...


class ResumingContext(ssl.SSLContext):
    """A client's context, TLS 1.2 or later, the server's certificate and name checked."""

    def __new__(cls) -> "ResumingContext":
        context = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def __init__(self) -> None:
        self._sessions: dict[str, ssl.SSLSession] = {}

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """The same as SSLContext's; `session`: by default the last one with this host."""
        return super().wrap_socket(
            sock,
            server_side,
            do_handshake_on_connect,
            suppress_ragged_eofs,
            server_hostname,
            session or self._sessions.get(str(server_hostname)),
        )

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """The same for a MemoryBIO."""
        return super().wrap_bio(
            incoming, outgoing, server_side, server_hostname, session or self._sessions.get(str(server_hostname))
        )

    def remember(self, connection: _Connected) -> None:
        """Call it at the end of a connection that was used, because the server's ticket follows the handshake."""
        session = connection.session
        if session is not None and session.has_ticket:
            self._sessions[str(connection.server_hostname)] = session

    def forget(self, host: str) -> None:
        """Forgets the session with this host: the next connection begins with a full handshake, because this one
        failed.
        """
        self._sessions.pop(host, None)


class ContextKeeper:
    """Keeps a context, and with it its sessions, for as long as the files that it was made of stay what they are."""

    def __init__(self) -> None:
        self._made_of: object = None
        self._context: ResumingContext | None = None

    def context(self, connection: Any) -> ResumingContext | None:
        """The context of a `Connection`. Raises ValueError."""
        made_of = [_stamp(path) for path in (connection.ca_cert, connection.cert, connection.key)]
        if self._context is None or made_of != self._made_of:
            self._context = connection.ssl_context()
            self._made_of = made_of
        return self._context


def _stamp(path: Any) -> tuple[int, int, int] | None:
    try:
        found = None if path is None else os.stat(path)  # noqa: PTH116  (takes what open() takes)
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
