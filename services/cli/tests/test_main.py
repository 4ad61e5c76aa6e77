import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from coldnotify_cli.main import COMMANDS, cli
from coldnotify_testkit.command import COMMAND, coldnotify

NOWHERE = "127.0.0.1:1"


def test_the_list_of_commands_is_all_of_them() -> None:
    done = coldnotify("--help")
    assert done.returncode == 0
    for name, entry in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert entry.help in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = coldnotify(name, "--help")
    assert done.returncode == 0
    assert f"Usage: coldnotify {name}" in done.stdout


def test_the_help_of_kafka_tool_names_the_tools() -> None:
    assert "The tools are acls, " in coldnotify("kafka-tool", "--help").stdout


def test_no_command_but_services_comes_with_the_log_of_services() -> None:
    modules = sorted({entry.module for entry in COMMANDS.values()} - {"services"})
    names = ", ".join(f"coldnotify_cli.commands.{module}" for module in modules)
    subprocess.run(
        [sys.executable, "-c", f"import sys, {names}; assert 'structlog' not in sys.modules"], check=True, timeout=60
    )


def test_the_version_is_told() -> None:
    done = coldnotify("--version")
    assert (done.returncode, done.stdout[:10]) == (0, "coldnotify")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 2, "there is no command 'nope'"),
        (["pubish"], 2, "did you mean 'publish'?"),
        (["topics", "pln"], 2, "did you mean 'plan'?"),
        (["tenant", "sett"], 2, "did you mean 'set'?"),
        (["publish", "d", "g"], 2, "Missing argument 'OBJECT'"),
        (["publish", "d", "b c", "o"], 2, "group: 'b c' is not a name"),
        (["publish", "d", "g", ""], 2, "object: '' has 0 bytes"),
        (["publish", "d", "g", "o", "--version", "x"], 2, "Invalid value for '--version'"),
        (["publish", "d", "g", "o", "--version", "-1"], 2, "version: -1 is not from 0"),
        (["publish", "d", "g", "o", "--payload", "{"], 2, "--payload: is not JSON"),
        (["publish", "d", "g", "o", "--payload", '"' + "x" * 5000 + '"'], 2, "payload: has 5002 bytes"),
        (["publish", "d", "g", "o", "--source", "a b"], 2, "source: 'a b' is not a name"),
        (
            ["publish", "d", "g", "o", "--publish-timeout-s", "0"],
            2,
            "COLDNOTIFY_PUBLISH_TIMEOUT_S / --publish-timeout-s",
        ),
        (["publish", "d", "g", "o", "--kafka", NOWHERE, "--publish-timeout-s", "1"], 1, NOWHERE),
        (["topics", "plan", "--kafka", NOWHERE, "--topics-timeout-s", "1"], 1, NOWHERE),
        (["topics", "apply", "--replication", "0"], 2, "COLDNOTIFY_REPLICATION / --replication"),
        (["http", "--http-port", "x"], 2, "COLDNOTIFY_HTTP_PORT / --http-port: 'x' is not a whole number"),
        (["matcher", "--matcher-port", "-1"], 2, "COLDNOTIFY_MATCHER_PORT / --matcher-port"),
        (["gateway", "--gateway-port", "65536"], 2, "COLDNOTIFY_GATEWAY_PORT / --gateway-port"),
        (["broker", "--kafka-port", "x"], 2, "COLDNOTIFY_KAFKA_PORT / --kafka-port"),
        (["broker", "--kafka-host", "0.0.0.0"], 2, "advertised_host"),
        (["watch", "d", "g", "b c", "o"], 2, "client_id: 'b c' is not a name"),
        (["watch", "d", "g", "c", "o", "--gateway", "x:y"], 2, "address"),
        (["watch", "d", "g", "c", "--channel", "t", "--share", "w"], 2, "--share: needs a --channel, and --ack"),
        (["watch", "d", "g", "c", "--channel", "t", "--ack"], 2, "--ack: needs a --share"),
        (["watch", "d", "g", "c", "--channel", "t", "--share", "w", "--ack", "--once"], 2, "--share: cannot be"),
        (["watch", "d", "g", "c", "--channel", "t", "--share", "w/w", "--ack"], 2, "--share: 'w/w' is not a name"),
        (["watch", "d", "g", "c", "o", "--gateway", NOWHERE, "--once", "--timeout-s", "10"], 1, "cannot be reached"),
        (["state", "object", "d", "g", "o", "--matcher", NOWHERE], 1, f"matcher {NOWHERE} (--matcher)"),
        (["state", "objects", "d", "g", "--limit", "0"], 2, "--limit"),
        (["object", "reset", "d", "g", "o", "--matcher", NOWHERE], 1, f"matcher {NOWHERE} (--matcher)"),
        (["kafka-tool", "nope"], 2, "there is no tool 'nope'; the tools are acls"),
    ],
)
def test_an_error_is_one_line_with_the_right_exit_code(arguments: list[str], code: int, words: str) -> None:
    done = coldnotify(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert words in line
    assert "Traceback" not in done.stderr


def test_the_environment_is_checked_like_the_flags() -> None:
    done = coldnotify("publish", "d", "g", "o", publish_timeout_s="never")
    assert done.returncode == 2
    assert "COLDNOTIFY_PUBLISH_TIMEOUT_S / --publish-timeout-s: 'never' is not a number" in done.stderr


def test_debug_shows_where_an_error_came_from() -> None:
    done = coldnotify("publish", "d", "b c", "o", log_level="debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def completion(**variables: str) -> str:
    """What the command says to a shell that asks it by these variables."""
    environ = {**os.environ, **variables}
    done = subprocess.run([COMMAND], env=environ, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_flags(shell: str) -> None:
    assert f"_COLDNOTIFY_COMPLETE={shell}_complete" in completion(_COLDNOTIFY_COMPLETE=f"{shell}_source")
    lines = {"coldnotify doct": "doctor", "coldnotify topics pl": "plan", "coldnotify up --gatew": "--gateways"}
    for typed, expected in lines.items():
        at = typed.rpartition(" ")[2] if shell == "fish" else str(typed.count(" "))
        found = completion(_COLDNOTIFY_COMPLETE=f"{shell}_complete", COMP_WORDS=typed, COMP_CWORD=at)
        assert expected in found


def test_a_variable_that_is_no_setting_is_warned_of() -> None:
    done = coldnotify("token", "/nowhere", "--client", "d/g/c", kafak="x")
    assert "Warning: COLDNOTIFY_KAFAK: no setting has this name; did you mean COLDNOTIFY_KAFKA?" in done.stderr


_KNOWN = """
import os, sys
from coldnotify_cli.every_setting import warnings_of
assert warnings_of({"COLDNOTIFY_HTTP": "x", "COLDNOTIFY_KAFKA": "x", "COLDNOTIFY_TOPICS_PREFIX": "acme."}) == []
import coldnotify_cli.commands.who_lacks
for module in ("aiohttp", "structlog", "coldnotify_matcher.engine", "coldnotify_gateway.settings"):
    assert module not in sys.modules, module
assert warnings_of({"COLDNOTIFY_MATCHER_ID": "x"}) == []
"""


def test_commands_that_ask_import_no_service_for_variables_that_commands_know() -> None:
    subprocess.run([sys.executable, "-c", _KNOWN], check=True, timeout=60)


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yields the help of a command, of its parameters, and of the commands below it."""
    yield command.help or ""
    yield from (getattr(parameter, "help", None) or "" for parameter in command.params)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _helps(below, context)


def test_help_names_a_thing_or_says_what_to_do_and_begins_with_no_clause() -> None:
    helps = [*_helps(cli, click.Context(cli)), *(entry.help for entry in COMMANDS.values())]
    clause = re.compile(r"(what|who|whose|which|whether|where|how|why|by which|of|only)\b", re.IGNORECASE)
    assert [one for one in helps if clause.match(one)] == []
