"""From a received notification to callbacks that returned: floors, slots, retries, parking, and the cursor they hold.

Each wanted object has at most one slot: one version that its callbacks are being told, and one newer that waits. A
still newer one replaces the waiting one, so what waits is bounded by the number of objects, however much is
published.
"""

import heapq
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify._core.frontier import Frontier, Hold
from coldnotify._core.interests import Interest, Query
from coldnotify._core.journal import Journal
from coldnotify._core.membership import Floor, Kept
from coldnotify._core.queries import Queries
from coldnotify._core.registrations import Registrations
from coldnotify._core.settings import Settings
from coldnotify._core.telling import MembersJob
from coldnotify.errors import (
    CallbackFailed,
    ColdNotifyError,
    MembersCallbackFailed,
    ObjectParked,
    PayloadUnreadable,
)
from coldnotify.notification import Notification

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

    @property
    def arguments(self) -> tuple[Notification]:
        """For a callback."""
        return (self.notification,)


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
        queries: Mapping[Query, Kept] | None = None,
    ) -> None:
        self._journal = journal
        self._registrations = registrations
        self._settings = settings
        self.report = report
        self.floors = dict(floors)
        self.epoch = epoch
        self._frontier = Frontier(cursor)
        self._slots: dict[str, _Slot] = {}
        self._subscribers: dict[Interest, set[int]] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._retries: list[tuple[float, str]] = []
        self._jobs: set[Job | MembersJob] = set()
        self._known: dict[str, tuple[Floor, set[int]]] = {}
        """By object: this version of it, and no newer one, has been told to these subscribers, and to no others."""
        self.parked: set[str] = set()
        """Objects whose callbacks failed too often, since the start and until they succeed."""
        self.queries = Queries(journal, registrations, settings, self, queries or {})
        self._of = self.queries.of

    # What a session says

    def arrived(self, name: str, update: Update) -> None:
        """A notification of an object that this client uses. Duplicates, and objects not wanted any more, end here."""
        if name not in self._registrations.wanted and not self.queries.have(name):
            return
        self._registrations.arrived(name)
        known = self._known.pop(name, None) if self._known else None
        slot = self._slots.get(name)
        floor = self.floors.get(name)
        if update.version is not None and floor is not None and update.floor <= floor:
            if slot is None:
                self._settle(name)
            return
        if slot is None:
            slot = self._slots[name] = _Slot()
        elif update.floor <= slot.newest and not (known and slot.waiting is None and update.floor == known[0]):
            return
        if name in self._of:
            self.queries.arrived(name)
        slot.waiting = update
        slot.told = known[1] if known and update.floor <= known[0] else set()
        if slot.waiting_hold is None and not self._registrations.is_owed(name):
            slot.waiting_hold = self._frontier.hold()
        self._offer(name, slot)

    def changed(
        self, name: str, update: Update, entered: Collection[int], left: Collection[int], *, answer: bool
    ) -> None:
        """A notification that says which of the client's queries the object entered and left."""
        new = self.queries.enter(name, entered, answer=answer)
        if update.version is not None:
            if new:
                self._tell_also(name, {number for one in new for number in self._subscribers[one.query]})
            self.arrived(name, update)
            if entered and name in self._slots:
                self.queries.await_version(name, entered, answer=answer)
        elif entered and self._registrations.is_awaited(name):
            self.arrived(name, update)
        self.queries.leave(name, left)

    def complete(self, complete: int) -> None:
        """A frame carried this number, after all that arrived before. Without an epoch it means nothing."""
        if self.epoch is None:
            return
        self._move(lambda: self._frontier.complete(complete))

    def new_epoch(self, epoch: int) -> None:
        """The old epoch's cursor means nothing any more. Floors stay."""
        self.epoch = epoch
        self._frontier.void()
        self.queries.new_epoch()
        self._journal.changed()

    # What the application says

    def wants(self, interest: Interest) -> None:
        """It is wanted from now on. Who registers for an object by its name is told it, whoever was told it before."""
        if isinstance(interest, Query):
            self.queries.add(interest)
        elif interest in self._of:
            self._tell_also(interest, self._subscribers.get(interest, set()))

    def subscribe(self, interest: Interest, subscriber: int) -> None:
        """Another callback for this object, or for a query's members; what waited for one is ready now."""
        subscribers = self._subscribers.setdefault(interest, set())
        subscribers.add(subscriber)
        if isinstance(interest, Query):
            if len(subscribers) == 1:
                self.queries.subscribe(interest)
        else:
            self.offer(interest)

    def unsubscribe(self, interest: Interest, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        subscribers = self._subscribers.get(interest, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(interest, None)
            if isinstance(interest, Query):
                self.queries.unsubscribe(interest)
            else:
                self.offer(interest)

    def subscribe_members(self, query: Query, subscriber: int) -> None:
        """Another callback for what enters and leaves this query."""
        self.queries.callbacks.subscribe(query, self.queries.get(query), subscriber)

    def unsubscribe_members(self, query: Query, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        self.queries.callbacks.unsubscribe(query, self.queries.get(query), subscriber)

    def forget(self, interest: Interest) -> None:
        """It is not wanted any more: nothing of it waits, nothing is held, its floor goes. Subscribers stay."""
        if isinstance(interest, Query):
            self.queries.forget(interest)
        elif interest in self._of:
            self.offer(interest)
        else:
            self.unwanted(interest)
            self.forget_floor(interest)

    def owe_all(self) -> None:
        """All wanted objects have become pending registrations (reg-sync): they hold nothing any more."""
        for name, slot in self._slots.items():
            self._owe(name, slot)
        self.queries.begin_sync()

    # What the callback thread says

    def prepare(self) -> None:
        """What the document is to have in it before callbacks begin. Called before it is written."""
        self.queries.callbacks.prepare()

    def next_job(self, now: float) -> Job | MembersJob | None:
        """The callbacks to run next, or None."""
        self._wake_retries(now)
        if self.queries.callbacks.telling:
            members_job = self.queries.callbacks.next_job(now)
            if members_job is not None:
                self._jobs.add(members_job)
                return members_job
        while self._ready:
            name, _ = self._ready.popitem(last=False)
            slot = self._slots[name]
            update = slot.waiting
            assert update is not None, "what is ready waits"
            audience = self._audience(name, update) if name in self._of else self._subscribers[name]
            subscribers = audience - slot.told
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

    def done(self, job: Job | MembersJob, failed: Mapping[int, BaseException], now: float) -> None:
        """The job's callbacks have returned, or raised what `failed` says by subscriber."""
        self._jobs.discard(job)
        if isinstance(job, MembersJob):
            for cause in failed.values():
                self.report(MembersCallbackFailed(job.query.text, cause))
            if self.queries.get(job.query) is job.membership:
                self.queries.callbacks.done(job, failed, now)
            return
        name = job.notification.object_id
        slot = self._slots.get(name)
        if slot is None or slot.running is not job:
            return  # unregistered meanwhile
        slot.running = None
        for cause in failed.values():
            self.report(CallbackFailed(name, job.update.version, cause))
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
        if self._ready or self._jobs or not self.queries.callbacks.idle:
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
        at = min(self._retries[0][0] if self._retries else float("inf"), self.queries.callbacks.ready_at())
        return None if at == float("inf") else at

    # What queries ask

    def hold(self) -> Hold:
        """The cursor waits from here on."""
        return self._frontier.hold()

    def release(self, hold: Hold) -> None:
        """It need not wait for this any more."""
        self._move(lambda: self._frontier.release(hold))

    def is_heard(self, query: Query) -> bool:
        """Whether callbacks are told the versions of its members."""
        return query in self._subscribers

    def newest(self, name: str) -> Floor | None:
        """The object's newest version that waits to be told, or is being told."""
        slot = self._slots.get(name)
        return None if slot is None else slot.newest

    def offer(self, name: str) -> None:
        """Let the version that waits run as soon as it may, if one does."""
        slot = self._slots.get(name)
        if slot is not None:
            self._offer(name, slot)

    def unwanted(self, name: str) -> None:
        """Nothing wants the object any more: nothing of it waits, nothing is held."""
        self._drop(name)
        self.parked.discard(name)
        self._known.pop(name, None)

    def forget_floor(self, name: str) -> None:
        """When the object comes again, it is told again."""
        if self.floors.pop(name, None) is not None:
            self._journal.changed()

    # One slot

    def _offer(self, name: str, slot: _Slot) -> None:
        """Let the waiting version run as soon as it may."""
        if name not in self._subscribers and not (name in self._of and self._audience(name, slot.waiting)):
            self._ready.pop(name, None)
            if name in self._of and name not in self._registrations.wanted:
                self._pass_over(name, slot)
            else:
                self._owe(name, slot)
        elif slot.waiting is not None and slot.running is None and slot.retry_at is None:
            if name in self._of and self.queries.is_blocked(name):
                self._ready.pop(name, None)
            else:
                self._ready[name] = None

    def _audience(self, name: str, update: Update | None = None) -> set[int]:
        """Who is told a version of this object. That there is none is told to those who asked for it by its name."""
        subscribers = self._subscribers.get(name, set())
        if update is not None and update.version is None:
            return subscribers
        for membership in self._of.get(name, ()):
            subscribers = subscribers | self._subscribers.get(membership.query, set())
        return subscribers

    def _pass_over(self, name: str, slot: _Slot) -> None:
        """A version of a member that nobody has a callback for: its queries know that they missed it."""
        if slot.waiting is not None:
            self.queries.arrived(name)
        slot.waiting = None
        if slot.running is None:
            self._drop(name)
        elif slot.waiting_hold is not None:
            hold, slot.waiting_hold = slot.waiting_hold, None
            self.release(hold)

    def _tell_also(self, name: str, numbers: set[int]) -> None:
        """What was told of this object was not told to these subscribers: when it comes again, they are told."""
        slot = self._slots.get(name)
        if slot is not None and slot.waiting is not None:
            slot.told -= numbers
        elif name in self._known:
            self._known[name][1].difference_update(numbers)
        elif slot is not None and slot.running is not None:
            self._known[name] = slot.running.update.floor, set(slot.running.subscribers) - numbers
        elif name in self.floors:
            self._known[name] = self.floors[name], self._audience(name) - numbers
            self.forget_floor(name)

    def _take(self, slot: _Slot) -> None:
        slot.waiting = None
        slot.running_hold, slot.waiting_hold = slot.waiting_hold, None

    def _applied(self, name: str, slot: _Slot, update: Update) -> None:
        # The same version may have come again, for those of a query that the object has entered.
        all_told = slot.waiting is None or slot.waiting.floor != update.floor
        # And it is still to come for those who have subscribed while it was being told.
        if update.version is not None and all_told and name not in self._known:
            self.floors[name] = update.floor
        self.parked.discard(name)
        slot.failures = 0

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
        if all_told and name in self._of:
            self.queries.told(name, update.floor)

    def _failed(self, name: str, slot: _Slot, job: Job, failed: Mapping[int, BaseException], now: float) -> None:
        if slot.waiting is None:
            slot.waiting = job.update
            slot.told |= set(job.subscribers) - set(failed)
            slot.waiting_hold, slot.running_hold = slot.running_hold, None
        else:
            if slot.waiting.floor == job.update.floor:
                slot.told -= set(failed)  # the same has come again, for others
            if slot.running_hold is not None:
                # A newer one has come: it stands in for the failed one, from the earlier place on.
                if slot.waiting_hold is not None:
                    self._frontier.release(slot.waiting_hold)
                slot.waiting_hold, slot.running_hold = slot.running_hold, None
        slot.failures += 1
        if slot.failures >= self._settings.tries_max:
            self.report(ObjectParked(name, job.update.version, slot.failures))
            self.parked.add(name)
            if name in self._of:
                self.queries.lost(name)
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
                self.report(PayloadUnreadable(name, update.version))
        return Notification(name, update.version, payload, update.deleted)
