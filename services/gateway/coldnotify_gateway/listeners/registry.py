"""The table of listeners: those that ship, and each other folder here that has a row of its own (docs/extending.md).

Whoever starts, stops, shows or documents listeners goes through this table. `coldnotify up` reads it, too, which needs
nothing else of the gateway: so a listener is imported only when asked for.
"""

import importlib
from dataclasses import make_dataclass
from pathlib import Path
from typing import TypeVar

from coldnotify_common.settings import Settings

from coldnotify_gateway.listeners.row import Row

S = TypeVar("S", bound=Settings)


def _added(folder: Path, shipped: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows of the folders that are not among the shipped: ROW of each one's `row.py`."""
    names = sorted({path.parent.name for path in folder.glob("*/row.py")} - {row.name for row in shipped})
    rows = []
    for name in names:
        row = importlib.import_module(f"{__package__}.{name}.row").ROW
        if not isinstance(row, Row) or row.name != name or row.settings is None:
            raise TypeError(f"listeners/{name}/row.py: ROW must be a Row whose name is {name!r}, with its settings")
        rows.append(row)
    return tuple(rows)


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
SHIPPED = (TCP, WEB)
"""The first one is served at once when a gateway starts; the others may take their time."""
LISTENERS = (*SHIPPED, *_added(Path(__file__).parent, SHIPPED))


def listeners_of(settings: Settings) -> tuple[Row, ...]:
    """The rows whose port the settings say: all of them, where the settings class is `with_added`."""
    return tuple(row for row in LISTENERS if hasattr(settings, row.port_setting))


def with_added(settings: type[S]) -> type[S]:
    """A gateway's settings class, with the settings of the listeners that do not ship."""
    added = tuple(row.settings for row in LISTENERS if row.settings is not None)
    if not added:
        return settings
    return make_dataclass(settings.__name__, (), bases=(*added, settings), frozen=True, kw_only=True)
