"""The programs of the README, of pages in docs/ and of examples/, run as they stand there on free ports."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_schemas.topics import DEFAULT_PREFIX
from coldnotify_testkit.command import http_status
from coldnotify_testkit.postgres import postgres_shell
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
STARTED = ROOT / "docs" / "getting-started.md"
RECIPES = ROOT / "docs" / "recipes.md"
QUERIES = ROOT / "docs" / "queries.md"
SOURCES = ROOT / "docs" / "sources.md"
LIMIT_S = 120
"""For one block: seconds are usual."""

_BLOCK = re.compile(r"^```(sh|python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(section: str, language: str, document: Path = README) -> list[str]:
    """The blocks of code in this language below this heading."""
    text = document.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = [code for said, code in _BLOCK.findall(text) if said == language]
    assert found, f"{document.name} has no {language} below {section!r}"
    return found


@pytest.fixture(scope="module")
def up(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, under the names in Kafka that the texts take for granted."""
    directory = tmp_path_factory.mktemp("up")
    with stacks.running(directory, "--partitions=8", topics_prefix=DEFAULT_PREFIX, http_look_timeout_s="10") as up:
        # `up` is ready without the usage job, at which `doctor` looks, too.
        usage_port = int(up.report["usage"].rpartition(":")[2])
        wait_for(lambda: http_status(usage_port, "/readyz") == 200, "the usage job is ready")
        yield up


class Reader:
    """Somebody who copies the README's code, with the addresses of this service in the places of the default ones, and
    with a group of his own: others that share the service have registered in theirs."""

    def __init__(self, up: Up, directory: Path, *, group: str = "readers") -> None:
        self._directory = directory
        self._said = {
            "region-1": group,
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
            "COLDNOTIFY_USAGE": str(up.report["usage"]),
            "COLDNOTIFY_AUTO_PORT": "0",
        }

    def run(self, language: str, code: str) -> str:
        """What it prints. Fails if it does."""
        code = self._translated(code)
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

    def replay(self, block: str) -> None:
        """Gives the commands of a console block, and compares what they print."""
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            assert shape(self.run("sh", command)) == shape(printed), command

    def example(self, name: str) -> str:
        """What a program of examples/ prints."""
        return self.run("python", (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))

    @contextmanager
    def beside(self, name: str) -> Iterator[Callable[[], str]]:
        """A program of examples/ that runs until the end of the block; what it has printed so far. Ctrl-C ends it."""
        code = self._translated((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))
        # Started from a test, it might be told to ignore Ctrl-C.
        code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
        printed = self._directory / f"{name}.printed"
        with printed.open("wb") as out, printed.with_suffix(".log").open("wb") as log:
            program = subprocess.Popen([sys.executable, "-c", code], cwd=self._directory, stdout=out, stderr=log)
        try:
            yield lambda: printed.read_text(encoding="utf-8")
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(LIMIT_S)

    @contextmanager
    def terminal(self, code: str) -> Iterator[Callable[[], str]]:
        """A block whose last command runs until the end; what was printed so far, while it runs. Ctrl-C ends it."""
        with tempfile.TemporaryFile("w+b") as printed:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self._translated(code)],
                cwd=self._directory, env=self._environ, stdout=printed, stderr=printed, start_new_session=True,
            )  # fmt: skip

            def told() -> str:
                said = os.pread(printed.fileno(), 1 << 20, 0).decode()
                assert shell.poll() is None, f"{code}\n{said}"
                return said

            try:
                yield told
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGTERM)
                shell.wait(LIMIT_S)

    def _translated(self, code: str) -> str:
        code = re.sub(r'Connection\("([\w.]+)"\)', r'Connection("\1", 55000)', code)
        return re.sub("|".join(self._said), lambda match: self._said[match[0]], code)


def shape(printed: str) -> list[list[str]]:
    """The words of each line, whatever its numbers and times."""
    masked = re.sub(r"\d{4}-\d\d-\d\d [\d:+.]+|\d+", "9", printed)
    return [line.split() for line in masked.splitlines()]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_readme_prints_what_it_says(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path, group="first-minute")
    start, watch, publish, asleep, again = blocks("Sixty seconds", "console")
    assert "coldnotify up\nColdNotify is ready" in start
    command, _, told = watch.removeprefix("$ ").partition("\n")
    unknown, first = told.splitlines()
    # The watch runs beside: once it has begun, and once more when its object was published.
    assert reader.run("sh", command) == unknown + "\n"
    reader.replay(publish)
    assert reader.run("sh", command) == first + "\n"
    reader.replay(asleep)
    assert again.startswith(f"$ {command}\n")
    reader.replay(again)
    device, back_end = blocks("In your programs", "python")
    with notify(up, "unit", None, group="first-minute") as client:
        client.register("camera-config").subscribe(lambda told: None)
        assert client.wait_caught_up(LIMIT_S)
        assert reader.run("python", back_end).startswith("published\nApplied(applied=1")
        assert reader.run("python", device) == "camera-config 4 {'fps': 8}\n"
        (curl,) = blocks("In your programs", "sh")
        *_, answer = reader.run("sh", curl).splitlines()
        newest = {"object": "camera-config", "version": 5, "payload": {"fps": 9}}
        assert json.loads(answer[answer.index('{"notifications"') :])["notifications"] == [newest]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_getting_started_can_be_followed(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path)
    (python,), (by_shell, described) = blocks("Publish", "python", STARTED), blocks("Publish", "sh", STARTED)
    reader.run("python", python)
    said = reader.run("sh", by_shell)
    assert said.count("outcome published") == said.count('"outcome": "published"') == 1
    reader.run("sh", described)
    device, by_query = blocks("A device", "python", STARTED)
    assert reader.run("python", device) == "camera-config 46 {'fps': 8}\n"
    assert reader.run("python", device) == "", "it was told already, and the state file knows"
    connect = "notify.connect()\n"
    told = reader.run("python", device.replace(connect, by_query + connect)).splitlines()
    assert all(line.startswith(("entered: ", "lamp-")) for line in told), told
    ledger, overview, look_in = blocks("Look in", "sh", STARTED)
    overview = overview.replace("doctor", f"doctor --gateway-http {up.report['gateways_http'][0]}")
    assert "nobody lacks it" in reader.run("sh", ledger)
    assert "nothing is wrong" in reader.run("sh", overview)
    assert "camera-config" in reader.run("sh", look_in)
    # Last: this client is registered, too, and the ledger would name it.
    (by_http,) = blocks("Without our library", "sh", STARTED)
    newest = {"object": "camera-config", "version": 46, "payload": {"fps": 8}}
    assert json.loads(reader.run("sh", by_http))["notifications"] == [newest]


