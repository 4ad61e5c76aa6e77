"""The house in numbers: what is counted of its code, and what `tests/house/test_house_numbers.py` lets only fall.

`python -m coldnotify_testkit.house_numbers` prints them, with the lines of each folder.
"""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
_CLAUSE = re.compile(r"(What|Who|Whose|Which|Whether|Where|How)\b")
_IS_NONE = re.compile(r"\bis (no|none)\b")
_QUERY = re.compile(r"quer(y|ies)", re.IGNORECASE)
TWO_MEANINGS = "class names with two meanings"
BOTH = "files that name queries and channels"
SET_FROM_OUTSIDE = "fields of another object that are set"
CLAUSES = "docstrings that begin with a clause"
OF_FIELDS = "docstrings of fields that begin with Of"
IS_NONE = "errors that say is no, or is none"
WORDS = "words of tracked Markdown"


@cache
def shipped() -> Mapping[Path, str]:
    """The text of the modules that are no tests and are not generated, by their path below the root."""
    paths = [path for path in _tracked("*.py") if "tests" not in path.parts and not path.name.endswith("_pb2.py")]
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def numbers() -> dict[str, int]:
    """All that is counted, by name."""
    counts: Counter[str] = Counter()
    classes: defaultdict[str, set[Path]] = defaultdict(set)
    for path, text in shipped().items():
        counts[BOTH] += "channel" in text.lower() and _QUERY.search(text) is not None
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(path)
            _count(node, counts)
    counts[TWO_MEANINGS] = sum(len(where) > 1 for where in classes.values())
    counts[WORDS] = sum(len((ROOT / path).read_text(encoding="utf-8").split()) for path in _tracked("*.md"))
    return dict(sorted(counts.items()))


def lines_by_folder() -> Mapping[str, int]:
    """Of shipped code, by package."""
    lines: Counter[str] = Counter()
    for path, text in shipped().items():
        depth = 3 if path.parts[0] in ("services", "clients") else 2
        lines["/".join(path.parts[:depth])] += text.count("\n")
    return dict(sorted(lines.items()))


def _count(node: ast.AST, counts: Counter[str]) -> None:
    if isinstance(node, ast.Attribute):
        of_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        counts[SET_FROM_OUTSIDE] += isinstance(node.ctx, ast.Store) and not of_itself
    elif isinstance(node, ast.Raise):
        texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
        counts[IS_NONE] += any(isinstance(text, str) and _IS_NONE.search(text) for text in texts)
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        counts[CLAUSES] += _CLAUSE.match(ast.get_docstring(node) or "") is not None
        for before, one in pairwise(node.body):
            is_field = isinstance(before, ast.Assign | ast.AnnAssign)
            if is_field and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                counts[OF_FIELDS] += str(one.value.value).startswith("Of ")


def _tracked(pattern: str) -> Iterator[Path]:
    names = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return (Path(name) for name in names.splitlines() if (ROOT / name).exists())


def main() -> int:
    """Prints them."""
    lines = {f"lines of {name}": number for name, number in lines_by_folder().items()}
    for name, number in {**numbers(), **lines}.items():
        print(f"{number:>8,}  {name}")
    log = subprocess.run(["git", "log", "--format=%s"], cwd=ROOT, capture_output=True, text=True, check=True)
    print(f"{median(map(len, log.stdout.splitlines())):>8,}  median length of commit subjects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
