"""The TCP listener: each connection is an asyncio protocol, with TLS or a balancer's header in front of it."""

import asyncio

from coldnotify_common.addresses import Among
from coldnotify_common.security.tls import ServerTls

from coldnotify_gateway.listeners.port import BACKLOG, CROWD_SOCKETS, DevicePort
from coldnotify_gateway.listeners.tcp.balancer import Balanced
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection
from coldnotify_gateway.listeners.tcp.tls_connection import TlsConnection
from coldnotify_gateway.shell import GatewayShell


class TcpListener(DevicePort):
    """The devices' port for TCP."""

    sockets = CROWD_SOCKETS

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> "TcpServing":
        """Accepts connections for a run. Raises ListenError."""
        context = tls.context(required=True)
        proxies = Among(self.settings.proxies())

        def connection() -> asyncio.Protocol:
            accepted = ClientConnection(shell) if context is None else TlsConnection(shell, context)
            return Balanced(accepted, shell, proxies) if proxies else accepted

        loop = asyncio.get_running_loop()
        listening = self.listeners()
        return TcpServing([await loop.create_server(connection, sock=one, backlog=BACKLOG) for one in listening])


class TcpServing:
    """It has no connections of its own: each is one of the core's."""

    connections = 0

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    def take_connection_peak(self) -> int:
        """The core counts them."""
        return 0

    def tick(self) -> None:
        """The core has the timers of its connections."""

    def stop_listening(self) -> None:
        """Takes no more connections; those that are there stay."""
        for server in self._servers:
            server.close()

    async def stop(self) -> None:
        """The shell has closed all there were."""
