"""Asks a part of this machine over HTTP if it is ready."""

import socket
import ssl
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException

from coldnotify_common.self_connection import meets_itself

_TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 1000
_OK = 200


def connected(host: str, port: int, own_port: int = 0) -> socket.socket:
    """Returns a connection to a port of this machine, from `own_port` (0: any). Raises OSError.

    A connection that meets itself is refused: nobody listens there yet.
    """
    connection = socket.create_connection((host, port), _TIMEOUT_S, (host, own_port) if own_port else None)
    if meets_itself(connection):
        connection.close()
        raise ConnectionRefusedError(f"nobody listens on port {port}")
    return connection


class _Connection(HTTPConnection):
    """An HTTP connection to a port of this machine."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=_TIMEOUT_S)
        self._tls = tls

    def connect(self) -> None:
        """Connects. Raises OSError."""
        self.sock = connected(self.host, self.port)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


def asks_readyz(host: str, port: int, tls: ssl.SSLContext | None) -> Callable[[], str | None]:
    """Returns a function that asks /readyz there, and returns why the part is not ready; None: it is."""

    def unready() -> str | None:
        try:
            with closing(_Connection(host, port, tls)) as asked:
                asked.request("GET", "/readyz")
                answer = asked.getresponse()
                words = answer.read(_ANSWER_BYTES_MAX).decode(errors="replace").strip()
                return None if answer.status == _OK else words
        except (OSError, HTTPException) as error:
            return str(error) or type(error).__name__

    return unready
