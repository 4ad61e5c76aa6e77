"""A line says when."""

import json
from pathlib import Path

from coldnotify_fault.history import HistoryFile


def test_each_line_has_its_time(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "a.jsonl")
    t = history.write("connecting", client="d/g/c")
    history.close()
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {"t": t, "event": "connecting", "client": "d/g/c"}
