"""The toy listener: every connection is sent a line, and closed."""

import asyncio

from coldnotify_common.http.listening import ListenError
from coldnotify_common.security.tls import ServerTls
from coldnotify_gateway.listeners.port import BACKLOG, DevicePort
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.shell import GatewayShell

from .settings import LineSettings


class LineListener(DevicePort):
    """The port for a line of text."""

    def __init__(self, settings: GatewaySettings, port: int, setting: str, own: LineSettings) -> None:
        super().__init__(settings, port, setting)
        self._setting_name, self._text = setting, own.gateway_line_text

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> "LineServing":
        """Answers connections for a run. Raises ListenError."""
        if tls.context(required=True) is not None:
            raise ListenError(f"{self._setting_name}: there is no TLS at this port")

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(f"{self._text}\n".encode())
            writer.close()

        (listening,) = self.listeners()
        return LineServing(await asyncio.start_server(answer, sock=listening, backlog=BACKLOG))


class LineServing:
    """Its connections end at once, so none is open."""

    connections = 0

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    def take_connection_peak(self) -> int:
        """None is counted."""
        return 0

    def tick(self) -> None:
        """There are no timers."""

    def stop_listening(self) -> None:
        """Takes no more connections."""
        self._server.close()

    async def stop(self) -> None:
        """Nothing is left."""
