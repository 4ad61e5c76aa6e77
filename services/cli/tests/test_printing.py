"""What is printed is as many lines as were said, and none of it steers a terminal.

Stands for: tables
"""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unicodedata import category

import pytest
from coldnotify_cli.main import main
from coldnotify_cli.printing import echo
from coldnotify_testkit.answering import answering
from coldnotify_testkit.command import coldnotify

NAME = "lamp\x1b]0;owned\x07\u202e\u2028\x85\r\nforged"
ITEM: dict[str, Any] = {"object": NAME, "version": 1, "description": {NAME: NAME, "on": True}, "client": NAME}
ANSWER: dict[str, Any] = {
    "items": [ITEM, ITEM], "next": None, "object": NAME, "version": 1, "description": {NAME: NAME}, "revision": NAME,
    "registrations": {"items": [ITEM], "next": None}, "registered": 1, "wanted_version": 1, "published": True,
    "published_ms": 1, "exact": True, "lacking": 1, "asleep": 0, "domain": "d", "group": "g", "client": "c",
    "verdict": "lacks_it", "words": NAME, "timeline": [{"when_ms": 1, "step": "publish", "text": NAME}],
    "gateways_silent": [NAME], "window_s": 60.0, "now_ms": 1, "overdue_s": 1, "partial": False, "clients": 1,
    "online": 1, "overdue": 1, "traffic": {"publishes_per_s": 1, "deliveries_per_s": 1, "sent_bytes_per_s": 1},
    "latency": {"p50_s": 1, "p99_s": 1}, "lag": {"objects": 0, "requests": 0}, "gateways": [], "groups": [],
    "matchers": [{"address": "m:1", "error": NAME}, {"address": "m:2", "error": None}],
    "slowest": [], "outcome": "forgotten", "was_online": True,
    "oldest": [{**ITEM, "domain": "d", "group": "g", "since_ms": 1, "lacking": 1, "asleep": 0, "registered": 1}],
}  # fmt: skip
NODE: dict[str, Any] = {
    "role": NAME, "id": NAME, "addresses": {NAME: NAME}, "state": NAME, "age_s": 1, "connections": 1, "limit": 1,
    "load": 0.5, "version": NAME,
}  # fmt: skip
ABOUT = ("d", "g", "o")
COMMANDS: list[tuple[str, ...]] = [
    ("state", "client", *ABOUT), ("state", "clients", "d", "g"), ("state", "object", *ABOUT),
    ("state", "objects", "d", "g"), ("state", "partitions"), ("who-lacks", *ABOUT), ("explain", "d", "g", "c", "o"),
    ("find", "d", "g", "--query=on"), ("describe", *ABOUT), ("top", "--once"),
]  # fmt: skip


def answer(path: str) -> tuple[int, object]:
    """Answers as a matcher and HTTP service with hostile names; whatever is refused is refused with one."""
    if "refused" in path:
        return 500, {"error": NAME}
    more: dict[str, Any] = {"lacking": [ITEM]} if "/explanation" in path else {}
    more |= {"items": [NODE]} if "/nodes" in path else {}
    more |= {"matchers": []} if "/partitions" in path else {}
    return 200, ANSWER | more


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with answering(answer) as address:
        yield address


def steers_nothing(text: str) -> bool:
    return {category(one) for one in text if one != "\n"}.isdisjoint({"Cc", "Cf", "Zl", "Zp"})


def texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return texts([*value.keys(), *value.values()])
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_commands_output_steers_a_terminal(
    command: tuple[str, ...], node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, f"--http={node}"]) == 0
    said = capsys.readouterr().out
    assert "lamp\\x1b]0;owned" in said
    assert steers_nothing(said)
    assert not [line for line in said.split("\n") if line.lstrip().startswith("forged")]
    assert main([*command, "--json", f"--http={node}"]) == 0
    said = capsys.readouterr().out
    assert steers_nothing(said)
    assert NAME in texts([json.loads(line) for line in said.splitlines()])


def test_nor_does_an_error(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "d", "g", "refused", f"--http={node}"]) == 1
    said = capsys.readouterr().err
    assert said == "Error: lamp\\x1b]0;owned\\x07\\u202e\\u2028\\u0085\\r\n  forged\n"


def test_a_name_makes_no_line_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    echo("lamp \x1b]0;owned\x07", "a\nError: b \u202e")
    echo()
    echo("half", nl=False)
    said = capsys.readouterr()
    assert said.out == "lamp \\x1b]0;owned\\x07\na\\nError: b \\u202e\n\nhalf"
    echo("wrong", err=True)
    assert capsys.readouterr() == ("", "wrong\n")


def on_a_terminal(code: str, **environ: str) -> str:
    """Returns the output of the code, run in a terminal."""
    ours, theirs = pty.openpty()
    before = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    argv = [sys.executable, "-c", f"from coldnotify_cli.printing import echo, confirm; {code}"]
    done = subprocess.run(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=before | environ, timeout=120)
    os.close(theirs)
    said = os.read(ours, 1000).decode()
    os.close(ours)
    assert done.returncode == 0, said
    return said


def test_colours_are_for_terminals_that_want_them(capsys: pytest.CaptureFixture[str]) -> None:
    code = "echo('a \\x1b b', fg='red')"
    assert on_a_terminal(code) == "\x1b[31ma \\x1b b\x1b[0m\r\n"
    assert on_a_terminal(code, NO_COLOR="1") == "a \\x1b b\r\n"
    echo("a", fg="red", bold=True)
    assert capsys.readouterr().out == "a\n"


def test_yes_is_named_if_nobody_can_answer(node: str) -> None:
    asked = ("client", "disconnect", *ABOUT, f"--http={node}")
    unanswered, refused = coldnotify(*asked), coldnotify(*asked, stdin="n\n")
    assert (unanswered.returncode, "nobody can answer without a terminal: --yes" in unanswered.stderr) == (2, True)
    assert (refused.returncode, refused.stderr[-9:]) == (1, "Aborted.\n")
