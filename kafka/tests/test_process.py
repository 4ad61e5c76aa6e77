import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_testkit.waiting import wait_for

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie that only nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_output_goes_to_the_file(tmp_path: Path) -> None:
    output = tmp_path / "out"
    for word in ("one", "two"):
        assert spawn(["sh", "-c", f"echo {word}; echo {word} >&2"], output).wait(30) == 0
    assert output.read_text().split() == ["one", "one", "two", "two"]


def test_a_missing_program_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn([str(tmp_path / "nowhere")], tmp_path / "out")


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, time\n"
        "from coldnotify_kafka.broker.process import spawn\n"
        f"print(spawn({SLEEPER!r}, pathlib.Path({str(tmp_path / 'out')!r})).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    wait_for(lambda: not is_running(child), what="the end of the child")


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    children: list[subprocess.Popen[bytes]] = []
    waits_for_go = ["sh", "-c", f"until test -e '{go}'; do sleep 0.05; done"]
    thread = threading.Thread(target=lambda: children.append(spawn(waits_for_go, tmp_path / "out")))
    thread.start()
    thread.join(30)
    # The signal would have been sent when the thread ended: the child would not come to its own end.
    go.touch()
    assert children[0].wait(30) == 0


def test_a_child_is_out_of_reach_of_the_terminals_interrupt(tmp_path: Path) -> None:
    child = spawn(SLEEPER, tmp_path / "out")
    try:
        assert os.getpgid(child.pid) != os.getpgid(0)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(30)


def test_a_process_that_ignores_its_stop_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    deaf = spawn(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"], output)
    wait_for(lambda: "deaf" in output.read_text(), what="its trap")
    assert end(deaf, 0.2) == -signal.SIGKILL
    assert end(deaf, 0.2) == -signal.SIGKILL, "of one that has ended"
    assert end(spawn(SLEEPER, output), 60) == -signal.SIGTERM


def test_a_child_that_starts_after_an_interrupt_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, threading\n"
        "from coldnotify_kafka.broker import process\n"
        "start, interrupted, started, children = process._spawn, threading.Event(), threading.Event(), []\n"
        "def interrupt(*_):\n"
        "    if not interrupted.is_set():\n"
        "        interrupted.set()\n"
        "        raise KeyboardInterrupt\n"
        "def interrupt_then_start(*arguments):\n"
        # A signal that comes just before the main thread begins to wait for a lock does not wake it.
        "    while not interrupted.wait(0.05):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    children.append(start(*arguments))\n"
        "    started.set()\n"
        "    return children[0]\n"
        "process._spawn = interrupt_then_start\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "try:\n"
        f"    process.spawn({SLEEPER!r}, pathlib.Path({str(tmp_path / 'out')!r}))\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "assert started.wait(60)\n"
        "print(children[0].wait(60))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=150, check=False)
    assert ran.stdout.split() == [str(-signal.SIGKILL)], ran.stderr
