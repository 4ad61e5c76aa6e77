"""The table of listeners: a line for each folder, whose `row.py` has its row (docs/extending.md).

All code that starts, stops, shows or documents listeners reads this table. `coldnotify up` reads it, too, and needs
nothing else of the gateway: so a listener is imported only at its use.
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
    "mqtt",
)
LISTENERS = tuple(_row(name) for name in _FOLDERS)
"""The listeners. A starting gateway serves the first one at once; the others may follow later."""
TCP = LISTENERS[0]
OWN_SETTINGS = settings_classes(row.settings for row in LISTENERS if row.settings)
"""The settings of those listeners whose settings are not in GatewaySettings."""
