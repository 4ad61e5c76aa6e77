"""An outbox without a directory: what waits is lost with the process. Otherwise it is as `outbox_directory`."""

import time
from collections.abc import Callable, Mapping, Sequence

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outbox_queue import OutboxQueue
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox.outbox_base import Outbox, RejectedRecord, rejected_of
from coldnotify.errors import OutboxError


class OutboxMemory(Outbox):
    """The queue alone."""

    def __init__(self, *, records_max: int, bytes_max: int) -> None:
        super().__init__(OutboxQueue(records_max, bytes_max))

    def __str__(self) -> str:
        return "in memory"

    def accept(
        self,
        outgoings: Sequence[Outgoing],
        on_numbered: Callable[[list[KeptEntry]], None] = lambda _: None,
        version_min: int = 0,
    ) -> list[KeptEntry]:
        """Keeps these, all or none. Raises OutboxFull, OutboxError, UsedAfterFork."""
        self.owner.check()
        with self._lock:
            if self._closed:
                raise OutboxError("outbox: is closed; nothing was accepted")
            made = self._queue.accept(outgoings, time.time_ns() // 1_000_000, version_min)
            records = [record for record, _ in made]
            on_numbered(records)
            for old, new in self._queue.commit(records):
                self.on_taken_out(old, new)
        self.on_change()
        return records

    def renumber(self, clocks: Mapping[int, int]) -> list[KeptEntry]:
        """See Outbox."""
        with self._lock:
            return [record for record, _ in self._queue.renumber(clocks, time.time_ns() // 1_000_000)]

    def settle(self, numbers: Sequence[int]) -> None:
        """These are published, or refused for ever."""
        with self._lock:
            self._queue.settle(numbers)

    def set_aside(self, kept: KeptEntry, reason: str) -> RejectedRecord:
        """Returns the report; the record is kept nowhere."""
        return rejected_of(kept, reason)

    def close(self) -> None:
        """Nothing is accepted any more. In a child of fork() it does nothing."""
        if not self.owner.is_here:
            return
        with self._lock:
            self._closed = True
