"""Contexts, and the flags that may stand before a command: which of them counts, and who may change the file.

Stands for: context, credentials
"""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from coldnotify_cli.contexts import contexts_file
from coldnotify_cli.main import cli, main
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_common.settings import settings_options


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("COLDNOTIFY_HTTP", raising=False)
    monkeypatch.chdir(tmp_path)


@click.group(cls=SuggestingGroup)
def asking() -> None:
    """A group of commands."""


@asking.command()
@settings_options(HttpNodeSettings)
def http(settings: HttpNodeSettings) -> None:
    """Says whom it would ask."""
    click.echo(settings.http)


def test_a_flag_counts_more_the_nearer_it_stands_then_a_variable_then_the_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["context", "add", "prod", "--http", "context:1", "--gateway", "g:1"]) == 0
    monkeypatch.setattr(type(cli), "get_command", lambda _self, _ctx, _name: asking)
    monkeypatch.setattr(type(cli), "list_commands", lambda _self, _ctx: ["asking"])

    def asked(line: str) -> str:
        return CliRunner().invoke(cli, line.split()).output.strip()

    assert asked("asking http") == "127.0.0.1:55002"
    assert asked("--context prod asking http") == "context:1"
    monkeypatch.setenv("COLDNOTIFY_CONTEXT", "prod")
    assert asked("asking http") == "context:1"
    monkeypatch.setenv("COLDNOTIFY_HTTP", "variable:1")
    assert asked("asking http") == "variable:1"
    assert asked("--http before:1 asking http") == "before:1"
    assert asked("--http before:1 asking --http within:1 http") == "within:1"
    assert asked("--http before:1 asking --http within:1 http --http behind:1") == "behind:1"


def test_contexts_are_added_listed_replaced_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("secret")
    assert main(["context", "add", "prod", "--http", "h:1", "--token-file", "token"]) == 0
    assert main(["context", "add", "prod", "--http", "h:2", "--token-file", "token"]) == 0
    assert "prod: replaced in " in capsys.readouterr().out
    assert (contexts_file().stat().st_mode & 0o777, contexts_file().parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "secret" not in contexts_file().read_text()
    assert main(["context", "list", "--json"]) == 0
    row = {"context": "prod", "http": "h:2", "token_file": str(tmp_path / "token")}
    assert json.loads(capsys.readouterr().out) == row
    assert main(["context", "remove", "prod"]) == 0
    assert main(["context", "remove", "prod"]) == 1
    assert "context 'prod' is not known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "a b", "--http", "h"], "context: 'a b' is not a name"),
        (["add", "prod"], "a context needs at least one setting"),
        (["add", "prod", "--ca-cert", "none.pem"], "--ca-cert, --cert, --key (COLDNOTIFY_CA_CERT ...): cannot be used"),
        (["add", "prod", "--token-file", "none"], "COLDNOTIFY_TOKEN_FILE / --token-file: none: No such file"),
        (["add", "prod", "--kafka-config", "none"], "none"),
    ],
)
def test_a_context_that_cannot_be_used_is_not_added(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not contexts_file().exists()


def test_an_unknown_context_is_named_with_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "prod", "--http", "h:1"]) == 0
    assert main(["--context", "prd", "state", "partitions"]) == 2
    assert "--context: context 'prd' is not known; did you mean prod?" in capsys.readouterr().err


def test_a_context_sends_nothing_of_a_service_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--context", "prod", "up"]) == 2
    assert "--context: `coldnotify up` asks no installation" in capsys.readouterr().err
    monkeypatch.setenv("COLDNOTIFY_CONTEXT", "unknown")
    for command in ("up", "gateway", "context"):
        assert main([command, "--help"]) == 0
    assert main(["context", "list"]) == 0


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("{}", 0o620, "other users may change it: make it your own, and chmod go-w"),
        ("{}", 0o602, "other users may change it: make it your own, and chmod go-w"),
        ("{", 0o600, "is not JSON"),
        ("[]", 0o600, "is not {context: {setting: value}}"),
        ('{"prod": 1}', 0o600, "is not {context: {setting: value}}"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(
    content: str, mode: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = contexts_file()
    path.parent.mkdir(parents=True)
    path.write_text(content)
    path.chmod(mode)
    assert main(["--context", "prod", "state", "partitions"]) == 2
    assert words in capsys.readouterr().err
