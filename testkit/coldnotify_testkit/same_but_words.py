"""Compares the tree with a revision: nothing but docstrings, comments and the words of errors and logs may differ.

`python -m coldnotify_testkit.same_but_words BASE` compares every changed `.py`, `.ts` and `.proto` file, prints the
strings of `raise` statements and log calls that differ, and exits with 1 if anything else does. `--strings` allows any
string to differ, and prints it. Names of tests may differ. Other files are not compared.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
"""Methods that log. Besides, `Say(...)` is a log call of a pure core."""
_PRAGMA = re.compile(r"#\s*(noqa|type:|pragma|fmt:|nosec)")
_CONVERSION = re.compile(r"%[-#0 +]*[\d.*]*[a-zA-Z%]")
_TYPESCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<kept>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`
    |(?<=[(,=:\[!&|?{};])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*)""",
    re.DOTALL | re.VERBOSE,
)
"""Comments, and the literals that may contain what looks like one."""

_WORDS = "<words>"


class _Words(ast.NodeTransformer):
    """Removes docstrings, replaces the names of tests, and puts aside the strings of errors and log calls."""

    def __init__(self, *, strings: bool, is_test: bool) -> None:
        self._is_free = strings
        """True where any string may differ."""
        self._is_test = is_test
        self.texts: list[str] = []
        """The strings that may differ, in order."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_docstring else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self._freely(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_log = (isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS) or (
            isinstance(node.func, ast.Name) and node.func.id == "Say"
        )
        return self._freely(node) if is_log else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._named(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._named(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not self._is_free or not isinstance(node.value, str):
            return node
        self.texts.append(node.value)
        return ast.Constant(_WORDS + "".join(_CONVERSION.findall(node.value)))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        if not self._is_free:
            return self.generic_visit(node)
        self.texts.append(ast.unparse(node))
        values = sorted(ast.unparse(value) for value in node.values if isinstance(value, ast.FormattedValue))
        return ast.Constant(_WORDS + "".join(values))

    def _freely(self, node: ast.AST) -> ast.AST:
        before, self._is_free = self._is_free, True
        node = self.generic_visit(node)
        self._is_free = before
        return node

    def _named(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if self._is_test and node.name.startswith("test_"):
            self.texts.append(node.name)
            node = type(node)(**{**dict(ast.iter_fields(node)), "name": "test_"})
        return self.generic_visit(node)


def python(text: str, *, strings: bool = False, is_test: bool = False) -> tuple[str, list[str]]:
    """Returns a Python module's code, which may not differ, and its strings that may."""
    words = _Words(strings=strings, is_test=is_test)
    tree = words.visit(ast.parse(text))
    pragmas = Counter(
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and _PRAGMA.match(token.string)
    )
    return f"{ast.dump(tree)}\n{sorted(pragmas.items())}", words.texts


def braces(text: str) -> str:
    """Returns a TypeScript or protobuf file without its comments and its line breaks."""
    bare = _TYPESCRIPT.sub(lambda found: found["kept"] or "", text)
    return re.sub(r"\s+", " ", bare)


def differences(path: str, before: str, after: str, *, strings: bool) -> tuple[bool, list[str]]:
    """Returns true if a file differs in words alone, and a line for each string of them that differs."""
    if not path.endswith(".py"):
        return braces(before) == braces(after), []
    is_test = Path(path).name.startswith("test_")
    kept, old = python(before, strings=strings, is_test=is_test)
    kept_now, new = python(after, strings=strings, is_test=is_test)
    return kept == kept_now, [f"{one!r} -> {other!r}" for one, other in zip_longest(old, new) if one != other]


def _changed(base: str) -> Iterator[tuple[str, str, str]]:
    """Yields the path, the former and the present text of each changed file; a file that is missing is empty."""
    for path in _git("diff", "--name-only", "--no-renames", base).splitlines():
        if path.endswith((".py", ".ts", ".proto")):
            listed = _git("ls-tree", "--name-only", base, "--", path)
            now = ROOT / path
            yield path, _git("show", f"{base}:{path}") if listed else "", now.read_text("utf-8") if now.exists() else ""


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Compares all changed files; returns 1 if one differs in more than words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the revision to compare the working tree with")
    parser.add_argument("--strings", action="store_true", help="let other strings differ, too")
    args = parser.parse_args()
    others = []
    for path, before, after in _changed(args.base):
        is_same, texts = differences(path, before, after, strings=args.strings)
        print("".join(f"{path}: {text}\n" for text in texts), end="")
        others += [] if is_same else [path]
    print("".join(f"{path}: differs in more than words\n" for path in others), end="")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