def test_the_examples_do_what_they_say(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path, group="examples")
    with ExitStack() as running:
        device, tasks, lamps = (running.enter_context(reader.beside(name)) for name in ("device", "tasks", "lamps"))
        wait_for(lambda: "camera-config None" in device(), "the device is registered")
        assert reader.example("back_end").startswith("published\nApplied(applied=1")
        assert reader.example("wake") == device().splitlines()[-1] + "\n"
        assert reader.example("wake") == "", "nothing is told twice"
        where = "animal.observer region-1"
        reader.run("sh", f"coldnotify send {where} tasks --payload '\"north\"'")
        wait_for(lambda: "task north\n" in tasks(), "a message")
        described = "--describe Kind=lamp --describe Room=410"
        reader.run("sh", f"coldnotify publish {where} lamp-1 --version 1 --payload 5 {described}")
        wait_for(lambda: "entered lamp-1 left\nlamp-1 1 5\n" in lamps(), "a member")


def test_an_excepted_client_is_not_told(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path, group="recipes")
    heading = "Tell all that ..., except ..."
    (python,), (publish,) = blocks(heading, "python", RECIPES), blocks(heading, "sh", RECIPES)
    mine, others = Recorder(), Recorder()
    query = re.findall(r'register_query\("(.*)"\)', python)[0]
    with notify(up, "tromso", None, group="recipes") as excepted, notify(up, "oslo", None, group="recipes") as client:
        excepted.register_query(query).subscribe(mine)
        client.register_query(query.replace("tromso", "oslo")).subscribe(others)
        reader.run("sh", publish)
        wait_for(lambda: [told.object_id for told in others.seen] == ["notice-7"], "all others are told")
        assert excepted.wait_caught_up(LIMIT_S)
        assert mine.seen == []
        (again,) = re.findall(r"`(coldnotify describe .*?)`", RECIPES.read_text(encoding="utf-8"))
        reader.run("sh", again)
        wait_for(lambda: [told.object_id for told in mine.seen] == ["notice-7"], "so is who was excepted")


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
    python, _on_the_session = blocks("Descriptions", "python", QUERIES)
    assert reader.run("python", python) == "{'Kind': 'heater', 'Target': 20}\n"
    reader.run("sh", by_console)
    (asking,) = blocks("Asking once", "sh", QUERIES)

    def found() -> list[str]:
        """The console's record is moved to its partition, and read there."""
        return [line for line in reader.run("sh", asking).splitlines() if "lamp-3" in line]

    wait_for(lambda: len(found()) == 3, "lamp-3, by both commands and by HTTP")


def test_a_file_of_a_folder_reaches_a_device(up: Up, tmp_path: Path) -> None:
    reader = Reader(up, tmp_path, group="folders")
    plan, auto, watch, change = blocks("From an empty folder to a device", "sh", SOURCES)
    with reader.terminal(plan) as planned:
        wait_for(lambda: "camera-config version" in planned() and '{"fps": 5}' in planned(), "the plan", LIMIT_S)
    with reader.terminal(auto) as followed, reader.terminal(watch) as told:
        wait_for(lambda: '{"fps": 5}' in told() and "followed" in followed(), "the device is told the file", LIMIT_S)
        reader.run("sh", change)
        wait_for(lambda: '{"fps": 10}' in told() and followed(), "the device is told the change", LIMIT_S)


def test_a_row_of_a_table_reaches_a_device(up: Up) -> None:
    port = str(free_port("127.0.0.1"))
    with postgres_shell() as (folder, programs):
        reader = Reader(up, folder, group="tables")

        def here(code: str) -> str:
            return re.sub("^PG=.*$", f"PG={programs}", code, flags=re.MULTILINE).replace("5433", port)

        auto, watch, change = map(here, blocks("From a table to a device", "sh", SOURCES))
        try:
            with reader.terminal(auto) as followed, reader.terminal(watch) as told:
                wait_for(lambda: '"status": "on"' in told() and followed(), "the device is told the row", LIMIT_S)
                reader.run("sh", change)
                wait_for(lambda: '"status": "fast"' in told() and followed(), "the device is told the change", LIMIT_S)
        finally:
            reader.run("sh", f"{programs}/pg_ctl -D pg -m immediate stop")
