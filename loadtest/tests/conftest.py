"""What tests of experiments share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.command import main


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs an experiment quickly, with changed parameters ("cases=matcher"), and gives its result's rows."""

    def run(name: str, *changes: str) -> list[dict[str, Any]]:
        assert main(["--quick", *(f"--set={change}" for change in changes), "--results", str(tmp_path), name]) == 0
        rows: list[dict[str, Any]] = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
        return rows

    return run
