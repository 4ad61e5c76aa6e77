"""From a received notification to callbacks that returned: floors, slots, retries, parking, and their hold on the
cursor.

Each wanted object has at most one slot, so what waits is limited by the number of objects, however much is published.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import partial

from coldnotify._core.delivery.callback_turns import CallbackTurns
from coldnotify._core.delivery.floors import Floor, Floors
from coldnotify._core.delivery.member_descriptions import parsed_description
from coldnotify._core.delivery.membership import KeptQuery, Membership
from coldnotify._core.delivery.newest import KeptPayload, NewestUpdates
from coldnotify._core.delivery.queries import Queries
from coldnotify._core.delivery.slot import CallbackJob, Slot, Update
from coldnotify._core.delivery.subscribers import Subscribers
from coldnotify._core.delivery.unsettled import Failing
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, ShareInterest
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify._core.shares.share_member import KeptShare, ShareMember
from coldnotify._core.streams.channels import Channels
from coldnotify._core.streams.feed import KeptChannel
from coldnotify._core.streams.frontier import Frontier, Hold
from coldnotify.errors import (
    CallbackFailed,
    ColdNotifyError,
    ObjectParked,
    PayloadUnreadable,
)
from coldnotify.notification import Notification

Report = Callable[[ColdNotifyError], None]


class Delivery:
    """Versions that are received and not applied yet, the floors and the cursor."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        settings: ClientSettings,
        report: Report,
        *,
        floors: Mapping[str, Floor],
        epoch: int | None,
        cursor: int | None,
        newest: Mapping[str, KeptPayload] | None = None,
        queries: Mapping[QueryInterest, KeptQuery] | None = None,
        channels: Mapping[ChannelInterest, KeptChannel] | None = None,
        channels_epoch: int | None = None,
        channels_cursor: int | None = None,
        shares: Mapping[ShareInterest, KeptShare] | None = None,
    ) -> None:
        self._journal = journal
        self._registrations = registrations
        self._settings = settings
        self.report = report
        self._floors = Floors(journal, floors)
        self.told_last = NewestUpdates(settings.newest_bytes_max, newest or {}, self._floors.told)
        self.epoch = epoch
        self._frontier = Frontier(cursor)
        self._slots: dict[str, Slot] = {}
        self._subscribers = Subscribers()
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._retries: list[tuple[float, str]] = []
        self.failing = Failing(say_errors=settings.say_errors)
        self.parked: set[str] = set()
        """Objects whose callbacks failed too often, since the start and until they succeed."""
        self.queries = Queries(journal, registrations, settings, self, queries or {})
        self._of = self.queries.of
        self.channels = Channels(
            journal, registrations, settings, report, channels or {}, channels_epoch, channels_cursor
        )
        channels_ = self.channels
        self.shares = ShareMember(journal, registrations, settings, report, shares or {}, lambda: channels_.epoch)
        self.turns = CallbackTurns(self, self.queries, self.channels, self.shares, self.failing, report)

    # What a session says

    def arrived(self, name: str, update: Update) -> None:
        """A notification of an object that this client uses. Duplicates, and objects not wanted any more, end here."""
        if name not in self._registrations.wanted and not self.queries.have(name):
            return
        self._registrations.arrived(name)
        if update.version is not None and name in self._of:
            self.queries.missed(name)
        known = self._floors.take_partly(name)
        slot = self._slots.get(name)
        floor = self._floors.get(name)
        again = known is not None and floor == known[0] == update.floor
        if update.version is not None and floor is not None and update.floor <= floor and not again:
            if slot is None:
                self._settle(name)
            return
        if slot is None:
            slot = self._slots[name] = Slot()
        elif update.floor <= slot.newest and not (known and slot.waiting is None and update.floor == known[0]):
            self._hold(name, slot)
            return
        if name in self._of:
            self.queries.replaced(name)
            # What waited may have been for nobody; then it was passed over by this, and its slot is gone.
            slot = self._slots.setdefault(name, slot)
        slot.waiting = update
        slot.told = known[1] if known and update.floor <= known[0] else set()
        if slot.waiting_hold is None and self._holds(name):
            slot.waiting_hold = self._frontier.hold()
        self._offer(name, slot)

    def changed(
        self,
        name: str,
        update: Update,
        entered: Collection[int],
        left: Collection[int],
        *,
        answer: bool,
        description: bytes | None = None,
    ) -> None:
        """Handles a notification with the client's queries that the object entered and left, or with its description.

        `description`: JSON; empty: it has none; None: the frame contains none.
        """
        new = self.queries.enter(name, entered, answer=answer)
        lacking, hearing = self._described(name, description, new) if description is not None else ([], set())
        if new and update.version is not None:
            self._tell_also(name, self._subscribers.of_queries(new))
        if lacking:
            update = self._tell_description(name, update, self._subscribers.of_queries(lacking))
        if update.version is not None or lacking:
            self.arrived(name, update)
            if entered and name in self._slots:
                self.queries.await_version(name, entered, answer=answer)
        elif entered and self._registrations.is_awaited(name):
            self.arrived(name, update)
        # An answer may say once more what callbacks are being told.
        self.queries.await_version(name, [one for one in entered if one in hearing], answer=answer)
        slot = self._slots.get(name)
        if lacking and (slot is None or slot.waiting is None):
            self.queries.descriptions.told(name)
        self.queries.leave(name, left)

    def complete(self, complete: int) -> None:
        """A frame carried this number, after all that arrived before. Without an epoch it means nothing."""
        if self.epoch is None:
            return
        self._move(lambda: self._frontier.complete(complete))

    def prove(self, as_of: float) -> None:
        """A frame proves that everything acknowledged before that time has arrived."""
        self._frontier.prove(as_of)

    @property
    def as_of(self) -> float | None:
        """Everything acknowledged before that time has been told, or is a pending registration. None: not known."""
        return self._frontier.as_of

    @property
    def log_for_hello(self) -> tuple[int | None, int | None]:
        """Returns epoch and cursor of the channels' log."""
        return self.channels.for_hello

    def new_epoch(self, epoch: int) -> None:
        """The old epoch's cursor means nothing any more. Floors stay."""
        self.epoch = epoch
        self._frontier.void()
        self.queries.new_epoch()
        self._journal.changed()

    # What the application says

    def wants(self, interest: Interest) -> None:
        """It is wanted from now on. A registration for an object by its name is answered, whoever
        was told it before.
        """
        if isinstance(interest, QueryInterest):
            self.queries.add(interest)
        elif isinstance(interest, str) and (interest in self._of or self._floors.get(interest)):
            self._tell_also(interest, self._subscribers.of(interest))

    def subscribe(self, interest: Interest, subscriber: int) -> None:
        """Another callback for this object, or for a query's members; what waited for one is ready now."""
        if isinstance(interest, ChannelInterest):
            self.channels.subscribe(interest.name, subscriber)
            return
        if isinstance(interest, ShareInterest):
            self.shares.subscribe(interest, subscriber)
            return
        is_first = self._subscribers.add(interest, subscriber)
        if not isinstance(interest, QueryInterest):
            self.offer(interest)
        elif is_first:
            self.queries.subscribe(interest)

    def unsubscribe(self, interest: Interest, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        if isinstance(interest, ChannelInterest):
            self.channels.unsubscribe(interest.name, subscriber)
            return
        if isinstance(interest, ShareInterest):
            self.shares.unsubscribe(interest, subscriber)
            return
        if self._subscribers.remove(interest, subscriber):
            if isinstance(interest, QueryInterest):
                self.queries.unsubscribe(interest)
            else:
                self.offer(interest)

    def subscribe_members(self, query: QueryInterest, subscriber: int) -> None:
        """Adds a callback for what enters and leaves this query. Versions that were ready may have to wait for it."""
        self.queries.callbacks.subscribe(query, self.queries.get(query), subscriber)
        for name in list(self._ready):
            self._offer(name, self._slots[name])

    def unsubscribe_members(self, query: QueryInterest, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        self.queries.callbacks.unsubscribe(query, self.queries.get(query), subscriber)

    def forget(self, interest: Interest) -> None:
        """It is not wanted any more: nothing of it waits, nothing is held, its floor goes. Subscribers stay."""
        if not isinstance(interest, str):
            self.failing.over(interest)
        if isinstance(interest, ChannelInterest):
            self.channels.forget(interest)
        elif isinstance(interest, ShareInterest):
            self.shares.forget(interest)
        elif isinstance(interest, QueryInterest):
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
        """Prepares what the document must contain before callbacks begin. Called before it is written."""
        self.queries.callbacks.prepare()

    def settle(self) -> None:
        """Applies versions that all remaining subscribers know. Called before the document is written: in it, nothing
        requires them to be told any more.
        """
        for name in list(self._ready):
            slot = self._slots[name]
            if slot.told and not self._untold(name, slot):
                del self._ready[name]
                self._pass(name, slot)

    def next_job(self) -> CallbackJob | None:
        """Returns the callbacks of an object to run next, or None. `turns` asks."""
        while self._ready:
            name, _ = self._ready.popitem(last=False)
            slot = self._slots[name]
            update = slot.waiting
            assert update is not None, "what is ready waits"
            subscribers = self._untold(name, slot)
            if not subscribers:
                # Those whose callback failed have gone; the others know already.
                self._pass(name, slot)
                continue
            description = self.queries.descriptions.of(name) if name in self._of else None
            notification = self._notification(name, update, description)
            slot.running = CallbackJob(notification, tuple(sorted(subscribers)), update, description)
            slot.take()
            return slot.running
        return None

    def done(self, job: CallbackJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        name = job.notification.object_id
        slot = self._slots.get(name)
        if slot is None or slot.running is not job:
            return  # unregistered meanwhile
        slot.running = None
        self.failing.note(name, failed, now)
        for cause in failed.values():
            self.report(CallbackFailed(name, job.update.version, cause))
        if job.description is not None:
            subscribers = set(job.subscribers)
            if not failed and slot.waiting is None:
                subscribers |= slot.told  # a callback was told again, and these had returned before
            heard = {one.query for one in self._of.get(name, ()) if self._is_told(one, subscribers)}
            if failed:
                self.queries.descriptions.failed(name, job.description, heard)
            else:
                self.queries.descriptions.told_as(name, job.description, heard)
        if failed:
            self._failed(name, slot, job, failed, now)
        else:
            self._applied(name, slot, job.update)

    # What others ask

    @property
    def all_parked(self) -> frozenset[Interest]:
        """Objects, queries and channels whose callbacks failed too often."""
        return frozenset((*self.parked, *self.queries.all_parked, *self.channels.all_parked))

    def memberships(self, name: str) -> Collection[Membership]:
        """Returns the queries because of which an object is told."""
        return self._of.get(name, ())

    def membership_of(self, query: QueryInterest) -> Membership | None:
        """Returns the state of a query."""
        return self.queries.get(query)

    @property
    def floors(self) -> Mapping[str, Floor]:
        """The newest version of each object that the application has been told."""
        return self._floors.told

    @property
    def cursor(self) -> int | None:
        """All at or below it is applied, or is a pending registration."""
        return self._frontier.cursor

    @property
    def waiting(self) -> int:
        """Number of objects with undelivered updates."""
        return len(self._slots)

    @property
    def idle(self) -> bool:
        """True if no version waits for a callback, or for another try."""
        if self._ready:
            return False
        return not (self._retries and any(slot.retry_at is not None for slot in self._slots.values()))

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""
        if self._ready:
            return float("-inf")
        return self._retries[0][0] if self._retries else float("inf")

    # What queries ask

    def hold(self) -> Hold:
        """The cursor waits from here on."""
        return self._frontier.hold()

    def release(self, hold: Hold) -> None:
        """It need not wait for this any more."""
        self._move(lambda: self._frontier.release(hold))

    def is_heard(self, query: QueryInterest) -> bool:
        """Returns true if callbacks are told the versions of its members."""
        return self._subscribers.has(query)

    def newest(self, name: str) -> Floor | None:
        """Returns the object's newest version that waits to be told, or is being told."""
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
        self.told_last.forget(name)
        self.failing.over(name)
        self.parked.discard(name)
        self._floors.take_partly(name)

    def forget_floor(self, name: str) -> None:
        """Forgets the object's floor: when it comes again, it is told again."""
        self._floors.forget(name)

    def is_telling(self, name: str) -> bool:
        """Returns true if callbacks are being told a version of this object."""
        slot = self._slots.get(name)
        return slot is not None and slot.running is not None

    # One slot

    def _holds(self, name: str) -> bool:
        """Returns true if the object's version will not be told again otherwise: then the cursor waits for it. A
        pending registration of the object does not help its queries, if it is unregistered before it is told.
        """
        if name in self._registrations.wanted and not self._registrations.is_owed(name):
            return True
        return any(self._subscribers.has(membership.query) for membership in self._of.get(name, ()))

    def _hold(self, name: str, slot: Slot) -> None:
        """The version in the slot has come again: a query that the object has entered may need it."""
        if slot.waiting_hold is None and slot.running_hold is None and self._holds(name):
            if slot.waiting is not None:
                slot.waiting_hold = self._frontier.hold()
            else:
                slot.running_hold = self._frontier.hold()

    def _offer(self, name: str, slot: Slot) -> None:
        """Let the waiting version run as soon as it may."""
        if not self._subscribers.has(name) and not (name in self._of and self._audience(name, slot.waiting)):
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

    def _audience(self, name: str, update: Update | None = None) -> Set[int]:
        """Returns the subscribers that are told this version of the object; None: any."""
        unknown = update is not None and update.version is None
        return self._subscribers.audience(name, self._of.get(name, ()), unknown=unknown)

    def _untold(self, name: str, slot: Slot) -> Set[int]:
        """Returns the subscribers that must be told the version that waits."""
        audience = self._audience(name, slot.waiting) if name in self._of else self._subscribers.of(name)
        return audience - slot.told

    def _pass(self, name: str, slot: Slot) -> None:
        """The version that waits is known to all whom it is for."""
        update = slot.waiting
        assert update is not None, "what is passed waits"
        slot.take()
        self.queries.descriptions.told(name)
        self._applied(name, slot, update)

    def _pass_over(self, name: str, slot: Slot) -> None:
        """A version of a member that nobody has a callback for: its queries know that they missed it. That there is no
        version is what no query waits for that does not ask for descriptions.
        """
        update = slot.waiting
        if update is not None:
            self.queries.missed(name)
            self.queries.replaced(name)
            if update.version is None:
                self.queries.told(name, update.floor)
        slot.waiting = None
        if slot.running is None:
            self._drop(name)
        elif slot.waiting_hold is not None:
            hold, slot.waiting_hold = slot.waiting_hold, None
            self.release(hold)

    def _tell_also(self, name: str, numbers: Set[int]) -> None:
        """These subscribers were not told this object's version: when it comes again, they are."""
        slot = self._slots.get(name)
        if slot is not None and slot.waiting is not None:
            slot.told -= numbers
        elif self._floors.unknown_to(name, numbers):
            pass  # those that know it are fewer now
        elif slot is not None and slot.running is not None:
            told = {*slot.running.subscribers, *slot.told} - numbers
            self._floors.told_to(name, slot.running.update.floor, told)
        elif (floor := self._floors.get(name)) is not None:
            self._floors.told_to(name, floor, {*self._audience(name)} - numbers)
            self._floors.forget(name)

    def _tell_description(self, name: str, update: Update, numbers: Set[int]) -> Update:
        """The object's description differs from what these subscribers were told: its version is told them again.

        Returns what is to be told: without the version, if that is older than one that was told.
        """
        slot = self._slots.get(name)
        newest = (self._floors.get(name) or update.floor) if slot is None else slot.newest
        if update.floor < newest:
            if slot is not None and slot.waiting is not None:
                slot.told -= numbers
                return update  # what waits is told with the description
            # The object was removed, or its versions have begun over. Who wants it by its name hears nothing of it.
            update = Update(update.incarnation, None)
            self._floors.told_to(name, update.floor, self._by_name_alone(name))
        elif (
            self._floors.get(name) == newest
            and (slot is None or slot.waiting is None)
            and not self._floors.is_partly_told(name)
        ):
            # All others have been told the version, if it is told anew now.
            self._floors.told_to(name, newest, {*self._audience(name)} - numbers)
        elif slot is not None or self._floors.is_partly_told(name):
            self._tell_also(name, numbers)
        elif update.version is None:
            # Who wants it by its name has been told that there is no version.
            self._floors.told_to(name, update.floor, self._by_name_alone(name))
        return update

    def _described(
        self, name: str, description: bytes, new: Collection[Membership]
    ) -> tuple[list[Membership], set[int]]:
        """Notes the object's description. Returns the queries whose callbacks lack it, including those that are `new`;
        and by hash, those whose callbacks are being told it.
        """
        telling = partial(self._telling, name)
        hearing = {one.query.hash for one in self._of.get(name, ()) if telling(one) == description}
        lacking = list(self.queries.descriptions.say(name, description, telling))
        self._leave_out(name, [one for one in self._of.get(name, ()) if one not in lacking])
        asks = [one for one in new if one.descriptions is not None and one not in lacking]
        lacking += [one for one in asks if one.query.hash not in hearing]
        return lacking, hearing

    def _by_name_alone(self, name: str) -> set[int]:
        """Returns the subscribers that were told the object's version by its name, and not its description."""
        return set() if self._registrations.is_owed(name) else set(self._subscribers.of(name))

    def _is_told(self, membership: Membership, subscribers: Collection[int]) -> bool:
        return not self._subscribers.of(membership.query).isdisjoint(subscribers)

    def _leave_out(self, name: str, memberships: Iterable[Membership]) -> None:
        """These know the object's description, or are being told it: they need not be told the same waiting version."""
        slot = self._slots.get(name)
        if slot is None or slot.waiting is None:
            return
        for one in memberships:
            if one.descriptions is not None:
                hearing = slot.running is not None and self._telling(name, one) is not None
                heard = slot.running.update.floor if slot.running is not None and hearing else self._floors.get(name)
                if heard == slot.waiting.floor:
                    slot.told |= self._subscribers.of(one.query)

    def _telling(self, name: str, membership: Membership) -> bytes | None:
        """Returns the description of this object that the callbacks of a query are being told;
        None: none at present.
        """
        slot = self._slots.get(name)
        if slot is None or slot.running is None:
            return None
        hearing = self._subscribers.of(membership.query) <= set(slot.running.subscribers)
        return slot.running.description if hearing else None

    def _applied(self, name: str, slot: Slot, update: Update) -> None:
        # The same version may have come again, for those of a query that the object has entered.
        all_told = slot.waiting is None or slot.waiting.floor != update.floor
        # And it is still to come for those who have subscribed while it was being told.
        if update.version is not None and all_told and not self._floors.is_partly_told(name):
            self._floors.told_to_all(name, update.floor)
        if update.version is not None or self._floors.get(name) is None:
            self.told_last.put(name, update)
        self.failing.over(name)
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
            if update.version is not None:
                self.queries.note_leaving(name)
        else:
            self._offer(name, slot)
        if all_told and name in self._of:
            self.queries.told(name, update.floor)

    def _failed(self, name: str, slot: Slot, job: CallbackJob, failed: Mapping[int, BaseException], now: float) -> None:
        if slot.waiting is None:
            # Those who have come meanwhile are told with the ones who are to be told again.
            self._floors.take_partly(name)
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

    def wake_retries(self, now: float) -> None:
        """Lets versions be told again whose pause is over."""
        while self._retries and self._retries[0][0] <= now:
            at, name = heapq.heappop(self._retries)
            slot = self._slots.get(name)
            if slot is not None and slot.retry_at == at:
                slot.retry_at = None
                self._offer(name, slot)

    def _owe(self, name: str, slot: Slot) -> None:
        """The version in this slot cannot be told for now: has the object answered again, and lets the cursor pass."""
        self._registrations.owe(name)
        self._move(lambda: self._release(slot))

    def _drop(self, name: str) -> None:
        slot = self._slots.pop(name, None)
        self._ready.pop(name, None)
        if slot is not None:
            self._move(lambda: self._release(slot))

    def _release(self, slot: Slot) -> None:
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

    def _notification(self, name: str, update: Update, description: bytes | None) -> Notification:
        try:
            payload = update.said
        except (ValueError, RecursionError):
            payload = None
            self.report(PayloadUnreadable(name, update.version))
        description_said = parsed_description(description)
        return Notification(name, update.version, payload, update.deleted, description_said, update.payload)
