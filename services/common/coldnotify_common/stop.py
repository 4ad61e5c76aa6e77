"""Turns SIGTERM and SIGINT into a request to stop in order: a flag for threads, an event for asyncio.

SIGHUP stops nothing but a process without its terminal.
"""

import asyncio
import errno
import os
import select
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopFlag:
    """A flag that a signal handler may set whatever the threads are doing.

    threading.Event would not do: its set() takes a lock that the interrupted thread may hold.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def set(self) -> None:
        """Requests the stop. May be called from anywhere, any number of times."""
        if not self._is_set:
            self._is_set = True
            os.write(self._write_fd, b"x")

    def is_set(self) -> bool:
        """Returns true if the stop was requested."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the flag is set, at most `timeout_s`. Returns true if it is set. Any number of threads may
        wait."""
        if not self._is_set:
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
            poll.poll(None if timeout_s is None else max(0, timeout_s * 1000))
        return self._is_set

    def close(self) -> None:
        """Closes the flag's file descriptors; afterwards set() and wait() may not be called."""
        self._is_set = True
        os.close(self._read_fd)
        os.close(self._write_fd)


@contextmanager
def stop_flag() -> Iterator[StopFlag]:
    """Yields a StopFlag that SIGTERM and SIGINT set while the block runs. In the main thread only."""
    flag = StopFlag()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        flag.set()

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        flag.close()


@contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """Yields an asyncio.Event that SIGTERM and SIGINT set while the block runs. In the main thread's running loop
    only."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, event.set)
    try:
        yield event
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def surviving_hangups(reload: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Has SIGHUP call `reload` while the block runs, and end nothing. In the main thread only. Blocks may be nested.

    Where the process' terminal has gone, SIGHUP also stops the process like SIGTERM, unless it was ignored before, as
    with nohup.
    """
    previous = signal.getsignal(signal.SIGHUP)

    def on_signal(number: int, frame: FrameType | None) -> None:
        reload()
        if callable(previous):
            previous(number, frame)
        elif previous != signal.SIG_IGN:
            _stop_without_terminal()

    signal.signal(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, previous)


def _stop_without_terminal() -> None:
    if gone := [descriptor for descriptor in (0, 1, 2) if _has_gone(descriptor)]:
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in gone:
            os.dup2(nowhere, descriptor)  # a line of the log would raise an error
        os.close(nowhere)
        os.kill(os.getpid(), signal.SIGTERM)


def _has_gone(descriptor: int) -> bool:
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
