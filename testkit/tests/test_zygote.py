"""A process that is forked from the zygote is as one that was started, and ends with the process that asked for it."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from coldnotify_testkit import zygote
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

SHOW = """
import json, os, resource, signal, sys
signals = {n: str(signal.getsignal(n)) for n in sorted(signal.valid_signals()) if signal.getsignal(n) is not None}
descriptors = sorted(int(n) for n in os.listdir("/proc/self/fd"))
print(json.dumps({
    "directory": os.getcwd(), "environ": dict(os.environ), "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
    "signals": {n: said.partition(" at ")[0] for n, said in signals.items()},
    "mask": sorted(signal.pthread_sigmask(0, ())),
    "stdin": os.readlink("/proc/self/fd/0"), "umask": os.umask(0), "nice": os.nice(0), "session": os.getsid(0),
    "group": os.getpgrp() if os.getpgrp() != os.getpid() else "its own",
}), flush=True)
print("said", file=sys.stderr)
"""
WAIT = "import threading; print('runs', flush=True); threading.Event().wait()"


def forked(
    code: str, output: Path, environ: Mapping[str, str] | None = None, *, own_group: bool = False
) -> zygote.ForkedProcess:
    with output.open("ab") as file:
        process = zygote.start("coldnotify_testkit.zygote:code", [code], file.fileno(), environ, own_group=own_group)
    assert process is not None
    return process


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[zygote.ForkedProcess]:
    """One that runs until it gets a signal."""
    process = forked(WAIT, tmp_path / "waiting")
    wait_for(lambda: "runs" in (tmp_path / "waiting").read_text(), "it runs")
    yield process
    process.kill()
    process.wait(WAIT_S)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("own_group", [False, True])
def test_it_finds_what_a_started_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_group: bool
) -> None:
    zygote.address()  # it was there before what follows
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.umask(0o027)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
        environ = {**os.environ, "COLDNOTIFY_KAFKA": "of this call"}
        with (tmp_path / "started").open("ab") as file:
            quiet, group = subprocess.DEVNULL, 0 if own_group else None
            argv = [sys.executable, "-c", SHOW]
            subprocess.run(argv, stdin=quiet, stdout=file, stderr=file, env=environ, process_group=group, check=True)
        assert forked(SHOW, tmp_path / "forked", environ, own_group=own_group).wait(WAIT_S) == 0
    finally:
        os.umask(before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wanted, found = ((tmp_path / name).read_text().splitlines() for name in ("started", "forked"))
    assert json.loads(found[0]) == json.loads(wanted[0])
    assert found[1:] == wanted[1:] == ["said"]


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(7)", 7), ("raise ValueError", 1), ("import os; os._exit(5)", 5), ("pass", 0)],
)
def test_its_exit_status_is_told(tmp_path: Path, code: str, status: int) -> None:
    process = forked(code, tmp_path / "output")
    assert process.wait(WAIT_S) == process.poll() == process.returncode == status
    assert not is_there(process.pid)
    process.terminate()  # nobody: its id may be another one's by now


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_it(waiting: zygote.ForkedProcess, number: signal.Signals) -> None:
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    os.kill(waiting.pid, number)
    assert waiting.wait(WAIT_S) == -number
    assert not is_there(waiting.pid)


def test_ctrl_c_is_for_it_as_for_any_other(waiting: zygote.ForkedProcess, tmp_path: Path) -> None:
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(WAIT_S) in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in (tmp_path / "waiting").read_text()


def test_atexit_and_buffers_are_as_ever(tmp_path: Path) -> None:
    code = "import atexit; atexit.register(print, 'at the end'); print('buffered')"
    assert forked(code, tmp_path / "output").wait(WAIT_S) == 0
    assert (tmp_path / "output").read_text() == "buffered\nat the end\n"


def test_all_is_imported_and_nothing_runs(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(len(os.listdir('/proc/self/task')), "
        f"[one for one in {zygote.MODULES} if one not in sys.modules])"
    )
    assert forked(code, tmp_path / "output").wait(WAIT_S) == 0
    assert (tmp_path / "output").read_text() == "1 []\n"


def test_with_another_environment_for_python_and_libraries_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote.address()
    for name in ("PYTHONPATH", "LD_PRELOAD", "TMPDIR", "TZ"):
        with monkeypatch.context() as patch, (tmp_path / "output").open("ab") as file:
            patch.setenv(name, "other")
            assert zygote.start("coldnotify_testkit.zygote:code", ["pass"], file.fileno()) is None


ASKS = f"""
import sys
from coldnotify_testkit import zygote
process = zygote.start("coldnotify_testkit.zygote:code", [{WAIT!r}], 2)
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("whose", ["its own zygote", "the zygote of the tests"])
def test_it_ends_with_whoever_asked_for_it(whose: str) -> None:
    environ = {**os.environ, **({} if whose == "its own zygote" else {zygote.ADDRESS_VARIABLE: zygote.address()})}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ASKS], stdin=pipe, stdout=pipe, env=environ, text=True) as asks:
        pid = int(next(line for line in asks.stdout or ()))
        assert is_there(pid)
        asks.kill()
    wait_for(lambda: not is_there(pid), "its end")


def test_a_test_that_changes_the_environment_may_be_the_first(tmp_path: Path) -> None:
    code = """
import os
from coldnotify_testkit import zygote
os.environ["PYTHONPATH"] = "elsewhere"
print(zygote.start("coldnotify_testkit.zygote:code", ["pass"], 1))
del os.environ["PYTHONPATH"]
print(zygote.start("coldnotify_testkit.zygote:code", ["pass"], 1).wait(100))
"""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", zygote.ADDRESS_VARIABLE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert done.stdout == "None\n0\n", done.stderr
