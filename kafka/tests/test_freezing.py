"""Freezing processes: when `freeze` returns, nothing moves in them any more."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import freezing
from coldnotify_kafka.broker.freezing import freeze, frozen, thaw
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are looked at in Linux's /proc")

BUSY = """
import sys, threading
counts = [0] * 8
def count(number):
    with open(sys.argv[1] + str(number), "wb", buffering=0) as file:
        while True:
            counts[number] += 1
            file.seek(0)
            file.write(b"%d" % counts[number])
for number in range(8):
    threading.Thread(target=count, args=(number,)).start()
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with eight threads, each of which counts in a file of its own."""
    with subprocess.Popen([sys.executable, "-c", BUSY, f"{tmp_path}/"]) as process:
        wait_for(lambda: all(counts(tmp_path)), what="the threads")
        yield process
        process.kill()


def counts(directory: Path) -> list[bytes]:
    files = [directory / str(number) for number in range(8)]
    return [file.read_bytes() if file.exists() else b"" for file in files]


def test_once_it_returns_no_thread_moves(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for _ in range(50):
        freeze(busy.pid)
        assert freezing._running_threads(busy.pid) == []
        before = counts(tmp_path)
        os.sched_yield()
        assert counts(tmp_path) == before
        thaw(busy.pid)
        wait_for(lambda before=before: counts(tmp_path) != before, what="going on")  # type: ignore[misc]


def test_a_frozen_process_is_resumed_whatever_is_raised(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    def interrupted() -> None:
        with frozen(busy.pid):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    before = counts(tmp_path)
    wait_for(lambda: counts(tmp_path) != before, what="going on")


def test_a_missing_process_is_reported(busy: subprocess.Popen[bytes]) -> None:
    busy.kill()
    busy.wait()
    with pytest.raises(ProcessLookupError):
        freeze(busy.pid)
    with pytest.raises(ProcessLookupError):
        thaw(busy.pid)


def test_freezing_does_not_wait_for_a_zombie(busy: subprocess.Popen[bytes]) -> None:
    busy.kill()
    os.waitid(os.P_PID, busy.pid, os.WEXITED | os.WNOWAIT)
    freeze(busy.pid)


def test_the_wait_has_a_limit(busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.SIGSTOP", 0)
    with pytest.raises(TimeoutError, match=rf"process {busy.pid}: threads \[.*\] are not stopped 0.1 s after SIGSTOP"):
        freeze(busy.pid, timeout_s=0.1)
