"""`coldnotify publish` with a condition prints what the service answers, and fails where it did not hold."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from coldnotify.http_publisher import HttpPublisher, Newest, PublishError, SetConflict, SetFault, VersionConflict
from coldnotify.publisher import Published
from coldnotify_checker import judge, read_histories
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
    assert "--if-changed: cannot be combined with" in str(run("--if-changed", "--describe", "a=b").exception)
    assert asked == []


def events_of(history: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in history.read_text().splitlines()]


def test_the_history_says_conditions_and_what_became_of_them(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    for number, flags in enumerate((["--if-version", "7"], ["--if-version", "4"], ["--if-absent"])):
        run("--payload", str(number), *flags, "--history", str(history))
    assert len(asked) == 1
    begun, done, refused_call, refused, unknown_call, unknown = events_of(history)
    assert (begun["object"], begun["if_version"], done["outcome"], done["version"]) == ("d/g/o", 7, "acknowledged", 8)
    assert (refused_call["if_version"], refused["outcome"]) == (4, "failed")
    assert (refused["lost"], refused["newest"]) == (True, 7)
    assert (unknown_call["if_absent"], unknown["outcome"]) == (True, "unknown")
    assert judge(read_histories([history])).counts["P12"] == 1  # nobody has published version 7


def test_the_history_says_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers: list[list[Published] | SetConflict] = [
        [Published(1, 3, 40), Published(1, 3, 40)],
        SetConflict("refused", {"b": SetFault("set[1].if_version: another version is the newest", Newest(7))}),
    ]

    def publish_atomic(_publisher: HttpPublisher, *_about: object) -> list[Published]:
        found = answers.pop(0)
        if isinstance(found, SetConflict):
            raise found
        return found

    monkeypatch.setattr(HttpPublisher, "publish_atomic", publish_atomic)
    file, history = tmp_path / "set.json", tmp_path / "h.jsonl"
    file.write_text('[{"object": "a", "if_absent": true}, {"object": "b", "payload_base64": "/w=="}]')
    for _ in range(2):
        command = ["publish", "d", "g", "--atomic", str(file), "--history", str(history)]
        CliRunner().invoke(cli, command, standalone_mode=False)
    events = events_of(history)
    publishes = [event for event in events if event["event"] == "publish"]
    assert [event["object"] for event in publishes] == ["d/g/a", "d/g/b"] * 2
    assert [len({event["atomic"] for event in pair}) for pair in (publishes[:2], publishes[2:], publishes)] == [1, 1, 2]
    assert publishes[1]["payload"] == {"base64": "/w=="}
    answered = [event for event in events if event["event"] == "published"]
    assert [event["outcome"] for event in answered] == ["acknowledged"] * 2 + ["failed"] * 2
    assert [event.get("lost") for event in answered] == [None, None, True, True]
    assert judge(read_histories([history])).clean


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
