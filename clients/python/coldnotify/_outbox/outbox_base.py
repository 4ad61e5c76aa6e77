"""The interface of an outbox, on disk or in memory: a queue that many threads use, and its reports."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outbox_queue import OutboxQueue
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._forked import Owner
from coldnotify.errors import OutboxDamaged


class RejectedRecord(NamedTuple):
    """A record that the service refused for ever. It is set aside in rejected.jsonl."""

    domain: str
    group: str
    object: str | None
    channel: str | None
    """Either this or the object is None."""
    version: int | None
    id: str | None
    payload: bytes | None
    reason: str


def rejected_of(kept: KeptEntry, reason: str) -> RejectedRecord:
    """Returns the report on a refused record."""
    said = kept.outgoing
    return RejectedRecord(
        said.domain,
        said.group,
        None if said.is_message else said.name,
        said.name if said.is_message else None,
        said.version,
        said.id or None,
        said.payload,
        reason,
    )


class Pending(NamedTuple):
    """The waiting records of an outbox."""

    records: int
    size_bytes: int
    oldest_age_s: float
    """0: nothing waits."""


class Outbox(ABC):
    """Safe to use from many threads."""

    def __init__(self, queue: OutboxQueue) -> None:
        self._queue = queue
        self.owner = Owner("the outbox", "open another one, with a directory of its own, in this process")
        self._lock = threading.Lock()
        """Guards the queue."""
        self._closed = False
        self.on_change: Callable[[], None] = lambda: None
        """Called when something waits that did not before."""
        self.on_taken_out: Callable[[int, int], None] = lambda _old, _new: None
        """Called with the numbers of a record and of the newer one that took it out."""
        self.damage: OutboxDamaged | None = None
        """Damage that was found when it was opened."""

    @abstractmethod
    def accept(
        self,
        outgoings: Sequence[Outgoing],
        on_numbered: Callable[[list[KeptEntry]], None] = lambda _: None,
        version_min: int = 0,
    ) -> list[KeptEntry]:
        """Keeps these, all or none; returns when they are kept. Raises OutboxFull, OutboxError, UsedAfterFork.

        `on_numbered` is called with the numbered records before anybody can take them.
        """

    def take(self, records_max: int, bytes_max: int) -> list[KeptEntry]:
        """The next ones; they are under way from now on."""
        self.owner.check()
        with self._lock:
            return self._queue.take(records_max, bytes_max)

    def put_back(self, numbers: Sequence[int]) -> None:
        """These were not published; they wait again."""
        with self._lock:
            for old, new in self._queue.put_back(numbers):
                self.on_taken_out(old, new)

    @abstractmethod
    def renumber(self, clocks: Mapping[int, int]) -> list[KeptEntry]:
        """Gives these records, by number, new versions: they were numbered by a wrong clock, while the service's showed
        this. Returns the new records, once they are kept. Raises OutboxError.
        """

    @abstractmethod
    def settle(self, numbers: Sequence[int]) -> None:
        """These are published, or refused for ever."""

    def sync(self, older_than_s: float = 0.0) -> None:  # noqa: B027  (not every outbox is on a disk)
        """Makes durable what is settled, if the last time was so long ago."""

    @property
    def unsynced(self) -> bool:
        """True if sync() has something to do."""
        return False

    @abstractmethod
    def set_aside(self, kept: KeptEntry, reason: str) -> RejectedRecord:
        """A record was refused for ever. Raises OutboxError."""

    def pending(self) -> Pending:
        """Returns how much waits, and for how long. Raises UsedAfterFork."""
        self.owner.check()
        with self._lock:
            oldest_ms = self._queue.oldest_ms
            age_s = 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000)
            return Pending(len(self._queue), self._queue.size_bytes, age_s)

    @abstractmethod
    def close(self) -> None:
        """Nothing is accepted any more. In a child of fork() it does nothing."""
