"""A thread of a service that works until it is stopped."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class OwnThread(ABC):
    """Runs `_run` in a thread of its own, which has to return once `_stop` is set."""

    def __init__(self, name: str, join_s: float) -> None:
        """`join_s`: `stop` waits at most so long."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._join_s = join_s

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def end(self) -> None:
        """Requests the end; `stop` waits for it."""
        self._stop.set()

    def stop(self) -> None:
        """Requests the end, and waits for it. May be called before `start`."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(self._join_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _run(self) -> None:
        """The thread."""
