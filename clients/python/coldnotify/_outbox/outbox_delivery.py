"""A thread that empties an outbox: in order, a batch at a time; what is not known to be published is sent again.

One batch is in flight at a time, and the next one contains what has gathered meanwhile. So nothing overtakes what must
be sent again, and a newer publish of an object replaces the older ones that are not in the batch.
"""

import concurrent.futures
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._forked import Owner
from coldnotify._outbox.outbox_base import Outbox, RejectedRecord
from coldnotify._outbox.outbox_directory import SYNC_S
from coldnotify.errors import OutboxError

_logger = logging.getLogger("coldnotify.outbox")

BATCH_MAX = 1000
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Limit on a batch in flight. Kafka acknowledges as much together; newer publishes cannot replace what is in flight."""
RETRY_MIN_S, RETRY_MAX_S = 0.1, 30.0
"""Between two tries while nothing gets through: doubling, half of it at random."""
_STOP_S = 10
"""How long the thread may take to end: what it waits for is given up first."""

Place = tuple[int, int]
"""Partition and offset of a published record; offset -1: unknown."""


class RejectedForEver(Exception):
    """The service refuses a record, and would refuse it again."""


class NotYet(Exception):
    """A record is not known to be published."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """It is of no use to try before."""


class WrongClock(NotYet):
    """A record's version comes from a clock that was wrong, so it was not published: it gets another one."""

    def __init__(self, message: str, service_ms: int) -> None:
        super().__init__(message)
        self.service_ms = service_ms
        """The service's clock then."""


Outcome = Place | RejectedForEver | NotYet


class RecordCarrier(Protocol):
    """Brings records to the service."""

    def carry(self, batch: Sequence[Outgoing]) -> list[Outcome]:
        """Sends these in order; what became of each. Fewer than these: the rest was not tried."""

    def stop(self) -> None:
        """carry(), in another thread, returns soon."""

    def close(self) -> None:
        """There will be no carry() any more."""


class Delivered(NamedTuple):
    """The outcome of a record: it, or the newer one that replaced it, is published."""

    version: int | None
    partition: int
    offset: int


