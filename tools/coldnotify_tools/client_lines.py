"""The lines of the small clients by what they are for, as a table in docs/small-clients.md.

python -m coldnotify_tools.client_lines

A line counts if it holds code: blank lines, comments and docstrings do not. `--- NAME` in a comment begins a part.
"""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER, PAGE = ROOT / "clients" / "small", ROOT / "docs" / "small-clients.md"
FILES = {"Python": "client.py", "sh": "client.sh", "C": "client.c", "Go": "client.go"}
PARTS = ("base", "failover", "subscriber", "publisher")
_COMMENTS = {".py": "#", ".sh": "#", ".c": "/*", ".go": "//"}
_PART = re.compile(r"(?:#|//|/\*) --- (\w+)")
_TABLE = re.compile(r"\| client \|.*?\n\n", re.DOTALL)


def counted(path: Path) -> Counter[str]:
    """Returns the lines of code of a client's file, by part. Raises ValueError for a part of another name."""
    text = path.read_text(encoding="utf-8")
    ignored = _docstring_lines(text) if path.suffix == ".py" else set()
    found: Counter[str] = Counter()
    part, in_comment = PARTS[0], False
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if begun := _PART.match(line):
            part = begun[1]
            if part not in PARTS:
                raise ValueError(f"{path.name}:{number}: {part}: one of {', '.join(PARTS)} is expected")
        starts = line.startswith(_COMMENTS[path.suffix])
        if path.suffix == ".c":
            starts = (starts and "*/" not in line.removesuffix("*/")) or in_comment
            in_comment = starts and not line.endswith("*/")
        if line and not starts and number not in ignored:
            found[part] += 1
    return found


def _docstring_lines(text: str) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def table() -> str:
    """Returns the table, in Markdown."""
    rows = ["| client | " + " | ".join(PARTS) + " | all |", "|---" * (len(PARTS) + 2) + "|"]
    for name, file in FILES.items():
        lines = counted(FOLDER / file)
        numbers = [lines[part] for part in PARTS]
        rows.append(f"| [{name}](../clients/small/{file}) | " + " | ".join(map(str, (*numbers, sum(numbers)))) + " |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """Returns docs/small-clients.md with the table as it is now."""
    return _TABLE.sub(lambda _: table() + "\n", PAGE.read_text(encoding="utf-8"), count=1)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
