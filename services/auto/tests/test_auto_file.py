"""The file of `coldnotify auto`: what it takes, and errors with file, line, key and what was expected.

Stands for: source_kinds, row, source, yaml_sections
"""

from pathlib import Path

import coldnotify_auto.sources
import pytest
from coldnotify_auto.auto_file import read_auto_file
from coldnotify_auto.sources import source_kinds
from coldnotify_auto.yaml_sections import AutoFileError

GOOD = """\
sources:
  settings:
    kind: folder
    folder: files
    domain: animal.observer
    group: region-1
    object: "{name}"
  weather:
    kind: url
    url: http://127.0.0.1:1/now
    domain: animal.observer
    group: region-1
    object: weather
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "auto.yaml"
    file.write_text(text)
    return file


def test_a_good_file_gives_its_sources(tmp_path: Path) -> None:
    assert [one.name for one in read_auto_file(written(tmp_path, GOOD))] == ["settings", "weather"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("kind: folder", "kind: floder", 3, "sources.settings.kind: expected one of folder, url"),
        ("    folder: files\n", "", 3, "sources.settings.folder: is missing, expected a folder"),
        ("group: region-1\n    object: \"", "grup: region-1\n    object: \"", 3, "sources.settings.group: is missing"),
        ("{name}", "{fps}", 7, "sources.settings.object: unknown column 'fps', expected one of folder, name, path"),
        ("{name}", "all", 7, "sources.settings.object: expected {path}, {name} or {stem}"),
        ("{name}", "{name:5}", 7, "sources.settings.object: expected a name with columns in braces"),
        ("{name}", "{", 7, "sources.settings.object: expected a name with columns in braces"),
        ("http://127", "file:///127", 10, "sources.weather.url: 'file:///127.0.0.1:1/now' is not a URL"),
        ("object: weather", "object: weather\n    evry_s: 5", 14, "sources.weather.evry_s: unknown key, expected"),
        ("object: weather", "every_s: 0\n    object: weather", 13, "sources.weather.every_s: expected seconds"),
        ("domain: animal.observer", "domain: animal observer", 5, "sources.settings.domain: expected"),
        ("kind: url", "kind: url\n    kind: url", 10, "sources.weather.kind: is there twice"),
        ("  weather:", "  the weather:", 9, "sources.the weather: name: 'the weather' is not a name"),
        ("sources:", "source:", 1, "sources: is missing"),
        ("    kind: url", "   kind: url", 10, "is not YAML"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_key_and_what_was_expected(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    file = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(AutoFileError) as raised:
        read_auto_file(file)
    assert str(raised.value).startswith(f"{file}:{line}: {words}")


@pytest.mark.parametrize("text", ["", "- a", "a: [", "sources: {}", "sources: {a: 5}", "a: b\n\x00"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AutoFileError, match=r"auto\.yaml:1: "):
        read_auto_file(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AutoFileError, match=r"gone\.yaml: cannot be read: No such file"):
        read_auto_file(tmp_path / "gone.yaml")


def test_the_next_kind_is_a_folder_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("")
    (tmp_path / "toy" / "row.py").write_text(
        "from coldnotify_auto.source import SourceRow\n"
        "class Toy:\n"
        "    def __init__(self, name, section):\n"
        "        self.name, self.size = name, section.number('size', 'a size', 1, minimum=0, maximum=9)\n"
        "ROW = SourceRow(name='toy', read=Toy)\n"
    )
    monkeypatch.setattr(coldnotify_auto.sources, "__path__", [*coldnotify_auto.sources.__path__, str(tmp_path)])
    monkeypatch.setattr(source_kinds, "FOLDERS", (*source_kinds.FOLDERS, "toy"))
    (toy,) = read_auto_file(written(tmp_path, "sources: {one: {kind: toy, size: 3}}"))
    assert vars(toy) == {"name": "one", "size": 3}
    with pytest.raises(AutoFileError, match=r"auto\.yaml:1: sources\.one\.sise: unknown key.*did you mean size"):
        read_auto_file(written(tmp_path, "sources: {one: {kind: toy, sise: 3}}"))


def test_every_folder_has_its_line() -> None:
    folders = {path.parent.name for path in Path(source_kinds.__file__).parent.glob("*/row.py")}
    assert folders == set(source_kinds.FOLDERS)
