"""The house in numbers: counts of its code that `tests/house/test_house_numbers.py` lets only fall.

`python -m coldnotify_testkit.house_numbers` prints them, with the lines of each folder.
"""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median

from coldnotify_testkit import english

ROOT = Path(__file__).parents[2]
_QUERY = re.compile(r"quer(y|ies)", re.IGNORECASE)
_FORMATS = {
    Path("checker/coldnotify_checker/histories.py"),
    Path("schemas/coldnotify_schemas/mqtt/packets.py"),
}
"""Their classes have the names of a format: the kinds of a history's lines, the packets of MQTT."""
_ONE_MEANING = {"LeasedMessage", "Newest", "Notify", "NotifyGroups", "Session", "Stream"}
"""Class names that several files have for the same thing: public forms, and one machine in several cores."""
TWO_MEANINGS = "class names with two meanings"
BOTH = "files that name queries and channels"
SET_FROM_OUTSIDE = "fields of another object that are set"
CLAUSES = "docstrings that begin with a clause"
OF_FIELDS = "docstrings of fields that begin with Of"
IS_NONE = "errors that say is no, or is none"
ODD_WORDS = "docstrings with anew, once more, be it, of which"
CLAUSE_TESTS = "tests named by a clause, or by of"
WORDS = "words of tracked Markdown"
SETTINGS, METRICS, ALERTS = "settings", "metrics", "alerts"
_ROWS = {
    SETTINGS: ("docs/settings.md", re.compile(r"^\| `(--[\w-]+)`", re.MULTILINE)),
    METRICS: ("docs/metrics.md", re.compile(r"^\| `(coldnotify_\w+)`", re.MULTILINE)),
    ALERTS: ("monitoring/prometheus/alerts.yml", re.compile(r"^ *- alert: (\w+)", re.MULTILINE)),
}
"""The tracked lists of what operators see, and a row of each."""

_ENGLISH = {
    CLAUSES: english.clauses,
    IS_NONE: english.is_none,
    ODD_WORDS: english.odd_words,
    OF_FIELDS: english.of_fields,
}


@cache
def shipped() -> Mapping[Path, str]:
    """Returns the texts of all modules but tests and generated ones, by their paths below the root."""
    paths = [path for path in _tracked("*.py") if "tests" not in path.parts and not path.name.endswith("_pb2.py")]
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def numbers() -> dict[str, int]:
    """Returns all counts, by name."""
    counts: Counter[str] = Counter()
    classes: defaultdict[str, set[Path]] = defaultdict(set)
    for path, text in shipped().items():
        counts[BOTH] += "channel" in text.lower() and _QUERY.search(text) is not None
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and path not in _FORMATS:
                classes[node.name].add(path)
            if isinstance(node, ast.Attribute):
                of_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                counts[SET_FROM_OUTSIDE] += isinstance(node.ctx, ast.Store) and not of_itself
        for name, find in _ENGLISH.items():
            counts[name] += sum(1 for _ in find(tree))
    for path in _tracked("*/test_*.py"):
        counts[CLAUSE_TESTS] += sum(1 for _ in english.clause_tests(ast.parse((ROOT / path).read_text("utf-8"))))
    counts[TWO_MEANINGS] = sum(len(where) > 1 for name, where in classes.items() if name not in _ONE_MEANING)
    for name, (listed, row) in _ROWS.items():
        counts[name] = len(set(row.findall((ROOT / listed).read_text(encoding="utf-8"))))
    counts[WORDS] = sum(len((ROOT / path).read_text(encoding="utf-8").split()) for path in _tracked("*.md"))
    return dict(sorted(counts.items()))


def lines_by_folder() -> Mapping[str, int]:
    """Returns the lines of shipped code, by package."""
    lines: Counter[str] = Counter()
    for path, text in shipped().items():
        depth = 3 if path.parts[0] in ("services", "clients") else 2
        lines["/".join(path.parts[:depth])] += text.count("\n")
    return dict(sorted(lines.items()))


def _tracked(pattern: str) -> Iterator[Path]:
    names = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return (Path(name) for name in names.splitlines() if (ROOT / name).exists())


def main() -> int:
    """Prints all numbers."""
    lines = {f"lines of {name}": number for name, number in lines_by_folder().items()}
    for name, number in {**numbers(), **lines}.items():
        print(f"{number:>8,}  {name}")
    log = subprocess.run(["git", "log", "--format=%s"], cwd=ROOT, capture_output=True, text=True, check=True)
    print(f"{median(map(len, log.stdout.splitlines())):>8,}  median length of commit subjects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
