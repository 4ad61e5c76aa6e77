"""The documentation's site: that its navigation names every document, and nothing that is not there."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coldnotify_kafka.yaml_text import read_yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"api/python.md", "api/browser.md", "api/http.md", "file-map.md"}
"""Made when the site is made."""


def named(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from named(value) if isinstance(value, list) else [value]


def elsewhere() -> list[str]:
    tree = ast.parse((DOCS / "site" / "pages.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ELSEWHERE"
    )
    return list(ast.literal_eval(value))


def test_the_navigation_names_every_document() -> None:
    said = set(named(read_yaml((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    folders = {name for name in said if name.endswith("/")}
    documents = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    in_folders = {name for name in documents if f"{name.partition('/')[0]}/" in folders}
    assert said - folders - GENERATED - set(elsewhere()) == documents - in_folders
    assert all((DOCS / folder).is_dir() for folder in folders)
    assert all((ROOT / path).is_file() for path in elsewhere())
