"""The table of listeners: a later one is a folder beside the others, and a row here.

Whoever starts, stops, shows or documents listeners goes through this table. `coldnotify up` reads it, too, which needs
nothing else of the gateway: so a listener is imported only when asked for.
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coldnotify_gateway.listeners.listener import Listener
    from coldnotify_gateway.settings import GatewaySettings


@dataclass(frozen=True, kw_only=True)
class Row:
    """One listener."""

    name: str
    port_setting: str
    """The setting that says its port, of `coldnotify gateway` and of `coldnotify up`."""
    port_key: str
    """What its port is called in the gateway's log and in /v1/gateway."""
    ready_key: str
    """What its address is called in the ready file of `coldnotify up`."""
    beside: int
    """Where `coldnotify up` puts it if nobody says: so far behind the port of the first listener."""
    module: str
    class_name: str

    @property
    def flag(self) -> str:
        """The command line's name of the setting."""
        return "--" + self.port_setting.replace("_", "-")

    @property
    def setting(self) -> str:
        """The setting's names, for the words of errors."""
        return f"COLDNOTIFY_{self.port_setting.upper()} / {self.flag}"

    def make(self, settings: "GatewaySettings") -> "Listener":
        """The listener, which holds its port from here on. Raises ListenError."""
        make = getattr(importlib.import_module(self.module), self.class_name)
        listener: Listener = make(settings, getattr(settings, self.port_setting), self.setting)
        return listener


TCP = Row(
    name="tcp",
    port_setting="gateway_port",
    port_key="port",
    ready_key="gateway",
    beside=0,
    module="coldnotify_gateway.listeners.tcp.listener",
    class_name="TcpListener",
)
WEB = Row(
    name="web",
    port_setting="gateway_web_port",
    port_key="web_port",
    ready_key="web",
    beside=3,
    module="coldnotify_gateway.listeners.web.listener",
    class_name="WebListener",
)
LISTENERS = (TCP, WEB)
"""The first one is served at once when a gateway starts; the others may take their time."""
