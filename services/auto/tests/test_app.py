"""`coldnotify auto` and `coldnotify up --auto` as processes, from a file of rules to a device.

Stands for: follower, plan_outlet
"""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from coldnotify import Notification
from coldnotify_auto.changes import Put
from coldnotify_auto.follower import Follower
from coldnotify_auto.plan_outlet import PlannedChanges
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import Outlet, RunStopped, SourceFailed, SourceRefused
from coldnotify_common.stop import StopFlag
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.names import ObjectKey
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for
from prometheus_client import REGISTRY

FILE = """\
sources:
  settings:
    kind: folder
    folder: files
    domain: animal.observer
    group: region-1
    object: "{name}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "fps").write_text("5")
    (tmp_path / "auto.yaml").write_text(FILE)
    return tmp_path / "auto.yaml"


@pytest.fixture(scope="module")
def up(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("up")
    (directory / "files").mkdir()
    (directory / "auto.yaml").write_text(FILE)
    with stacks.running(directory, f"--auto={directory / 'auto.yaml'}") as running:
        yield running


@pytest.mark.stack
def test_up_runs_it_and_a_device_is_told_a_files_change(up: Up, tmp_path: Path) -> None:
    files = up.data.parent / "files"
    told: list[object] = []
    with notify(up, "unit", tmp_path / "unit.state") as unit:

        def on_fps(notification: Notification) -> None:
            told.append(None if notification.deleted else notification.payload)

        unit.register("fps").subscribe(on_fps)
        unit.connect()
        wait_for(lambda: told, "the registration is answered")
        (files / "fps").write_text('{"fps": 1}')
        wait_for(lambda: {"fps": 1} in told, "the first version is told")
        (files / "new").write_text('{"fps": 2}')
        (files / "new").rename(files / "fps")
        wait_for(lambda: {"fps": 2} in told, "the second version is told")
        (files / "fps").unlink()
        wait_for(lambda: told[-1] is None, "the deletion is told")
    assert told[1:] == [{"fps": 1}, {"fps": 2}, None]


@pytest.mark.kafka
def test_a_plan_says_what_would_be_published_and_publishes_nothing(fresh_kafka: EmbeddedBroker, file: Path) -> None:
    for number in range(25):
        (file.parent / "files" / f"o{number:02}").write_text(str(number))
    for _ in range(2):
        done = coldnotify("auto", str(file), "--plan", kafka=fresh_kafka.bootstrap)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == 20
        assert lines[0].startswith("settings: publish animal.observer/region-1/fps version ")
        assert lines[0].endswith(" payload 5")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--resync=settings",), "compares every file whenever"),
        (("--resync=plant",), "no such source"),
        (("--resync=settings", "--plan"), "--plan and --resync: only one of them"),
    ],
)
def test_a_source_that_cannot_be_compared_says_so(file: Path, arguments: tuple[str, ...], words: str) -> None:
    done = coldnotify("auto", str(file), *arguments)
    assert done.returncode != 0
    assert words in done.stdout + done.stderr


@pytest.mark.kafka
def test_it_is_ready_once_its_sources_are_followed_and_stops_in_order(fresh_kafka: EmbeddedBroker, file: Path) -> None:
    port = free_port("127.0.0.1")
    argv = [sys.executable, "-m", "coldnotify_cli.main", "auto", str(file)]
    argv += [f"--kafka={fresh_kafka.bootstrap}", f"--auto-port={port}"]
    process = spawn(argv, file.parent / "auto.log")
    try:
        wait_for(lambda: asked(port, "/readyz") == "ready\n", "auto is ready")
        wait_for(
            lambda: 'coldnotify_auto_published_total{source="settings"} 1.0' in asked(port, "/metrics"), "published"
        )
        (file.parent / "files").rename(file.parent / "elsewhere")
        (file.parent / "files").touch()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (file.parent / "auto.log").read_text()
    finally:
        process.kill()
        process.wait()


def asked(port: int, path: str) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)


class Uncompared:
    """A source that compares nothing."""

    def resync(self) -> str:
        raise SourceRefused("compares nothing")


class Failing(Uncompared):
    """Fails in the way of each entry, one in each run."""

    name = "failing"

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def run(self, outlet: Outlet) -> None:
        outlet.ready(None)
        raise self.errors.pop(0)


def test_a_source_that_fails_is_run_again_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_auto.follower.PAUSE_S", 0.01)
    stop = StopFlag()
    refused: list[SourceRefused] = []
    source = Failing([ValueError("a bug"), SourceRefused("later"), RunStopped()])
    follower = Follower(source, AutoSettings(kafka="127.0.0.1:1"), stop, refused.append)
    follower.start()
    wait_for(lambda: not source.errors, "all runs have ended")
    follower.join(60)
    assert not refused
    stop.close()


class Away(Uncompared):
    """Cannot be followed until it is there."""

    name = "away"

    def __init__(self) -> None:
        self.there = Event()

    def run(self, outlet: Outlet) -> None:
        if not self.there.is_set():
            raise SourceFailed("it is away")
        outlet.ready(None)
        while True:
            outlet.wait(0.05)


def test_the_lag_grows_until_a_source_can_be_followed() -> None:
    def lag_s() -> float:
        return REGISTRY.get_sample_value("coldnotify_auto_lag_seconds", {"source": "away"}) or 0.0

    stop, source = StopFlag(), Away()
    follower = Follower(source, AutoSettings(kafka="127.0.0.1:1"), stop, lambda _: None)
    follower.start()
    wait_for(lambda: follower.reason == "source away: it is away", "it is not followed")
    before_s = lag_s()
    wait_for(lambda: lag_s() > before_s > 0, "the lag grows")
    source.there.set()
    wait_for(lambda: lag_s() == 0, "the lag is gone")
    assert follower.reason is None
    stop.set()
    follower.join(60)
    stop.close()


def test_a_source_that_is_refused_at_the_start_says_so() -> None:
    stop = StopFlag()
    refused: list[SourceRefused] = []
    follower = Follower(Refusing(), AutoSettings(kafka="127.0.0.1:1"), stop, refused.append)
    follower.start()
    follower.join(60)
    assert [str(one) for one in refused] == ["ALTER TABLE"]
    stop.close()


class Refusing(Uncompared):
    name = "refusing"

    def run(self, outlet: Outlet) -> None:
        raise SourceRefused("ALTER TABLE")


def test_a_plan_ends_behind_its_last_line() -> None:
    lines: list[str] = []
    planned = PlannedChanges(2, lines.append)
    planned.line("a")
    for words in ("b", "c"):
        with pytest.raises(RunStopped):
            planned.line(words)
    assert lines == ["a", "b"]
    assert Put(key=ObjectKey("d", "g", "o"), version=1).payload == b""
