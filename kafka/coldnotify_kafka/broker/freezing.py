"""Stops processes and lets them go on, as faults do: SIGSTOP, and waiting until it has been obeyed."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOPPED_SECONDS_MAX = 60.0
"""A thread stops where it next leaves the kernel: on a busy machine, or one whose disk is slow, that may take long."""
_POLL_SECONDS = 0.001
_STOPPED = {"T", "t", "Z", "X"}
"""States in /proc/PID/task/TID/stat: stopped (by a signal, by a tracer), and ended."""


def freeze(pid: int, timeout_s: float = _STOPPED_SECONDS_MAX) -> None:
    """Sends SIGSTOP. Returns once every thread of the process is stopped: after `kill` the signal is only queued.

    (On Linux; other systems do not tell.) Raises ProcessLookupError if the process does not exist (any more),
    TimeoutError.
    """
    os.kill(pid, signal.SIGSTOP)
    if sys.platform != "linux":
        return
    deadline = time.monotonic() + timeout_s
    while running := _running_threads(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid}: threads {running} are not stopped {timeout_s:g} s after SIGSTOP")
        time.sleep(_POLL_SECONDS)


def thaw(pid: int) -> None:
    """Sends SIGCONT. Raises ProcessLookupError if the process does not exist (any more)."""
    os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(pid: int, timeout_s: float = _STOPPED_SECONDS_MAX) -> Iterator[None]:
    """Stops the process inside of `with`, and resumes it afterwards. Raises the same as `freeze` and `thaw`."""
    try:
        freeze(pid, timeout_s)
        yield
    finally:
        thaw(pid)


def _running_threads(pid: int) -> list[str]:
    running = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} ended instead of being stopped") from None
    for task in tasks:
        try:
            # The program's name stands before it, in parentheses, and may contain anything.
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in _STOPPED:
            running.append(task.name)
    return running
