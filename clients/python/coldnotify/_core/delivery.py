"""From a received notification to callbacks that returned: floors, slots, retries, parking, and the cursor they hold.

Each wanted object has at most one slot: one version that its callbacks are being told, and one newer that waits. A
still newer one replaces the waiting one, so what waits is bounded by the number of objects, however much is
published.
"""

import heapq
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify._core.frontier import Frontier, Hold
from coldnotify._core.journal import Journal
from coldnotify._core.registrations import Registrations
from coldnotify._core.settings import Settings
from coldnotify.errors import CallbackFailed, ColdNotifyError, ObjectParked, PayloadUnreadable
from coldnotify.notification import Notification

Floor = tuple[int, int]
"""(incarnation, version): the order of an object's versions."""
Report = Callable[[ColdNotifyError], None]


class Update(NamedTuple):
    """What a Notification frame says of its object."""

    incarnation: int
    version: int | None
    payload: bytes = b""
    deleted: bool = False

    @property
    def floor(self) -> Floor:
        """For comparison; *unknown* is below every version."""
        return (-1, -1) if self.version is None else (self.incarnation, self.version)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Run the callbacks of these subscribers with this notification, then say `Delivery.done`."""

    notification: Notification
    subscribers: tuple[int, ...]
    update: Update


@dataclass(slots=True, eq=False)
class _Slot:
    waiting: Update | None = None
    waiting_hold: Hold | None = None
    told: set[int] = field(default_factory=set)
    """Subscribers whose callback has returned for `waiting`: a retry leaves them out."""
    running: Job | None = None
    running_hold: Hold | None = None
    failures: int = 0
    retry_at: float | None = None

    @property
    def newest(self) -> Floor:
        """Of the version that waits or else runs; a slot has one of them."""
        if self.waiting is not None:
            return self.waiting.floor
        assert self.running is not None, "an empty slot is removed"
        return self.running.update.floor


class Delivery:
    """What is received and not applied yet, the floors and the cursor."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        settings: Settings,
        report: Report,
        *,
        floors: Mapping[str, Floor],
        epoch: int | None,
        cursor: int | None,
    ) -> None:
        self._journal = journal
        self._registrations = registrations
        self._settings = settings
        self._report = report
        self.floors = dict(floors)
        self.epoch = epoch
        self._frontier = Frontier(cursor)
        self._slots: dict[str, _Slot] = {}
        self._subscribers: dict[str, set[int]] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._retries: list[tuple[float, str]] = []
        self._jobs: set[Job] = set()
        self.parked: set[str] = set()
        """Objects whose callbacks failed too often, since the start and until they succeed."""

    # What a session says

    def arrived(self, name: str, update: Update) -> None:
        """A notification of an object that this client uses. Duplicates, and objects not wanted any more, end here."""
        if name not in self._registrations.wanted:
            return
        self._registrations.arrived(name)
        slot = self._slots.get(name)
        floor = self.floors.get(name)
        if update.version is not None and floor is not None and update.floor <= floor:
            if slot is None:
                self._settle(name)
            return
        if slot is None:
            slot = self._slots[name] = _Slot()
        elif update.floor <= slot.newest:
            return
        slot.waiting = update
        slot.told = set()
        if slot.waiting_hold is None and not self._registrations.is_owed(name):
            slot.waiting_hold = self._frontier.hold()
        self._offer(name, slot)

    def complete(self, complete: int) -> None:
        """A frame carried this number, after all that arrived before. Without an epoch it means nothing."""
        if self.epoch is None:
            return
        self._move(lambda: self._frontier.complete(complete))

    def new_epoch(self, epoch: int) -> None:
        """The old epoch's cursor means nothing any more. Floors stay."""
        self.epoch = epoch
        self._frontier.void()
        self._journal.changed()

    # What the application says

    def subscribe(self, name: str, subscriber: int) -> None:
        """Another callback for this object; what waited for one is ready now."""
        self._subscribers.setdefault(name, set()).add(subscriber)
        slot = self._slots.get(name)
        if slot is not None:
            self._offer(name, slot)

    def unsubscribe(self, name: str, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        subscribers = self._subscribers.get(name, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(name, None)
            self._ready.pop(name, None)
            slot = self._slots.get(name)
            if slot is not None:
                self._owe(name, slot)

    def forget(self, name: str) -> None:
        """The object is not wanted any more: nothing of it waits, nothing is held, its floor goes. Subscribers stay."""
        self._drop(name)
        self.parked.discard(name)
        if self.floors.pop(name, None) is not None:
            self._journal.changed()

    def owe_all(self) -> None:
        """All wanted objects have become pending registrations (reg-sync): they hold nothing any more."""
        for name, slot in self._slots.items():
            self._owe(name, slot)

    # What the callback thread says

    def next_job(self, now: float) -> Job | None:
        """The callbacks to run next, or None."""
        self._wake_retries(now)
        while self._ready:
            name, _ = self._ready.popitem(last=False)
            slot = self._slots[name]
            update = slot.waiting
            assert update is not None, "what is ready waits"
            subscribers = self._subscribers[name] - slot.told
            if not subscribers:
                # Those whose callback failed have gone; the others know already.
                self._take(slot)
                self._applied(name, slot, update)
                continue
            slot.running = Job(self._notification(name, update), tuple(sorted(subscribers)), update)
            self._jobs.add(slot.running)
            self._take(slot)
            return slot.running
        return None

    def done(self, job: Job, failed: Mapping[int, BaseException], now: float) -> None:
        """The job's callbacks have returned, or raised what `failed` says by subscriber."""
        self._jobs.discard(job)
        name = job.notification.object_id
        slot = self._slots.get(name)
        if slot is None or slot.running is not job:
            return  # unregistered meanwhile
        slot.running = None
        for cause in failed.values():
            self._report(CallbackFailed(name, job.update.version, cause))
        if not failed:
            self._applied(name, slot, job.update)
        else:
            self._failed(name, slot, job, failed, now)

    # What others ask

    @property
    def cursor(self) -> int | None:
        """All at or below it is applied, or is a pending registration."""
        return self._frontier.cursor

    @property
    def waiting(self) -> int:
        """Objects of which something waits to be told, be it for a subscriber."""
        return len(self._slots)

    @property
    def idle(self) -> bool:
        """Whether all callbacks have returned: what still waits has no subscriber."""
        if self._ready or self._jobs:
            return False
        return not (self._retries and any(slot.retry_at is not None for slot in self._slots.values()))

    @property
    def running(self) -> bool:
        """Whether a job is out."""
        return bool(self._jobs)

    def ready_at(self) -> float | None:
        """When the next job can begin: -inf for now; None: nothing waits for a time."""
        if self._ready:
            return float("-inf")
        return self._retries[0][0] if self._retries else None

    # One slot

    def _offer(self, name: str, slot: _Slot) -> None:
        """Let the waiting version run as soon as it may."""
        if name not in self._subscribers:
            self._owe(name, slot)
        elif slot.waiting is not None and slot.running is None and slot.retry_at is None:
            self._ready[name] = None

    def _take(self, slot: _Slot) -> None:
        slot.waiting = None
        slot.running_hold, slot.waiting_hold = slot.waiting_hold, None

    def _applied(self, name: str, slot: _Slot, update: Update) -> None:
        if update.version is not None:
            self.floors[name] = update.floor
        self.parked.discard(name)
        slot.failures = 0
        slot.told = set()

        def release() -> None:
            if slot.running_hold is not None:
                self._frontier.release(slot.running_hold)
                slot.running_hold = None

        self._journal.changed()
        self._move(release)
        if slot.waiting is None:
            del self._slots[name]
            self._settle(name)
        else:
            self._offer(name, slot)

    def _failed(self, name: str, slot: _Slot, job: Job, failed: Mapping[int, BaseException], now: float) -> None:
        if slot.waiting is None:
            slot.waiting = job.update
            slot.told |= set(job.subscribers) - set(failed)
            slot.waiting_hold, slot.running_hold = slot.running_hold, None
        elif slot.running_hold is not None:
            # A newer one has come: it stands in for the failed one, from the earlier place on.
            if slot.waiting_hold is not None:
                self._frontier.release(slot.waiting_hold)
            slot.waiting_hold, slot.running_hold = slot.running_hold, None
        slot.failures += 1
        if slot.failures >= self._settings.tries_max:
            self._report(ObjectParked(name, job.update.version, slot.failures))
            self.parked.add(name)
            self._owe(name, slot)
            if slot.waiting is job.update:
                self._drop(name)
                return
            slot.failures = 0  # a newer version has come meanwhile: it gets its own tries
        delay = min(self._settings.retry_max_s, self._settings.retry_min_s * 2 ** max(0, slot.failures - 1))
        slot.retry_at = now + delay
        heapq.heappush(self._retries, (slot.retry_at, name))
        self._offer(name, slot)

    def _wake_retries(self, now: float) -> None:
        while self._retries and self._retries[0][0] <= now:
            at, name = heapq.heappop(self._retries)
            slot = self._slots.get(name)
            if slot is not None and slot.retry_at == at:
                slot.retry_at = None
                self._offer(name, slot)

    def _owe(self, name: str, slot: _Slot) -> None:
        """What is in this slot cannot be told for now: let the object be answered again, and the cursor pass."""
        self._registrations.owe(name)
        self._move(lambda: self._release(slot))

    def _drop(self, name: str) -> None:
        slot = self._slots.pop(name, None)
        self._ready.pop(name, None)
        if slot is not None:
            self._move(lambda: self._release(slot))

    def _release(self, slot: _Slot) -> None:
        for hold in (slot.running_hold, slot.waiting_hold):
            if hold is not None:
                self._frontier.release(hold)
        slot.running_hold = slot.waiting_hold = None

    def _settle(self, name: str) -> None:
        self._registrations.settle(name)

    def _move(self, step: Callable[[], None]) -> None:
        """Do what may move the cursor; the document has changed if it did."""
        before = self._frontier.cursor
        step()
        if self._frontier.cursor != before:
            self._journal.changed()

    def _notification(self, name: str, update: Update) -> Notification:
        payload = None
        if update.payload:
            try:
                payload = json.loads(update.payload)
            except (ValueError, RecursionError):
                self._report(PayloadUnreadable(name, update.version))
        return Notification(name, update.version, payload, update.deleted)
