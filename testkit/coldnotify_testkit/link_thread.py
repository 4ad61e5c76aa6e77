"""The thread of a raw device's link: it makes all calls of the device, in the order in which they were queued."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

D = TypeVar("D")


class LinkThread(Generic[D]):
    """A thread with a queue of actions. A link's `_run` ends once `_stopping` is true."""

    def __init__(self, name: str) -> None:
        self._todo: list[Callable[[D], None]] = []
        self._lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends its connection. Waits for the thread."""
        self._stopping = True
        self._thread.join()

    def do(self, what: Callable[[D], None]) -> None:
        """Queues an action for the thread; actions run in order."""
        with self._lock:
            self._todo.append(what)

    def _do_queued(self, device: D) -> None:
        """Runs the queued actions."""
        with self._lock:
            todo, self._todo = self._todo, []
        for one in todo:
            one(device)

    def _run(self) -> None:
        raise NotImplementedError
