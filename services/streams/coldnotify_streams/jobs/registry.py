"""The table of jobs, each of them a folder here whose `row.py` defines its row as ROW.

Commands and docs that start, show or document such jobs use this table. It imports nothing else of them. The matcher
has no row: gateways and HTTP services know it by name.
"""

import importlib
from pathlib import Path

from coldnotify_streams.jobs.row import Row


def rows_of(folder: Path, package: str) -> tuple[Row, ...]:
    """Returns the rows of the folders that have one, by name."""
    rows = []
    for name in sorted(path.parent.name for path in folder.glob("*/row.py")):
        row = importlib.import_module(f"{package}.{name}.row").ROW
        if not isinstance(row, Row) or row.name != name:
            raise TypeError(f"jobs/{name}/row.py: ROW must be a Row whose name is {name!r}")
        rows.append(row)
    return tuple(rows)


JOBS = rows_of(Path(__file__).parent, "coldnotify_streams.jobs")
