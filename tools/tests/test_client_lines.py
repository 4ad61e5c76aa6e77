"""The table of the small clients' lines is true, and they stay small."""

from pathlib import Path

import pytest
from coldnotify_tools.client_lines import FILES, FOLDER, PAGE, PARTS, counted, page

MOST = {
    "client.py": {"base": 105, "failover": 60, "subscriber": 28, "publisher": 33},
    "client.go": {"base": 175, "failover": 111, "subscriber": 65, "publisher": 69},
}
"""Lines of clients of the same kind for another service."""


def test_the_pages_table_is_what_there_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make docs"
    assert {path.name for path in FOLDER.glob("client.*")} == set(FILES.values())


@pytest.mark.parametrize("file", MOST)
def test_each_part_is_smaller_than_another_services(file: str) -> None:
    lines = counted(FOLDER / file)
    assert {part: lines[part] for part in PARTS if lines[part] >= MOST[file][part]} == {}


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Words\n\nmore."""\nx = """a\nb"""  # that\n# --- failover: f\n\ny = 1\n', [2, 1, 0, 0]),
        ("a.c", "/* a\n * b */\nint a; /* c */\n/* --- publisher */\n/* d\ne\n*/\nint b;\n", [1, 0, 0, 1]),
        ("a.go", "// a\nx := 1 // b\n\n// --- subscriber\ny := 2\n", [1, 0, 1, 0]),
        ("a.sh", "#!/bin/sh\n# a\nx=1\n# --- base: b\ny=2\n", [2, 0, 0, 0]),
    ],
)
def test_only_code_counts(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = counted(tmp_path / name)
    assert [found[part] for part in PARTS] == lines


def test_a_part_of_another_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("# --- others\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.sh:1: others"):
        counted(tmp_path / "a.sh")
