"""The transcript of docs/tenants.md: two tenants, one of them floods, its agreement is raised, and the flood passes."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"
LIMIT_S = 300
_OWN = {"calm": "page-calm", "loud": "page-loud", "camera.control": "page.calm", "domains/release": "domains/page.loud"}
_OWN |= {"domain release": "domain page.loud", "--in-per-s 5": "--in-per-s 0.01"}
"""Names that no other test uses; and a rate that no machine is too slow to exceed."""


def commands() -> list[str]:
    """What stands behind `$`, with the lines that go on."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Two tenants")[2].partition("\n## ")[0]
    found: list[str] = []
    for block in re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and found[-1].count("'") % 2:
                found[-1] += "\n" + line
    return found


def test_what_a_new_operator_reads_is_what_comes_of_it(up: Up) -> None:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("COLDNOTIFY_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLDNOTIFY_KAFKA": up.kafka,
        "COLDNOTIFY_TOPICS_PREFIX": up.topics.prefix,
        "COLDNOTIFY_HTTP": up.http_url,
        "HTTP": up.http_url,
    }
    flood = ""

    def run(command: str) -> str:
        for shown, own in _OWN.items():
            command = command.replace(shown, own)
        argv = ["bash", "-eu", "-c", f"{flood}\n{command}"]

        def done() -> tuple[str] | None:
            """What it prints; None: Kafka was away for a moment, and the command has said so. It is run again."""
            made = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert made.returncode == 0 or "Kafka" in made.stderr, f"{command}\n{made.stdout}\n{made.stderr}"
            return (made.stdout,) if made.returncode == 0 else None

        return wait_for(done, f"{command} is done", LIMIT_S)[0]

    said: dict[str, str] = {}
    for command in commands():
        if command.startswith("FLOOD="):
            flood = command.replace("domains/release", _OWN["domains/release"])
        elif command.startswith('eval "$FLOOD"') and "429" not in "".join(said.values()):
            # Until the nodes have read the agreement, nobody is refused.
            said["flood"] = wait_for(partial(_when, run, command, has=True), "who floods is refused", LIMIT_S)
        elif command.startswith('eval "$FLOOD"'):
            said["passes"] = wait_for(partial(_when, run, command, has=False), "the flood passes", LIMIT_S)
        else:
            said[command] = run(command)
    shown = "".join(said.values())
    assert "tenant page-loud is above its agreement: in_per_s is 0.01" in shown
    assert said["passes"].split() == ["60", "200"]
    assert re.search(r'coldnotify_tenants_refused_total\{limit="in_per_s",tenant="page-loud"\} [1-9]', shown)
    (calm,) = [answer for command, answer in said.items() if "camera.control" in command and "curl" in command]
    assert calm == "200\n", "others do not notice"
    assert "page-loud now:" in shown
    for name in ("calm", "loud"):
        run(f"coldnotify tenant remove {name}")


def _when(run: Callable[[str], str], command: str, *, has: bool) -> str:
    """What it prints, once a refusal is in it, or none is."""
    output = run(command)
    return output if ("429" in output) == has else ""
