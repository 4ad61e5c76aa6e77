"""Two bounded queues between readers and a worker: one for the table and requests, one for logs.

A log may grow by a million records within a second. They wait in their own queue, and each step takes few of them, so
that a publish does not wait for them. Both queues limit events and bytes: a record may have 64 KiB.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable

from coldnotify_streams.core.events import Event, PartitionsRevoked, Records


class Lane:
    """One of the two queues, for the threads that fill it; first in, first out."""

    def __init__(self, changed: threading.Condition, events_max: int, bytes_max: int) -> None:
        self._changed = changed
        self._events_max, self._bytes_max = events_max, bytes_max
        self.events: deque[tuple[Event, int]] = deque()
        """Waiting events, each with its size in bytes. Readers must hold the condition."""
        self._bytes = 0

    def put(self, event: Event, /, *, timeout: float) -> None:
        """Raises queue.Full if it stays full for so many seconds. A single event always fits, whatever its size."""
        size = _size_of(event)
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(size), timeout):
                raise queue.Full
            self.events.append((event, size))
            self._bytes += size
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        if not self.events:
            return True
        return len(self.events) < self._events_max and self._bytes + size <= self._bytes_max

    def take(self) -> Event:
        """Takes the first event. The caller must hold the condition."""
        event, size = self.events.popleft()
        self._bytes -= size
        return event


class MainLane(Lane):
    """The queue of the table and requests: some of its events end a rest of the worker."""

    def __init__(self, changed: threading.Condition, events_max: int, bytes_max: int) -> None:
        super().__init__(changed, events_max, bytes_max)
        self.urgent = threading.Event()
        """Set while an urgent event waits."""
        self.is_urgent: Callable[[Event], bool] = lambda event: False
        """Decides which events are urgent; set by the worker, once it knows."""

    def put(self, event: Event, /, *, timeout: float) -> None:
        """See Lane."""
        super().put(event, timeout=timeout)
        if self.is_urgent(event):
            self.urgent.set()


class Lanes:
    """Both queues, for the worker, which empties them."""

    def __init__(self, main_max: int, logs_max: int, bytes_max: int) -> None:
        """`bytes_max`: of each."""
        self._changed = threading.Condition()
        self.main = MainLane(self._changed, main_max, bytes_max)
        self.logs = Lane(self._changed, logs_max, bytes_max)

    def rest(self, seconds: float) -> None:
        """Wait for so long, or until something urgent waits."""
        self.main.urgent.wait(seconds)

    def wait(self, timeout_s: float) -> bool:
        """Waits for an event, for so many seconds at most. Returns true if one is waiting."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self.main.events or self.logs.events), timeout_s)

    def take(self, main_max: int, logs_max: int) -> list[Event]:
        """Takes events: at most `main_max` of the main lane, up to a Revoked, then at most `logs_max` of the logs'."""
        taken: list[Event] = []
        self.main.urgent.clear()  # before what is taken: what comes from now on may be left
        with self._changed:
            while self.main.events and len(taken) < main_max:
                taken.append(self.main.take())
                if isinstance(taken[-1], PartitionsRevoked):
                    break
            taken += [self.logs.take() for _ in range(min(logs_max, len(self.logs.events)))]
            self._changed.notify_all()
        return taken


def _size_of(event: Event) -> int:
    """Returns the size of the records' values: everything else is small."""
    if not isinstance(event, Records):
        return 0
    return sum([len(record.value) for record in event.records if record.value])
