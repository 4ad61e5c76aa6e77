"""A port that devices connect to, as listeners hold it."""

import socket
from contextlib import ExitStack, closing

from coldnotify_common.http.listening import ListenError, listen_error

from coldnotify_gateway.settings import GatewaySettings

BACKLOG = 4096
"""Most connections that wait at one socket to be accepted, when all devices reconnect at once. Linux'
net.core.somaxconn has the same value, and limits higher ones to it. A listener's server passes it again, because event
loops call listen() themselves, with 100 by default. A SYN without room is sent again only after one second, then after
two, four, and so on."""
CROWD_SOCKETS = 5
"""Number of sockets that listen on a port that all of a gateway's devices may connect to at once: the kernel spreads
connections over them, so 20,480 can wait. With one socket 18,000 devices waited up to 16 s for their SYN to be sent
again."""
LINGER_S = 3.0
"""Time after a Close until a client that neither reads nor closes the connection is cut off."""

_UNSENT_BYTES = 16 * 1024
"""Unsent bytes that the kernel accepts for a connection: it sends them even if newer versions exist, and a Pong waits
for them. With fewer, a fast connection would be served too often. Accepted sockets inherit it."""
_TCP_NOTSENT_LOWAT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # not every OS has it


class DevicePort:
    """A port for devices, held from the process's start to its end, even while no connections are accepted.

    Several gateways may listen on one port (SO_REUSEPORT); the kernel spreads connections over them.
    """

    sockets = 1
    """Number of listening sockets."""

    def __init__(self, settings: GatewaySettings, port: int, setting: str) -> None:
        """Holds the port. `port` 0: any free one. `setting`: its name, for the text of errors. Raises ListenError."""
        self.settings = settings
        self._setting = setting
        self._address = _resolve(settings.gateway_host, port)
        # A bound socket that does not listen gets no connections, but reserves the port between two runs.
        self._held = self._bound(port)
        self.port: int = self._held.getsockname()[1]
        """The actual port number."""
        self._early: list[socket.socket] = []

    def listen_early(self) -> None:
        """Starts listening, so that connections wait until a run serves them. Raises ListenError."""
        self._early = self._listening()

    def end_early(self) -> None:
        """Closes the connections that still wait, and accepts no others, because another gateway may serve them
        sooner."""
        early, self._early = self._early, []
        for listener in early:
            listener.close()

    def listeners(self) -> list[socket.socket]:
        """Returns the listening sockets. Raises ListenError."""
        early, self._early = self._early, []
        return early or self._listening()

    def _listening(self) -> list[socket.socket]:
        with ExitStack() as opened:
            listening = [opened.enter_context(closing(self._listening_one())) for _ in range(self.sockets)]
            opened.pop_all()
        return listening

    def _listening_one(self) -> socket.socket:
        listener = self._bound(self.port)
        try:
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise self._error(self.port, error) from None
        return listener

    def close(self) -> None:
        """Releases the port."""
        self.end_early()
        self._held.close()

    def _bound(self, port: int) -> socket.socket:
        family, host = self._address
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.settings.gateway_send_buffer_bytes:
                # Accepted sockets inherit it. The kernel doubles the number for its own book-keeping.
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.settings.gateway_send_buffer_bytes)
            if _TCP_NOTSENT_LOWAT is not None:
                bound.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            bound.bind((host, port))
        except OSError as error:
            bound.close()
            raise self._error(port, error) from None
        return bound

    def _error(self, port: int, error: OSError) -> ListenError:
        return listen_error(self._setting, self.settings.gateway_host, port, error)


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, str]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise ListenError(
            f"COLDNOTIFY_GATEWAY_HOST / --gateway-host: {host!r} is not an address of this machine: {error}"
        ) from None
    return family, str(address[0])
