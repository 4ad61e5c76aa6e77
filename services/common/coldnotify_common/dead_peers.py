"""TCP's probes, which tell a silent device from a dead one."""

import socket
from typing import Protocol

PROBED_AFTER_S = 60


class HasOptions(Protocol):
    """A socket, or what a transport shows of one."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Sets an option."""


def probe(connection: HasOptions) -> None:
    """Has TCP probe a connection after PROBED_AFTER_S of silence; so are those that a listening socket accepts."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBED_AFTER_S)
