"""The table of parts: a line for each folder, whose `row.py` has its row."""

import importlib

from coldnotify_parts.row import PartRow


def _row(name: str) -> PartRow:
    row = importlib.import_module(f"{__package__}.{name}.row").ROW
    if not isinstance(row, PartRow) or row.name != name:
        raise TypeError(f"{__package__}/{name}/row.py: ROW must be a PartRow whose name is {name!r}")
    return row


_FOLDERS = (
    "matcher",
    "gateway",
    "http",
    "usage",
    "hooks",
)
PARTS = tuple(_row(name) for name in _FOLDERS)
