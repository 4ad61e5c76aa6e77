"""The table of parts: each row names existing things.

Stands for: row, panels
"""

from collections import Counter
from dataclasses import fields
from pathlib import Path

import coldnotify_parts
import pytest
from coldnotify_common.imported import imported, settings_classes
from coldnotify_common.settings import describe
from coldnotify_parts import registry
from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow


def test_every_folder_has_its_line() -> None:
    folders = {path.parent.name for path in Path(coldnotify_parts.__file__).parent.glob("*/__init__.py")}
    assert folders == {row.name for row in PARTS}


def test_nobody_is_taken_for_another() -> None:
    for field in ("name", "title", "app", "port_setting", "port"):
        counts = Counter(getattr(row, field) for row in PARTS)
        assert max(counts.values()) == 1, field
    keys = [key for row in PARTS for key in (row.ready_key, row.ready_list) if key]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("row", PARTS, ids=lambda row: row.name)
def test_what_a_row_names_is_there(row: PartRow) -> None:
    classes = settings_classes(row.settings)
    (port,) = (info for cls in classes for info in describe(cls) if info.name == row.port_setting)
    assert port.default == row.port
    assert port.flag == row.flag
    assert callable(imported(row.app).run)
    assert all(imported(name) for name in row.metrics)


@pytest.mark.parametrize("row", PARTS, ids=lambda row: row.name)
def test_a_row_is_data(row: PartRow) -> None:
    assert not [field.name for field in fields(row) if callable(getattr(row, field.name))]


def test_containers_have_a_number_where_there_are_several() -> None:
    hosts = {row.name: row.hosts for row in PARTS}
    assert hosts["matcher"] == ("matcher-1", "matcher-2")
    assert hosts["usage"] == ("usage",)


@pytest.mark.parametrize("code", ["ROW = None", "from coldnotify_parts.http.row import ROW"])
def test_a_row_that_is_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (tmp_path / f"planted{len(code)}").mkdir()
    (tmp_path / f"planted{len(code)}" / "__init__.py").write_text("")
    (tmp_path / f"planted{len(code)}" / "row.py").write_text(code)
    monkeypatch.setattr(coldnotify_parts, "__path__", [*coldnotify_parts.__path__, str(tmp_path)])
    with pytest.raises(TypeError, match=r"planted\d+/row\.py: ROW must be a PartRow whose name is 'planted"):
        registry._row(f"planted{len(code)}")
