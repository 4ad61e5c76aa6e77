"""The table of sources' kinds: a line for each folder, whose `row.py` has its row."""

import importlib
import importlib.util

from coldnotify_auto.source import Source, SourceRow
from coldnotify_auto.yaml_sections import Section

FOLDERS = (
    "folder",
    "url",
    "postgres",
)


def read_source(name: str, section: Section) -> Source:
    """Returns the source of a section of the file. Raises AutoFileError."""
    expected = f"one of {', '.join(FOLDERS)}"
    kind = section.text("kind", expected)
    if kind not in FOLDERS:
        raise section.fault("kind", f"expected {expected}, found {kind!r}")
    row = importlib.import_module(f"{__package__}.{kind}.row").ROW
    if not isinstance(row, SourceRow) or row.name != kind:
        raise TypeError(f"{__package__}/{kind}/row.py: ROW must be a SourceRow whose name is {kind!r}")
    if row.needs and importlib.util.find_spec(row.needs) is None:
        raise section.fault("kind", f"{kind} needs {row.extra}: pip install '{row.extra}'")
    source = row.read(name, section)
    section.end()
    return source
