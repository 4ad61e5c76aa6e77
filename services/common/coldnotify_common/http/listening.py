"""Opens a port at the start of a process, before the code that serves it is imported."""

import os
import socket
import time
from collections.abc import Callable, Iterator

from coldnotify_schemas.host_port import host_port

from coldnotify_common.errors import ServiceError

BACKLOG = 1024
"""Connections that wait to be accepted: all clients may reconnect at once, also before the port is served."""
_LOOK_S = 0.02


class ListenError(ServiceError):
    """A port cannot be opened; the message names setting, address and reason."""


def listening(host: str, port: int, *, setting: str = "") -> socket.socket:
    """Returns a listening socket. `host`: an address, a name (its IPv4 address if it has one), "" for all. Raises
    ListenError."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name may have several addresses. A scraper that requests metrics at 127.0.0.1 has to find a port on
        # "localhost".
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise listen_error(setting, host, port, error) from None


def listen_error(setting: str, host: str, port: int, error: OSError) -> ListenError:
    """Returns the error for a port that cannot be opened."""
    prefix = f"{setting}: " if setting else ""
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return ListenError(f"{prefix}cannot listen on {host_port(host, port)}: {why}")


def first_rush(readiness: Callable[[], str | None], at_most_s: float) -> Iterator[float]:
    """Yields until `readiness` returns None, or for `at_most_s`; each item is the time to wait for the next one, in s.

    Meanwhile a starting process has no time to import the code that serves its port.
    """
    until_s = time.monotonic() + at_most_s
    while readiness() is not None and time.monotonic() < until_s:
        yield _LOOK_S
