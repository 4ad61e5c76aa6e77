"""The TCP listener: each connection is an asyncio protocol, behind TLS or a balancer's header if configured."""

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
    plain: type[ClientConnection] = ClientConnection
    encrypted: type[TlsConnection] = TlsConnection
    """Their connections, without TLS and with it."""

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> "TcpServing":
        """Accepts connections for a run. Raises ListenError."""
        context = tls.context(required=True)
        proxies = Among(self.settings.proxies())

        def connection() -> asyncio.Protocol:
            accepted = self.plain(shell) if context is None else self.encrypted(shell, context)
            return Balanced(accepted, shell, proxies) if proxies else accepted

        loop = asyncio.get_running_loop()
        listening = self.listeners()
        return TcpServing([await loop.create_server(connection, sock=one, backlog=BACKLOG) for one in listening])


class TcpServing:
    """The TCP listener's part in one run. It counts no connections, because the core knows each of them."""

    connections = 0

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    def take_connection_peak(self) -> int:
        """Returns 0, because the core counts the connections."""
        return 0

    def tick(self) -> None:
        """Does nothing, because the core has the timers of its connections."""

    def stop_listening(self) -> None:
        """Stops accepting connections; open ones stay."""
        for server in self._servers:
            server.close()

    async def stop(self) -> None:
        """Does nothing, because the shell has closed all connections."""
