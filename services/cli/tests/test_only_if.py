"""`coldnotify publish` with a condition prints what the service answers, and fails where it did not hold."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from coldnotify.http_publisher import HttpPublisher, Newest, PublishError, VersionConflict
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
