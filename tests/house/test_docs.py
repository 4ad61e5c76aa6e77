"""The documents: what they name exists, and what exists is named."""

import os
import re
from functools import cache
from pathlib import Path

import click
import pytest
from coldnotify_cli.every_setting import OTHER_VARIABLES, all_settings
from coldnotify_cli.main import COMMANDS, cli
from coldnotify_common.settings import describe
from coldnotify_testkit import file_map as file_map_of_modules

ROOT = Path(__file__).parents[2]
BESIDE_DOCS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DOCS = [*(ROOT / name for name in BESIDE_DOCS), *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w./-]+\.(py|yaml|proto|json)")
_PATTERNS = {
    "X/tests/test_Y.py",
    "X/coldnotify_X/Y.py",
    "X.py",
    "tests/test_X.py",
    "partition.py",
    "registration-state.json",
}
"""Names that stand for others, or for files that an example makes."""


def name_of(path: Path) -> str:
    """The path as a person would write it."""
    return path.relative_to(ROOT).as_posix()


def file_map() -> dict[str, str]:
    """The table "File map" of ARCHITECTURE.md: the folder, and the rest of its row."""
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("## File map\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)/` \|(.*)\|$", section, re.MULTILINE)
    assert rows, "the table is not where it was"
    return dict(rows)


def packages() -> set[str]:
    """Every folder with modules that is not one of tests."""
    # Parts are in their own table; toys are added to it by a test.
    found = [path for path in file_map_of_modules.packages() if path.parent.name not in ("coldnotify_parts", "toys")]
    return {name_of(path) for path in found}


def is_in(table: dict[str, str], package: str) -> bool:
    """Returns whether the package has a row, or the row of the nearest folder around it names it."""
    if package in table:
        return True
    around = next((str(path) for path in Path(package).parents if str(path) in table), None)
    return around is not None and Path(package).relative_to(around).as_posix() in _CODE.findall(table[around])


@cache
def endings() -> set[str]:
    """What can be said of the tree's files, of each its path or the end of it; folders that begin with a dot not."""
    found = set()
    for root, folders, files in os.walk(ROOT):
        folders[:] = [folder for folder in folders if not folder.startswith(".") and folder != "node_modules"]
        for file in files:
            parts = (Path(root).relative_to(ROOT) / file).parts
            found |= {"/".join(parts[start:]) for start in range(len(parts))}
    return found


@cache
def settings_named() -> tuple[frozenset[str], frozenset[str]]:
    """All there are: their variables, their flags."""
    infos = [info for settings in all_settings() for info in describe(settings)]
    return frozenset(info.variable for info in infos) | set(OTHER_VARIABLES), frozenset(info.flag for info in infos)


def commands_in(text: str) -> set[str]:
    """The command lines that begin with `coldnotify` in a document's sh blocks and code."""
    lines = [line for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += _CODE.findall(text.replace("\\|", "|"))  # as a table has it
    return {line.partition(" #")[0].strip() for line in lines if line.startswith("coldnotify ")}


@pytest.mark.parametrize("doc", DOCS, ids=name_of)
def test_every_link_leads_somewhere(doc: Path) -> None:
    links = [link for link in _LINK.findall(doc.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (doc.parent / link).exists()] == []


def test_every_measurement_is_linked_from_the_page_of_performance() -> None:
    links = _LINK.findall((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert {f"measurements/{path.name}" for path in (ROOT / "docs" / "measurements").iterdir()} - set(links) == set()


def test_every_folder_of_the_file_map_exists() -> None:
    assert [folder for folder in file_map() if not (ROOT / folder).is_dir()] == []


def test_every_package_is_in_the_file_map() -> None:
    table = file_map()
    assert [package for package in sorted(packages()) if not is_in(table, package)] == []


def test_every_module_that_the_file_map_names_exists() -> None:
    missing = []
    for folder, row in file_map().items():
        if not (ROOT / folder / "__init__.py").exists():
            continue
        missing += [
            f"{folder}/{name}"
            for name in _CODE.findall(row)
            if re.fullmatch(r"[a-z_0-9]+", name) and name != "coldnotify"
            if not (ROOT / folder / f"{name}.py").exists() and not (ROOT / folder / name).is_dir()
        ]
    assert missing == []


@pytest.mark.parametrize("doc", DOCS, ids=name_of)
def test_every_file_that_is_named_exists(doc: Path) -> None:
    # Of file.py:Name only the file is looked for.
    words = (word.partition(":")[0] for word in _CODE.findall(doc.read_text(encoding="utf-8")))
    named = {word for word in words if _FILE.fullmatch(word)}
    assert named - endings() - _PATTERNS == set()


@pytest.mark.parametrize("doc", DOCS, ids=name_of)
def test_every_command_that_is_named_can_be_given(doc: Path) -> None:
    for line in commands_in(doc.read_text(encoding="utf-8")):
        command: click.Command = cli
        words = line.split()[1:]
        while isinstance(command, click.Group) and words:
            if words[0] in ("COMMAND", "NAME") or words[0].startswith("-"):
                break
            # `coldnotify topics plan|apply` names two.
            name = words.pop(0).split("|")[0]
            found = command.get_command(click.Context(command), name)
            assert found is not None, f"{line!r}: there is no {name!r}"
            command = found
        if command.context_settings.get("ignore_unknown_options"):
            continue
        flags = {flag for param in command.params for flag in param.opts} | {"--help"}
        used = [word.partition("=")[0] for word in words if word.startswith("--")]
        assert [flag for flag in used if flag not in flags] == [], line


def test_every_command_is_in_the_first_pages() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/getting-started.md"))
    assert [name for name in COMMANDS if f"coldnotify {name}" not in " ".join(text.split())] == []


@pytest.mark.parametrize("doc", DOCS, ids=name_of)
def test_every_setting_that_is_named_exists(doc: Path) -> None:
    variables, known_flags = settings_named()
    text = doc.read_text(encoding="utf-8")
    assert set(re.findall(r"(?<!_)COLDNOTIFY_[A-Z_]*[A-Z]", text)) - variables == set()
    flags = {flag for code in _CODE.findall(text) if re.fullmatch(r"--[a-z-]+", code) for flag in [code]}
    assert flags - known_flags - {"--once", "--json"} == set()


@pytest.mark.parametrize("doc", DOCS, ids=name_of)
def test_every_verb_that_is_named_is_in_the_makefile(doc: Path) -> None:
    verbs = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = doc.read_text(encoding="utf-8")
    named = {match for code in _CODE.findall(text) for match in re.findall(r"^make ([a-z]+)", code)}
    named |= {match for block in _FENCE.findall(text) for match in re.findall(r"^make ([a-z]+)", block, re.MULTILINE)}
    assert named - verbs == set()


def test_every_decision_is_in_the_list() -> None:
    decisions = {path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    listed = set(_LINK.findall((ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")))
    assert decisions == listed
    numbers = [name[:4] for name in decisions]
    assert len(set(numbers)) == len(numbers)


def test_make_alone_lists_every_verb_with_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (\w+)", makefile, re.MULTILINE))
    described = set(re.findall(r"^(\w+):.*## \S", makefile, re.MULTILINE))
    assert phony == described
