"""For tests: a process on a terminal of its own, which goes as one whose window is closed."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from coldnotify_testkit.waiting import WAIT_S


@contextmanager
def on_a_terminal(
    argv: Sequence[str], hangup: signal.Handlers
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """Yields the process, which leads the terminal's session, and the function that ends the terminal.

    `hangup`: what SIGHUP does before the process chooses. Its output must be short: nobody reads it.
    """
    ours, its = pty.openpty()

    def take_the_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, hangup)

    process = subprocess.Popen(
        argv, stdin=its, stdout=its, stderr=its, start_new_session=True, preexec_fn=take_the_terminal
    )
    os.close(its)
    try:
        yield process, lambda: os.close(ours)
    finally:
        process.kill()
        process.wait(WAIT_S)
