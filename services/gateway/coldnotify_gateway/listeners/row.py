"""A row of the table of listeners: the data that the table's readers need, without an import of the listener."""

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
    """The setting of its port, in `coldnotify gateway` and in `coldnotify up`."""
    port_key: str
    """Name of its port in the gateway's log and in /v1/gateway."""
    ready_key: str
    """Name of its address in the ready file of `coldnotify up`."""
    beside: int
    """Default port of `coldnotify up`, as the distance from the first listener's port."""
    module: str
    class_name: str
    usual_port: int = 0
    """Default port of `coldnotify up`, if it is free, in place of the one that `beside` says; 0: none."""
    settings: str = ""
    """`module:Class` of the listener's own settings, `port_setting` among them; "": they are in GatewaySettings."""

    @property
    def flag(self) -> str:
        """Returns the setting's name on the command line."""
        return "--" + self.port_setting.replace("_", "-")

    @property
    def setting(self) -> str:
        """Returns the setting's names, for the text of errors."""
        return f"COLDNOTIFY_{self.port_setting.upper()} / {self.flag}"

    def make(self, settings: "GatewaySettings", others: Sequence[Settings] = ()) -> "Listener":
        """Creates the listener, which then holds its port. Its own settings are in `others`, or are the defaults.

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
