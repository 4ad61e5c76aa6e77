"""The whole demo, as a user runs it: it ends by itself, says what was kept, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

WHOLE_RUN_S = 280.0
POLL_S = 0.1

pytestmark = pytest.mark.kafka


class Demo:
    """A running `python -m coldnotify_demo`."""

    def __init__(self, tmp_path: Path, *arguments: str) -> None:
        self.temporary = tmp_path / "tmp"
        self.temporary.mkdir()
        self._output = tmp_path / "output"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "coldnotify_demo", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    def end(self) -> int:
        return self.process.wait(WHOLE_RUN_S)

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + WHOLE_RUN_S
        while words not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(POLL_S)

    def processes(self) -> set[int]:
        """Of all processes on this machine, those that were started for this demo."""
        return {
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_ours(entry)
        } - {self.process.pid}

    def _is_ours(self, entry: Path) -> bool:
        try:
            return f"TMPDIR={self.temporary}\0".encode() in (entry / "environ").read_bytes()
        except OSError:
            return False


@pytest.fixture
def demos() -> Iterator[list[Demo]]:
    started: list[Demo] = []
    yield started
    for demo in started:
        demo.process.kill()
        demo.process.wait()


@pytest.mark.timeout(2 * WHOLE_RUN_S)
def test_all_promises_are_kept(tmp_path: Path, demos: list[Demo]) -> None:
    demos.append(demo := Demo(tmp_path))
    assert demo.end() == 0, demo.output
    summary = demo.lines[demo.lines.index("-- Summary") + 1 :]
    assert not any(line.startswith("FAILED") for line in summary)
    kept = [line for line in summary if line.startswith("ok ")]
    assert len(kept) == 21
    assert "21 of 21 promises kept" in summary
    # Named by what was seen of them, from each play.
    assert any("ou-2 told camera-config 5" in line for line in summary)
    assert any("reg-syncs in the matcher's metrics 0 -> 1" in line for line in summary)
    assert any("humidity from nobody; body-mass from biscoe, dream" in line for line in summary)
    assert any(" told requests/body-mass, " in line for line in summary)
    assert any(line.startswith("back-end   | published camera-config version 5 (region-1)") for line in demo.lines)
    assert "\x1b" not in demo.output
    assert demo.processes() == set()
    assert list(demo.temporary.iterdir()) == []


@pytest.mark.timeout(2 * WHOLE_RUN_S)
def test_broken_promises_are_noticed(tmp_path: Path, demos: list[Demo]) -> None:
    """One run with all faults: each is planted in a process of its own, and breaks another promise."""
    broken = {
        "deaf": "a change is told to every OU of the region that is awake",
        "gossip": "an OU of the other region hears nothing of region-1's changes",
        "liar": "OUs that do not have what is asked for stay silent",
    }
    demos.append(demo := Demo(tmp_path, *(f"--fault={fault}" for fault in broken), "--limit-s=2"))
    assert demo.end() == 1, demo.output
    for promise in broken.values():
        assert any(line.startswith(f"FAILED  {promise}") for line in demo.lines), demo.output
    (kept,) = demo.temporary.glob("coldnotify-demo-*")
    assert f"kept in {kept}" in demo.output
    assert (kept / "logs" / "service.log").stat().st_size > 0
    assert demo.processes() == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, demos: list[Demo], number: signal.Signals) -> None:
    demos.append(demo := Demo(tmp_path))
    demo.wait_for("serving configurations")
    assert len(demo.processes()) > 4
    demo.process.send_signal(number)
    assert demo.end() == 1
    assert "Interrupted" in demo.output
    assert demo.processes() == set()
    assert list(demo.temporary.iterdir()) == []


def test_a_killed_demo_takes_its_processes_with_it(tmp_path: Path, demos: list[Demo]) -> None:
    demos.append(demo := Demo(tmp_path))
    demo.wait_for("serving configurations")
    assert len(demo.processes()) > 4
    demo.process.kill()
    demo.end()
    deadline = time.monotonic() + 60
    while demo.processes():
        assert time.monotonic() < deadline, demo.processes()
        time.sleep(POLL_S)


def test_a_part_that_cannot_start_is_named(tmp_path: Path, demos: list[Demo], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDNOTIFY_MATCHER_SESSION_TIMEOUT_MS", "nonsense")
    demos.append(demo := Demo(tmp_path))
    assert demo.end() == 1
    assert "could not go on" in demo.output
    assert "COLDNOTIFY_MATCHER_SESSION_TIMEOUT_MS" in demo.output
    assert demo.processes() == set()


def test_an_unknown_fault_is_wrong_use(tmp_path: Path, demos: list[Demo]) -> None:
    demos.append(demo := Demo(tmp_path, "--fault=none-such"))
    assert demo.end() == 2
