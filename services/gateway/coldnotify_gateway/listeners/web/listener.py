"""The web listener. Its server is imported after the first rush of devices on other listeners."""

import asyncio
import sys
from typing import TYPE_CHECKING

from coldnotify_common.security.tls import ServerTls

from coldnotify_gateway.listeners.port import DevicePort
from coldnotify_gateway.shell import GatewayShell

if TYPE_CHECKING:
    from coldnotify_gateway.listeners.web.web_site import WebSite

_QUIET_S = 0.1
_QUIET_AFTER_S = 0.7
"""Latest time until the web port is served. It is served sooner if no device has sent anything for `_QUIET_S`. The
import of its server takes a fifth of a second, and devices that all reconnect at once must not wait for that."""


class WebListener(DevicePort):
    """The devices' port for WebSocket and HTTP."""

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> "WebSite":
        """Accepts connections for a run. Raises ListenError."""
        await _quiet(shell)
        from coldnotify_gateway.listeners.web.web_site import WebSite

        site = WebSite(self.settings, shell, self, tls.context(required=False))
        try:
            await site.start()
        except BaseException:
            await site.stop()
            raise
        return site


async def _quiet(shell: GatewayShell) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _QUIET_AFTER_S
    heard_bytes = -1
    while "aiohttp" not in sys.modules and loop.time() < until_s:
        if heard_bytes == shell.gateway.counters.received_bytes:
            return
        heard_bytes = shell.gateway.counters.received_bytes
        await asyncio.sleep(_QUIET_S)
