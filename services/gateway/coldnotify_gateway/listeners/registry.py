"""The table of listeners: a line for each folder, whose `row.py` has its row (docs/extending.md).

Whoever starts, stops, shows or documents listeners goes through this table. `coldnotify up` reads it, too, which needs
nothing else of the gateway: so a listener is imported only when asked for.
"""

import importlib

from coldnotify_common.imported import settings_classes

from coldnotify_gateway.listeners.row import ListenerRow


def _row(name: str) -> ListenerRow:
    row = importlib.import_module(f"{__package__}.{name}.row").ROW
    if not isinstance(row, ListenerRow) or row.name != name:
        raise TypeError(f"listeners/{name}/row.py: ROW must be a Row whose name is {name!r}")
    return row


_FOLDERS = (
    "tcp",
    "web",
)
LISTENERS = tuple(_row(name) for name in _FOLDERS)
"""The first one is served at once when a gateway starts; the others may take their time."""
TCP = LISTENERS[0]
OWN_SETTINGS = settings_classes(row.settings for row in LISTENERS if row.settings)
"""The settings of those listeners whose settings are not in GatewaySettings."""
