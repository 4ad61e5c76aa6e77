"""Child processes: started so that they do not outlive their parent, and ended in order."""

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

from coldnotify_kafka.broker.private import open_file

KILL_SECONDS_MAX = 10.0
"""SIGKILL cannot be refused, but a process that waits for a disk ends only when that answers."""
_PR_SET_PDEATHSIG = 1


def spawn(
    argv: Sequence[str],
    output: Path | None,
    keep_open: Sequence[int] = (),
    umask: int = -1,
    environ: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `argv`, output appended to the file `output` (None: to our stderr), descriptors `keep_open` passed on.

    The file is for its owner only. `umask`: the child's; -1: the same as ours. `environ`: its environment; None: ours.

    The child gets SIGKILL when this process ends, however it ends (on Linux). It has its own session, so that Ctrl-C in
    a terminal reaches the parent only, which then stops its children in order. Raises OSError.
    """
    started: Future[subprocess.Popen[bytes]] = Future()
    starter = _Starter.of_this_process()
    try:
        starter.orders.put((started, lambda: _spawn(argv, output, keep_open, umask, environ)))
        return started.result()
    except BaseException:
        # Interrupted while it waits: nobody else would know the child.
        started.add_done_callback(_discard)
        raise


def end(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """SIGTERM to a process that runs; after `timeout_s`, SIGKILL. Its exit status (negative: the signal).

    Raises subprocess.TimeoutExpired if it does not end by that either.
    """
    # Popen looks first: the id of a process that was waited for may belong to somebody else by now.
    process.terminate()
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(KILL_SECONDS_MAX)


def _discard(started: "Future[subprocess.Popen[bytes]]") -> None:
    if started.exception() is None:
        child = started.result()
        child.kill()
        child.wait(KILL_SECONDS_MAX)


class _Starter:
    """The one thread that starts all children.

    Linux ties the death signal to the *thread* that started the child: one started by a short-lived worker would be
    killed as soon as that worker ends. This one lives as long as the process; being a daemon it even outlives `atexit`.
    """

    _current: "_Starter | None" = None
    _guard = threading.Lock()

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.orders: queue.SimpleQueue[
            tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]
        ] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="coldnotify-process-starter", daemon=True).start()

    @classmethod
    def of_this_process(cls) -> "_Starter":
        with cls._guard:
            # A forked process has a copy of the object, but not of its thread.
            if cls._current is None or cls._current.pid != os.getpid():
                cls._current = cls()
            return cls._current

    def _work(self) -> None:
        while True:
            started, start = self.orders.get()
            try:
                started.set_result(start())
            except BaseException as error:
                started.set_exception(error)


def _spawn(
    argv: Sequence[str],
    output: Path | None,
    keep_open: Sequence[int],
    umask: int,
    environ: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    with nullcontext(sys.stderr.fileno()) if output is None else open_file(output, "ab") as stream:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            pass_fds=keep_open,
            # Ctrl-C does not reach it. A session of its own would do that, too, but the kernel shares processors among
            # sessions, and may leave one without for a minute (docs/adr/0028-price-of-a-step.md#the-brokers-session).
            process_group=0,
            preexec_fn=_die_with_parent(),
            umask=umask,
            env=environ,
        )


def _die_with_parent() -> Callable[[], None] | None:
    """Returns the function that the child calls between fork and exec.

    The child must not take a lock there, so everything is looked up here.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_for_the_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the request was made.
        if os.getppid() != parent:
            os._exit(1)

    return ask_for_the_signal
