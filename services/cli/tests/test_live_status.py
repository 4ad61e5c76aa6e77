"""The live status: what it says of each part, and where log lines go while it is shown."""

import os
import sys
from pathlib import Path

import pytest
from coldnotify_cli.live_status import LiveStatus, live_status
from coldnotify_cli.supervisor import Part
from coldnotify_testkit.waiting import wait_for
from rich.console import Console


class Played:
    """A process that runs until it is told otherwise."""

    pid = 4711

    def __init__(self) -> None:
        self.ended: int | None = None

    def poll(self) -> int | None:
        return self.ended

    def stop(self, timeout: float) -> int | None:
        return self.ended


def shown(status: LiveStatus) -> str:
    console = Console(width=120, record=True, file=Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    with console.file:
        console.print(status)
        return console.export_text()


def test_each_part_is_shown_as_it_is() -> None:
    process = Played()
    part = Part("matcher", lambda: process, lambda: None, ready_timeout_s=60)
    status = LiveStatus(Path("up.log"))
    status.show([part])
    assert "waiting" in shown(status)
    part.turn(1.0)
    assert "4711" in shown(status)
    assert "starting: it has not answered yet" in shown(status)
    part.ready = True
    assert " ready " in shown(status)
    process.ended = -9
    assert part.status(2.0).word == "ready"
    part.turn(2.0)
    assert part.status(2.0)[::3] == ("down", 1)
    assert "up.log" in shown(status)
    part.stop(1.0)
    assert "stopped" in shown(status)


def test_log_lines_go_to_the_file_and_stderr_is_as_before_afterwards(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "data" / "up.log"
    with live_status(log) as status:
        status.say("all is well")
        os.write(2, b"a line\n")
    print("afterwards", file=sys.stderr, flush=True)
    # Not alone: what librdkafka says of other tests' brokers goes there, too.
    assert "a line\n" in log.read_text()
    said = capfd.readouterr()
    assert "afterwards\n" in said.err
    assert "a line" not in said.err
    assert "all is well" in said.out


def test_the_log_begins_anew_where_it_has_grown_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_cli.live_status.LOG_BYTES_MAX", 1000)
    log, before = tmp_path / "up.log", tmp_path / "up.log.1"
    log.write_text("a" * 2000)
    with live_status(log):
        assert before.read_text() == "a" * 2000
        assert "aaa" not in log.read_text()
        os.write(2, b"b" * 2000)
        wait_for(lambda: "b" * 2000 in before.read_text(), "another beginning", 60)
        wait_for(lambda: "bbb" not in log.read_text(), "the log is emptied", 60)
        os.write(2, b"c" * 50)
    assert "c" * 50 in log.read_text()
    assert [path.stat().st_mode & 0o777 for path in (log, before)] == [0o600, 0o600]
