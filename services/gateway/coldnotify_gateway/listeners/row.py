"""A row of the table of listeners: what the table's readers need of one listener without importing it."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coldnotify_common.imported import settings_classes
from coldnotify_common.settings import Settings

if TYPE_CHECKING:
    from coldnotify_gateway.listeners.listener import Listener
    from coldnotify_gateway.settings import GatewaySettings


@dataclass(frozen=True, kw_only=True)
class ListenerRow:
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
    settings: str = ""
    """`module:Class` of the listener's own settings, `port_setting` among them; "": they are in GatewaySettings."""

    @property
    def flag(self) -> str:
        """The command line's name of the setting."""
        return "--" + self.port_setting.replace("_", "-")

    @property
    def setting(self) -> str:
        """The setting's names, for the words of errors."""
        return f"COLDNOTIFY_{self.port_setting.upper()} / {self.flag}"

    def make(self, settings: "GatewaySettings", others: Sequence[Settings] = ()) -> "Listener":
        """The listener, which holds its port from here on. Its own settings are in `others`, or are the defaults.

        Raises ListenError.
        """
        make = getattr(importlib.import_module(self.module), self.class_name)
        listener: Listener
        if not self.settings:
            listener = make(settings, getattr(settings, self.port_setting), self.setting)
            return listener
        (kind,) = settings_classes((self.settings,))
        own = next((one for one in others if isinstance(one, kind)), None) or kind()
        listener = make(settings, getattr(own, self.port_setting), self.setting, own=own)
        return listener
