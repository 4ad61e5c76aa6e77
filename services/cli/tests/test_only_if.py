"""`coldnotify publish` with a condition prints what the service answers, and fails where it did not hold."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from coldnotify.http_publisher import HttpPublisher, Newest, PublishError, SetConflict, SetFault, VersionConflict
from coldnotify.publisher import Published
from coldnotify_cli.main import cli

ABOUT = ["publish", "d", "g", "o"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls of the publisher; the first element, if one is put there, is raised."""
    calls: list[dict[str, Any]] = []

    def publish(_publisher: HttpPublisher, *about: str, **fields: Any) -> Published:
        if fields["if_version"] == 4 if "if_version" in fields else False:
            raise VersionConflict("if_version: another version is the newest", Newest(7))
        if "if_absent" in fields:
            raise PublishError("nobody answers", indeterminate=True)
        calls.append({"about": about, **fields})
        return Published(8, 3, 40)

    monkeypatch.setattr(HttpPublisher, "publish", publish)
    return calls


def run(*flags: str) -> Any:
    return CliRunner().invoke(cli, [*ABOUT, *flags], standalone_mode=False)


def test_the_place_of_a_publish_is_printed(asked: list[dict[str, Any]]) -> None:
    result = run("--payload", "7", "--if-version", "0")
    assert (result.return_value, result.output) == (0, "version 8  partition 3  offset 40\n")
    assert asked[0]["about"] == ("d", "g", "o")
    assert (asked[0]["payload"], asked[0]["if_version"]) == (7, 0)
    shown = run("--if-changed", "--json")
    assert json.loads(shown.stdout) == {"version": 8, "partition": 3, "offset": 40, "outcome": "published"}


def test_a_condition_that_did_not_hold_is_said_with_the_newest_version(asked: list[dict[str, Any]]) -> None:
    result = run("--if-version", "4", "--json")
    assert result.return_value == 1
    assert json.loads(result.stdout) == {"outcome": "refused", "newest": {"version": 7, "published_ms": None}}
    assert "the newest version is 7" in result.stderr
    assert asked == []


def test_errors_are_one_line(asked: list[dict[str, Any]]) -> None:
    assert str(run("--if-absent").exception) == "nobody answers"
    for flags in (["--history", "h"], ["--describe", "a=b"]):
        assert "--if-changed: cannot be combined with" in str(run("--if-changed", *flags).exception)
    assert asked == []


def test_several_are_published_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[object, ...]] = []

    def publish_atomic(_publisher: HttpPublisher, *about: object) -> list[Published]:
        calls.append(about)
        return [Published(8, 3, 40), Published(1, 3, 40)]

    monkeypatch.setattr(HttpPublisher, "publish_atomic", publish_atomic)
    file = tmp_path / "set.json"
    file.write_text('[{"object": "a", "if_version": 7}, {"object": "b", "payload": 1}]')
    result = CliRunner().invoke(cli, ["publish", "d", "g", "--atomic", str(file)], standalone_mode=False)
    assert (result.return_value, result.output) == (0, "a  version 8\nb  version 1\npartition 3  offset 40\n")
    assert calls == [("d", "g", [("a", {"if_version": 7}), ("b", {"payload": 1})])]


def test_the_objects_at_fault_are_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def publish_atomic(_publisher: HttpPublisher, *_about: object) -> list[Published]:
        raise SetConflict("refused", {"b": SetFault("set[1].if_version: another version is the newest", Newest(7))})

    monkeypatch.setattr(HttpPublisher, "publish_atomic", publish_atomic)
    file = tmp_path / "set.json"
    file.write_text('[{"object": "a"}, {"object": "b", "if_version": 4}]')
    result = CliRunner().invoke(cli, ["publish", "d", "g", "--atomic", str(file), "--json"], standalone_mode=False)
    assert result.return_value == 1
    assert json.loads(result.output.splitlines()[0])["members"][0]["newest"]["version"] == 7
    assert "d/g/b: set[1].if_version: another version is the newest; the newest version is 7" in result.output


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("{}", [], "expected a list of versions"),
        ("[", [], "is not JSON"),
        ('[{"payload": 1}]', [], r"set\[0\].object: is missing"),
        ("[]", ["--version", "3"], "--atomic: cannot be combined with --version"),
        ("[]", ["o"], "--atomic: cannot be combined with OBJECT"),
        ("[]", ["--describe", "a=1"], "--atomic: cannot be combined with --describe"),
    ],
)
def test_a_bad_file_or_flag_is_refused(tmp_path: Path, text: str, flags: list[str], words: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(text)
    with pytest.raises(click.UsageError, match=words):
        CliRunner().invoke(
            cli, ["publish", "d", "g", *flags, "--atomic", str(file)], standalone_mode=False, catch_exceptions=False
        )


def test_an_object_is_needed() -> None:
    with pytest.raises(click.MissingParameter):
        CliRunner().invoke(cli, ["publish", "d", "g"], standalone_mode=False, catch_exceptions=False)
