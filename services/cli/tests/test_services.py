"""All commands together: each part as its own process, as an operator runs them.

Stands for: object, state, watch
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_testkit.command import RunningCommand, coldnotify, http_status
from coldnotify_testkit.terminal import on_a_terminal
from coldnotify_testkit.waiting import WAIT_S, wait_for


class Parts:
    """The running services, and the settings that commands need to find them."""

    def __init__(self, kafka: str, ports: dict[str, str], services: dict[str, RunningCommand]) -> None:
        self.services = services
        self.ports = ports
        self.settings = {
            "kafka": kafka,
            "gateway": f"127.0.0.1:{ports['gateway_port']}",
            "matcher": f"127.0.0.1:{ports['matcher_port']}",
            "http": f"127.0.0.1:{ports['http_port']}",
        }

    def run(self, *arguments: str, stdin: str = "") -> str:
        """The output of a command that is done."""
        done = coldnotify(*arguments, stdin=stdin, **self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def parts(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[Parts]:
    names = ("matcher_port", "gateway_port", "gateway_web_port", "gateway_http_port", "http_port")
    ports = {name: str(free_port()) for name in names}
    where = {"kafka": fresh_kafka.bootstrap, "matcher": f"127.0.0.1:{ports['matcher_port']}"}
    where["http_look_timeout_s"] = "10"  # a busy machine must not make an outcome unknown
    with ExitStack() as stack:
        services = {
            name: stack.enter_context(RunningCommand(tmp_path / name, name, **where, **ports))
            for name in ("matcher", "gateway", "http")
        }
        for name, port in (("matcher", "matcher_port"), ("gateway", "gateway_http_port"), ("http", "http_port")):
            services[name].wait_port_ready(int(ports[port]))
        yield Parts(fresh_kafka.bootstrap, ports, services)


@pytest.mark.kafka
def test_a_publish_reaches_a_client_and_appears_in_the_state(parts: Parts, tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    watch = ("watch", "d", "g", "c1", "cams/north", "other", "--once", "--timeout-s", "100", "--state", state)
    parts.run("publish", "d", "g", "cams/north", "--version", "4", "--payload", '{"fps": 5}')
    told = sorted(parts.run(*watch).splitlines())
    assert told == ['cams/north  version 4  {"fps": 5}', "other  unknown"]
    assert parts.run(*watch) == ""  # it knows all that already
    assert parts.run("publish", "d", "g", "cams/north", "--version", "5", "--deleted").endswith("  outcome published\n")
    done = coldnotify("publish", "d", "g", "cams/north", "--version", "4", **parts.settings)
    assert (done.returncode, done.stdout.endswith("  outcome stale\n")) == (1, True)
    assert "d/g/cams/north version 4: is stale: the newest is version 5, since " in done.stderr
    (line,) = parts.run(*watch, "--json").splitlines()
    assert json.loads(line) == {"object": "cams/north", "version": 5, "payload": None, "deleted": True}

    shown = json.loads(parts.run("state", "object", "d", "g", "cams/north", "--json"))
    assert (shown["version"], shown["deleted"], shown["registered"]) == (5, True, 1)
    shown = json.loads(parts.run("state", "client", "d", "g", "c1", "--json"))
    assert [row["object"] for row in shown["registrations"]] == ["cams/north", "other"]
    assert "cams/north" in parts.run("state", "client", "d", "g", "c1")
    assert [json.loads(line)["client"] for line in parts.run("state", "clients", "d", "g", "--json").splitlines()] == [
        "c1"
    ]
    assert parts.run("state", "clients", "d", "nobody") == "(none)\n"
    assert len(parts.run("state", "objects", "d", "g", "--limit", "1").splitlines()) == 2
    partitions = [json.loads(line) for line in parts.run("state", "partitions", "--json").splitlines()]
    assert [row["partition"] for row in partitions] == list(range(len(partitions)))
    done = coldnotify("state", "client", "d", "g", "nobody", **parts.settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: client: d/g/nobody is not known\n"

    # Starting the versions over.
    reset = ("object", "reset", "d", "g", "cams/north", "--version", "1", "--payload", '"again"')
    done = coldnotify(*reset, stdin="n\n", **parts.settings)
    assert done.returncode == 1
    assert "is at version 5 (incarnation 0). Begin again at version 1?" in done.stderr
    assert parts.run(*watch) == ""
    shown_words = parts.run(*reset, stdin="y\n").lstrip()  # the prompt ends with a space
    assert shown_words.startswith("incarnation 1  version 1 ")
    assert shown_words.endswith("  outcome published\n")
    assert parts.run(*watch) == 'cams/north  version 1  "again"\n'
    assert parts.run(*reset, "--yes").startswith("incarnation 2  version 1 ")
    done = coldnotify("object", "reset", "d", "g", "never-published", "--yes", **parts.settings)
    assert (done.returncode, done.stderr) == (1, "Error: object: d/g/never-published is not known\n")
    of_removed = json.loads(parts.run("object", "reset", "d", "g", "removed", "--removed", "--yes", "--json"))
    assert of_removed["incarnation"] > 50_000, "so often nobody has reset it"


@pytest.mark.kafka
def test_a_live_watch_prints_as_it_comes_and_ends_in_order(parts: Parts, tmp_path: Path) -> None:
    with RunningCommand(tmp_path / "watch", "watch", "d", "g", "c2", "o", **parts.settings) as watch:
        watch.wait_for(lambda: watch.output == "o  unknown\n")
        parts.run("publish", "d", "g", "o", "--version", "1")
        watch.wait_for(lambda: watch.output == "o  unknown\no  version 1\n")
        assert watch.stop() == 0


@pytest.mark.kafka
def test_every_service_stops_in_order(parts: Parts) -> None:
    for name in ("http", "gateway", "matcher"):
        assert parts.services[name].stop() == 0, parts.services[name].output
        assert "Traceback" not in parts.services[name].output


@pytest.mark.parametrize("name", ["matcher", "http"])
def test_a_service_whose_terminal_goes_stops_in_order(name: str) -> None:
    port = free_port()
    command = [sys.executable, "-m", "coldnotify_cli.main", name, f"--{name}-port={port}", "--kafka=127.0.0.1:1"]
    with on_a_terminal(command, signal.SIG_DFL) as (process, end_terminal):
        wait_for(lambda: http_status(port, "/healthz") == 200, f"{name} serves")
        end_terminal()
        assert process.wait(WAIT_S) == 0


def test_variables_that_nobody_knows_are_warned_of(tmp_path: Path) -> None:
    port = str(free_port())
    settings = {
        "kafka": "127.0.0.1:1",
        "http_port": port,
        "http_prot": "1",
        "matcher_port": "5",
        "cache": str(tmp_path),
    }
    with RunningCommand(tmp_path / "output", "http", **settings) as http:
        http.wait_for(lambda: http_status(int(port), "/healthz") == 200)
        assert "COLDNOTIFY_HTTP_PROT: no setting has this name; did you mean COLDNOTIFY_HTTP_PORT?" in http.output
        assert http.output.count("no setting has this name") == 1


def test_watch_says_why_it_has_no_connection_and_ends_in_order(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with RunningCommand(tmp_path / "watch.log", "watch", "d", "g", "c", "o", "--gateway", nowhere) as watch:
        watch.wait_for(lambda: f"{nowhere} cannot be reached" in watch.output)
        assert watch.stop() == 0


_STARTS = """
import sys
from coldnotify_cli.commands import services
services.command_matcher
assert "structlog" in sys.modules
assert "rich" not in sys.modules
import rich.live
services.command_gateway
assert sys.modules["rich"] is rich
"""


def test_a_service_comes_without_rich_which_can_be_had_later() -> None:
    subprocess.run([sys.executable, "-c", _STARTS], check=True, timeout=60)
