"""The commands and programs of the README and of the page about queries, run as they stand there on free ports."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from coldnotify_testkit.stack import Up, notify
from coldnotify_testkit.waiting import wait_for

README = Path(__file__).parents[2] / "README.md"
QUERIES = README.parent / "docs" / "queries.md"
LIMIT_S = 120
"""For one block: seconds are usual."""

_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(section: str, language: str, document: Path = README) -> list[str]:
    """The blocks of code in this language below this heading."""
    text = document.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = [code for said, code in _BLOCK.findall(text) if said == language]
    assert found, f"{document.name} has no {language} below {section!r}"
    return found


class Reader:
    """Somebody who copies the README's code, with the addresses of this service in the places of the default ones, and
    with a group of his own: others that share the service have registered in theirs."""

    def __init__(self, up: Up, directory: Path) -> None:
        self._directory = directory
        self._said = {
            "region-1": "readers",
            "9092": up.kafka.rpartition(":")[2],
            "55000": str(up.gateway[1]),
            "55002": up.http_url.rpartition(":")[2],
            "55003": str(up.report["web"]).rpartition(":")[2],
            "51001": up.matcher_url.rpartition(":")[2],
            "55001": str(up.report["gateways_http"][0]).rpartition(":")[2],
        }
        self._environ = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLDNOTIFY_KAFKA": up.kafka,
            "COLDNOTIFY_GATEWAY": f"127.0.0.1:{up.gateway[1]}",
            "COLDNOTIFY_HTTP": up.http_url,
            "COLDNOTIFY_MATCHER": up.matcher_url.removeprefix("http://"),
        }

    def run(self, language: str, code: str) -> str:
        """What it prints. Fails if it does."""
        code = re.sub("|".join(self._said), lambda match: self._said[match[0]], code)
        if language == "python":
            argv = [sys.executable, "-c", code]
        else:
            # curl says by its exit code what the service answered; `watch` would go on for ever.
            code = re.sub(r"^(coldnotify watch [^#\n]*)", r"\1 --once ", code, flags=re.MULTILINE)
            argv = ["bash", "-euo", "pipefail", "-c", f'curl() {{ command curl -fsS --max-time 30 "$@"; }}\n{code}']
        done = subprocess.run(
            argv, cwd=self._directory, env=self._environ, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_what_the_readme_says_can_be_done(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path)
    with notify(up, "unit", None, group="readers") as unit:
        unit.register("camera-config").subscribe(lambda told: None)
        _follow_the_readme(reader, up)


def _follow_the_readme(reader: Reader, up: Up) -> None:
    """A unit is registered, as publishers wait for a share of those that are."""
    said = [reader.run(language, code) for language in ("python", "sh") for code in blocks("Publish", language)]
    assert said[1] == "published\n"
    assert said[2].count("outcome published") == said[2].count('"outcome": "published"') == 1
    observation_unit, by_query = blocks("An observation unit", "python")
    assert reader.run("python", observation_unit) == "camera-config 46 {'fps': 8}\n"
    assert reader.run("python", observation_unit) == "", "it was told already, and the state file knows"
    connect = "notify.connect()\n"
    told = reader.run("python", observation_unit.replace(connect, by_query + connect)).splitlines()
    assert all(line.startswith(("entered: ", "lamp-")) for line in told), told
    ledger, overview, look_in, judge = blocks("Look in", "sh")
    overview = overview.replace("doctor", f"doctor --gateway-http {up.report['gateways_http'][0]}")
    assert "nobody lacks it" in reader.run("sh", ledger)
    assert "nothing is wrong" in reader.run("sh", overview)
    assert "camera-config" in reader.run("sh", look_in)
    reader.run("sh", judge)
    # Last: this client is registered, too, and the ledger would name it.
    (by_http,) = blocks("By WebSocket and HTTP", "sh")
    newest = {"object": "camera-config", "version": 46, "payload": {"fps": 8}}
    assert json.loads(reader.run("sh", by_http))["notifications"] == [newest]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_what_the_page_about_queries_says_can_be_done(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path)
    by_command, by_http, _publish, by_console = blocks("Descriptions", "sh", QUERIES)
    said = [line for line in reader.run("sh", by_command).splitlines() if not line.startswith("since ")]
    first, second, shown, replaced = ["Kind", "Room", "on", "Level"], ["Kind", "Room", "Level"], 3, 1
    assert [line.split()[0] for line in said] == [
        *sorted(first), *sorted(second), *sorted(second)[:shown], *["Kind"] * replaced, "lamp-1:",
    ]  # fmt: skip
    _, _, got = reader.run("sh", by_http).partition('{"object"')
    assert json.loads('{"object"' + got)["description"] == {"Kind": "lamp", "Room": 411}
    (python,) = blocks("Descriptions", "python", QUERIES)
    assert reader.run("python", python) == "{'Kind': 'heater', 'Target': 20}\n"
    reader.run("sh", by_console)
    (asking,) = blocks("Asking once", "sh", QUERIES)

    def found() -> list[str]:
        """The console's record is moved to its partition, and read there."""
        return [line for line in reader.run("sh", asking).splitlines() if "lamp-3" in line]

    wait_for(lambda: len(found()) == 3, "lamp-3, by both commands and by HTTP")
