"""Golden records: the same tree reproduces them, and a byte that differs is found."""

from pathlib import Path

import pytest
from coldnotify_gateway.core import Frame, encoding
from coldnotify_simulation import golden

SEED = 3


def test_the_same_tree_reproduces_what_it_recorded(tmp_path: Path) -> None:
    golden.record(tmp_path, SEED)
    assert golden.compare(tmp_path, SEED) == ""
    assert "is not recorded" in golden.compare(tmp_path, SEED + 1)


def test_a_different_byte_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden.record(tmp_path, SEED)
    page = encoding.page
    monkeypatch.setattr(encoding, "page", lambda *args, **more: [*page(*args, **more), Frame(b"\x02\x7a\x00")])
    assert golden.compare(tmp_path, SEED).startswith(f"seed {SEED}, line ")


def test_the_first_different_line_is_shown_with_its_predecessors() -> None:
    kept = [f"{number}" for number in range(9)]
    assert golden.difference(7, kept, kept) == ""
    assert golden.difference(7, kept, [*kept[:8], "x"]) == "\n  ".join(["seed 7, line 8:", *kept[2:8], "- 8", "+ x"])
    assert golden.difference(7, kept, kept[:8]).endswith("- 8\n  + None")
