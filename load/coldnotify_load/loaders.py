"""Load-making processes, with a pipe to each: all get a command, each answers."""

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Self


def begun(run: Callable[[Any, Pipe], None], of_each: Sequence[object]) -> tuple[list[Pipe], list[SpawnProcess]]:
    """Starts `run(one, pipe)` for each, in processes of their own: the other ends of the pipes, and the processes."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Pipe] = []
    processes: list[SpawnProcess] = []
    for one in of_each:
        here, there = context.Pipe()
        process = context.Process(target=run, args=(one, there), daemon=True)
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    return pipes, processes


def unstopped(*, bench: bool) -> None:
    """Lets Ctrl-C at a terminal, which is for all of its processes, to the one that has begun this one.

    `bench`: so it does with SIGTERM, which `timeout` and systemd send to all of them: this one ends with its pipe, once
    it has said what it saw.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if bench:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Loaders:
    """A handle of several such processes. Leaving it ends them."""

    def __init__(
        self, run: Callable[[Any, Pipe], None], of_each: Sequence[object], name: str, error: type[Exception]
    ) -> None:
        """Starts `run(one, pipe)` for each. A process that gets None ends; one that answers a text has failed.

        `name`: the name of one of them in an `error`.
        """
        self._name, self._error = name, error
        self._pipes, self._processes = begun(run, of_each)

    def tell(self, what: object) -> None:
        """All of them."""
        for pipe in self._pipes:
            pipe.send(what)

    def answers(self, timeout_s: float) -> list[object]:
        """One of each, within this time together. Raises the error."""
        until_s = time.monotonic() + timeout_s
        answers: list[object] = []
        for pipe in self._pipes:
            if not pipe.poll(max(0.0, until_s - time.monotonic())):
                raise self._error(f"a {self._name} has not answered for {timeout_s:g} s")
            try:
                answer = pipe.recv()
            except EOFError:
                raise self._error(f"a {self._name} has ended; its error is above") from None
            if isinstance(answer, str):
                raise self._error(answer)
            answers.append(answer)
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            with contextlib.suppress(OSError):
                pipe.send(None)
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join(10)
            pipe.close()