class RecordDelivery(concurrent.futures.Future[Delivered]):
    """Also ends with RejectedForEver, or with NotYet when the outbox was closed before.

    In a child of fork() nobody would settle it: whatever is asked of it raises UsedAfterFork there.
    """

    version: int | None = None
    """The record's present version, if it was renumbered."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = Owner("a publish in an outbox", "ask in the process that published it")

    def done(self) -> bool:
        self._owner.check()
        return super().done()

    def result(self, timeout: float | None = None) -> Delivered:
        self._owner.check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._owner.check()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Delivered]], object]) -> None:
        self._owner.check()
        super().add_done_callback(fn)


class OutboxDelivery:
    """The thread. It also settles the receipts of records."""

    def __init__(
        self,
        directory: Outbox,
        carrier: RecordCarrier,
        on_rejected: Callable[[RejectedRecord], None] | None,
    ) -> None:
        """Starts it. `on_rejected` is called in it."""
        self._directory, self._carrier, self._on_rejected = directory, carrier, on_rejected
        self._owner = directory.owner
        self._changed = threading.Condition()
        """Guards what follows; notified of news."""
        self._stopping = False
        self._news = False
        """Something was accepted since the thread has looked."""
        self._last_error: str | None = None
        self._receipts_lock = threading.Lock()
        """Guards what follows; the last of all locks to be taken."""
        self._receipts: dict[int, list[RecordDelivery]] = {}
        """By the number of the record that they wait for."""
        directory.on_change = self._wake
        directory.on_taken_out = self._taken_out
        if directory.damage is not None:
            _logger.error("%s", directory.damage)
        self._thread = threading.Thread(target=self._run, name="coldnotify-outbox", daemon=True)
        self._thread.start()

    # -- what comes ----------------------------------------------------------------------------------------------------

    def accept(self, outgoings: Sequence[Outgoing], version_min: int = 0) -> list[tuple[KeptEntry, RecordDelivery]]:
        """Keeps these, all or none; returns each with a future that is settled once it is published. Raises OutboxFull,
        OutboxError, UsedAfterFork.
        """
        self._owner.check()
        deliveries: dict[int, RecordDelivery] = {}

        def expect(records: list[KeptEntry]) -> None:
            for record in records:
                delivery = deliveries[record.number] = RecordDelivery()
                delivery.set_running_or_notify_cancel()  # who waits may go, the record is not taken back
            with self._receipts_lock:
                self._receipts |= {number: [delivery] for number, delivery in deliveries.items()}

        try:
            records = self._directory.accept(outgoings, expect, version_min)
        except OutboxError:
            with self._receipts_lock:
                for number in deliveries:
                    self._receipts.pop(number, None)
            raise
        return [(record, deliveries[record.number]) for record in records]

    @property
    def last_error(self) -> str | None:
        """Why the last try failed; None: it did not."""
        return self._last_error

    def flush(self, timeout_s: float) -> int:
        """Waits until the outbox is empty, at most `timeout_s`; how many records are left. Raises UsedAfterFork."""
        self._owner.check()
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while (left := self._directory.pending().records) and not self._stopping:
                if not self._changed.wait(max(0.0, deadline_s - time.monotonic())) and time.monotonic() >= deadline_s:
                    break
        return left

    def close(self, timeout_s: float) -> None:
        """Waits as flush() does; what is left stays in the outbox, for the next start. May be called twice. In a child
        of fork() it does nothing.
        """
        if not self._owner.is_here:
            return
        self.flush(timeout_s)
        with self._changed:
            already, self._stopping = self._stopping, True
            self._changed.notify_all()
        if already:
            return
        self._carrier.stop()
        self._thread.join(_STOP_S)
        self._carrier.close()
        self._directory.close()
        with self._receipts_lock:
            left = [delivery for several in self._receipts.values() for delivery in several]
            self._receipts.clear()
        for delivery in left:
            delivery.set_exception(NotYet("the outbox was closed; the record is in it, and is published later"))

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def _taken_out(self, old: int, new: int) -> None:
        with self._receipts_lock:
            if waiting := self._receipts.pop(old, []):
                self._receipts.setdefault(new, []).extend(waiting)

    def _run(self) -> None:
        failures = 0
        while not self._stopping:
            batch = self._directory.take(BATCH_MAX, BATCH_BYTES_MAX)
            if not batch:
                with self._changed:
                    if not self._news and not self._stopping:
                        self._changed.wait(SYNC_S if self._directory.unsynced else None)
                    self._news = False
                self._directory.sync(SYNC_S)
                continue
            try:
                outcomes = self._carrier.carry([record.outgoing for record in batch])
            except Exception as error:
                # A bug, here or in what it uses. Nobody else empties the outbox.
                _logger.exception("records in the outbox %s could not be sent; they are tried again", self._directory)
                outcomes = [NotYet(repr(error))]
            failed = self._take_in(batch, outcomes)
            if failed is None:
                failures, self._last_error = 0, None
                continue
            failures = failures + 1 if isinstance(outcomes[0], NotYet) else 0
            self._last_error = str(failed)
            _logger.info("outbox %s: %s; it is tried again", self._directory, failed)
            pause_s = min(RETRY_MAX_S, RETRY_MIN_S * 2 ** min(failures, 20)) * random.uniform(0.5, 1)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, max(pause_s, failed.retry_after_s))

    def _take_in(self, batch: Sequence[KeptEntry], outcomes: Sequence[Outcome]) -> NotYet | None:
        """Handles a batch's outcomes; returns the first reason why some of it must be sent again."""
        failed: NotYet | None = None
        gone: list[tuple[KeptEntry, Place | RejectedForEver]] = []
        rejected: list[RejectedRecord] = []
        back: list[int] = []
        for place, record in enumerate(batch):
            outcome = outcomes[place] if place < len(outcomes) else NotYet("a record before it is not published yet")
            if isinstance(outcome, RejectedForEver):
                try:
                    rejected.append(self._directory.set_aside(record, str(outcome)))
                except OutboxError as error:
                    outcome = NotYet(str(error))
            if isinstance(outcome, NotYet):
                failed = failed or outcome
                back.append(record.number)
            else:
                gone.append((record, outcome))
        self._renumber(
            {
                record.number: outcome.service_ms
                for record, outcome in zip(batch, outcomes, strict=False)
                if isinstance(outcome, WrongClock)
            }
        )
        self._directory.settle([record.number for record, _ in gone])
        self._directory.put_back(back)
        for record, outcome in gone:
            with self._receipts_lock:
                waiting = self._receipts.pop(record.number, [])
            for delivery in waiting:
                if isinstance(outcome, RejectedForEver):
                    delivery.set_exception(outcome)
                else:
                    delivery.set_result(Delivered(record.outgoing.version, *outcome))
        for one in rejected:
            self._tell(one)
        with self._changed:
            self._changed.notify_all()
        return failed

    def _renumber(self, clocks: dict[int, int]) -> None:
        if not clocks:
            return
        try:
            records = self._directory.renumber(clocks)
        except OutboxError as error:
            _logger.warning("%s; it is tried again", error)
            return
        with self._receipts_lock:
            for record in records:
                # Those behind the first are of older records that it took out.
                for delivery in self._receipts.get(record.number, ())[:1]:
                    delivery.version = record.outgoing.version

    def _tell(self, rejected: RejectedRecord) -> None:
        about = f"{rejected.domain}/{rejected.group}/{rejected.object or rejected.channel}"
        _logger.error("outbox %s: %s is set aside: %s", self._directory, about, rejected.reason)
        if self._on_rejected is not None:
            try:
                self._on_rejected(rejected)
            except Exception:
                _logger.exception("on_rejected raised")
