"""The shell completes names that the HTTP service knows, with words about each; without the service, nothing."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from coldnotify_testkit.answering import answering
from coldnotify_testkit.command import COMMAND, coldnotify

GROUPS = [{"domain": "animal.observer", "group": f"region-{i}", "clients": i} for i in (1, 2)]
LISTS: dict[str, list[dict[str, Any]]] = {
    "objects": [{"object": name, "version": 7} for name in ("camera", "camera-config", "lamp")],
    "clients": [{"client": "observer-1", "online": True}, {"client": "observer-2", "online": False}],
    "channels": [{"channel": "tasks", "subscribers": 3}],
}


def answer(path: str) -> tuple[int, object]:
    asked = urlsplit(path)
    kind = asked.path.rpartition("/")[2]
    after = parse_qs(asked.query).get("after", [""])[0]
    items = [row for row in LISTS.get(kind, []) if row[kind[:-1]] > after]
    return 200, {"groups": GROUPS, "items": items, "next": None}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with answering(answer) as address:
        yield address


def completed(typed: str, incomplete: str, **settings: str) -> dict[str, str]:
    """Returns names for fish, with words about them."""
    variables = {f"COLDNOTIFY_{name.upper()}": value for name, value in settings.items()}
    shell = {
        "_COLDNOTIFY_COMPLETE": "fish_complete",
        "COMP_WORDS": f"coldnotify {typed} {incomplete}",
        "COMP_CWORD": incomplete,
    }
    environ = {**os.environ, **variables, **shell}
    done = subprocess.run([COMMAND], env=environ, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    lines = [line.partition(",")[2].partition("\t") for line in done.stdout.splitlines()]
    return {name: words for name, _, words in lines if name}


@pytest.mark.parametrize(
    ("typed", "incomplete", "found"),
    [
        ("publish", "an", {"animal.observer": ""}),
        ("publish animal.observer", "", {"region-1": "1 client", "region-2": "2 clients"}),
        ("publish animal.observer region-1", "camera", {"camera": "version 7", "camera-config": "version 7"}),
        ("state client animal.observer region-1", "", {"observer-1": "online", "observer-2": "asleep"}),
        ("client forget animal.observer region-1", "observer-2", {"observer-2": "asleep"}),
        (
            "watch animal.observer region-1 observer-1 lamp",
            "cam",
            {"camera": "version 7", "camera-config": "version 7"},
        ),
        ("send animal.observer region-1", "t", {"tasks": "3 subscribers"}),
        ("explain animal.observer region-1 observer-1 --channel", "t", {"tasks": "3 subscribers"}),
        ("publish elsewhere", "", {}),
    ],
)
def test_names_are_completed(node: str, typed: str, incomplete: str, found: dict[str, str]) -> None:
    assert completed(typed, incomplete, http=node) == found


def test_flags_and_contexts_that_were_typed_count(node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert coldnotify("context", "add", "prod", "--http", node).returncode == 0
    assert completed("--context prod publish", "an") == {"animal.observer": ""}
    assert completed(f"--http {node} publish", "an", http="127.0.0.1:1") == {"animal.observer": ""}
    assert completed(f"state --http {node} objects", "an", http="127.0.0.1:1") == {"animal.observer": ""}
    assert completed("--context", "p") == {"prod": node}


def test_without_a_service_nothing_is_completed_and_nothing_is_said() -> None:
    assert completed("publish", "an", http="127.0.0.1:1") == {}


def test_commands_come_with_their_descriptions() -> None:
    assert completed("", "who") == {"who-lacks": "Show which clients have not applied a version."}
    assert completed("state", "channels") == {"channels": "Show all channels of a group, and how many..."}
