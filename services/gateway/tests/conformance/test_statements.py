"""The tables of what MQTT asks of a server hold: each statement once, with a verdict, and a test that is there."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
HEADER = ["statement", "asks", "verdict", "where"]
VERDICTS = {"test", "not applicable", "deviates", "client's duty"}
_ID = re.compile(r"\d+\.\d+\.\d+-\d+")
_NODE = re.compile(r"([\w/]+\.py)::(\w+)(?:\[(\w+)\])?")


class Statement(NamedTuple):
    """A row of a table."""

    id: str
    asks: str
    verdict: str
    where: str
    """Tests, as `path::name` or `path::name[case]`, or the reason for which there is none, which may name some."""


def table(version: str) -> list[Statement]:
    """The statements of a version of the standard."""
    lines = (HERE / f"mqtt_{version}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == HEADER
    assert {len(row) for row in rows} == {len(HEADER)}
    return [Statement(*row) for row in rows[1:]]


@cache
def functions(path: str) -> Mapping[str, str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {one.name: path for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


@cache
def texts(path: str) -> frozenset[str]:
    """The constant texts in a file, as the names of cases are."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and type(one.value) is str)


@pytest.mark.parametrize(("version", "number"), [("5_0", 251), ("3_1_1", 141)])
def test_each_statement_is_there_once_with_a_verdict(version: str, number: int) -> None:
    found = table(version)
    ids = [one.id for one in found]
    assert len(set(ids)) == len(ids) == number
    assert not [one for one in ids if not _ID.fullmatch(one)]
    assert {one.verdict for one in found} <= VERDICTS
    assert not [one.id for one in found if not one.asks or not one.where]
    sections: dict[str, list[int]] = {}
    for one in ids:
        section, _, place = one.partition("-")
        sections.setdefault(section, []).append(int(place))
    # 5.0 has no 2.2.1-1.
    gaps = {name: seen for name, seen in sections.items() if seen != [*range(seen[0], seen[0] + len(seen))]}
    assert not gaps
    assert {name for name, seen in sections.items() if seen[0] != 1} <= {"2.2.1"}


@pytest.mark.parametrize("version", ["5_0", "3_1_1"])
def test_the_tests_that_are_named_are_there(version: str) -> None:
    missing = []
    for one in table(version):
        named = _NODE.findall(one.where)
        if one.verdict == "test":
            assert named, f"{one.id}: no test"
            assert not _NODE.sub("", one.where).strip(), f"{one.id}: names more than tests"
        missing += [
            f"{one.id}: {path}::{name}[{case}]"
            for path, name, case in named
            if not (ROOT / path).is_file() or name not in functions(path) or (case and case not in texts(path))
        ]
    assert not missing, "\n".join(missing)


def test_the_documentation_says_the_counts() -> None:
    text = " ".join((ROOT / "docs" / "mqtt.md").read_text(encoding="utf-8").split())
    for version in ("5_0", "3_1_1"):
        counts = Counter(one.verdict for one in table(version))
        said = f"{counts['test']} by tests, {counts['deviates']} deviate"
        assert f"/mqtt_{version}.tsv" in text
        assert said in text, f"{version}: {said}"
