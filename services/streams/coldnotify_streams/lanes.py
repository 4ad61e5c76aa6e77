"""Two bounded queues between readers and a worker: the table and requests by one, logs by the other, one wait for both.

A log may grow by a million records within a second. They wait in a queue of their own, and each step takes few of them:
a publish does not wait behind them.
"""

import queue
import threading
from collections import deque

from coldnotify_streams.core.events import Event, Revoked


class Lane:
    """One of the two, for the threads that fill it: what they put is taken out in the order in which it came."""

    def __init__(self, changed: threading.Condition, events_max: int) -> None:
        self._changed = changed
        self._events_max = events_max
        self.events: deque[Event] = deque()
        """Whoever looks holds the condition."""

    def put(self, event: Event, /, *, timeout: float) -> None:
        """Raises queue.Full if there is no room within so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.events) < self._events_max, timeout):
                raise queue.Full
            self.events.append(event)
            self._changed.notify_all()


class Lanes:
    """Both, for the worker, which empties them."""

    def __init__(self, main_max: int, logs_max: int) -> None:
        self._changed = threading.Condition()
        self.main = Lane(self._changed, main_max)
        self.logs = Lane(self._changed, logs_max)

    def wait(self, timeout_s: float) -> bool:
        """Whether there is anything, after so many seconds at most."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self.main.events or self.logs.events), timeout_s)

    def take(self, main_max: int, logs_max: int) -> list[Event]:
        """So many of the main lane at most, up to a Revoked, and behind them so many of the logs'."""
        taken: list[Event] = []
        with self._changed:
            while self.main.events and len(taken) < main_max:
                taken.append(self.main.events.popleft())
                if isinstance(taken[-1], Revoked):
                    break
            taken += [self.logs.events.popleft() for _ in range(min(logs_max, len(self.logs.events)))]
            self._changed.notify_all()
        return taken
