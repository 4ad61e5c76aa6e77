"""The file map, which `make map` prints: the first line of every package and module."""

import ast
import inspect
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

_HEAD = """# File map

Every package and its modules, each with the first line of its docstring. docs/ARCHITECTURE.md says what the folders are
for and where to begin.
"""


def packages(root: Path = ROOT) -> list[Path]:
    """Every package of the tree, outer ones before those within."""
    tops = [
        path
        for pattern in ("clients/python/coldnotify", "*/coldnotify_*", "services/*/coldnotify_*")
        for path in sorted(root.glob(pattern))
        if (path / "__init__.py").exists()
    ]
    return sorted(init.parent for top in tops for init in top.rglob("__init__.py"))


def docstring(module: Path) -> str:
    """A module's docstring; empty: it has none. What follows it is not parsed, which takes longest."""
    with tokenize.open(module) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return inspect.cleandoc(ast.literal_eval(token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                return ""
    return ""


def first_sentence(module: Path) -> str:
    """Returns the first paragraph of the module's docstring as one line; "" if it has none."""
    return re.sub(r"\s+", " ", docstring(module).partition("\n\n")[0]).strip().replace("|", "\\|")


def generate(root: Path = ROOT) -> str:
    """The file map as Markdown."""
    return "\n".join([_HEAD, *(_section(package, root) for package in packages(root))])


def _section(package: Path, root: Path) -> str:
    rows = [f"| `{module.name}` | {first_sentence(module)} |\n" for module in _modules(package)]
    table = "\n| module | what it is for |\n|---|---|\n" + "".join(rows) if rows else ""
    return f"## `{package.relative_to(root).as_posix()}/`\n\n{first_sentence(package / '__init__.py')}\n{table}"


def _modules(package: Path) -> Iterator[Path]:
    yield from (
        module
        for module in sorted(package.glob("*.py"))
        if module.name not in ("__init__.py", "__main__.py") and not module.name.endswith("_pb2.py")
    )


if __name__ == "__main__":
    print(generate(), end="")
