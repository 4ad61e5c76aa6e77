"""From a change of a query's members to members callbacks that returned.

A change that is being told is in the document before its callbacks begin, and stays there until all have returned.
After a crash it is told again, unchanged. So the sum of what an application was told equals the document, whatever the
service sends next: the service knows the present members, not what the application may have heard before a crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from coldnotify._core.delivery.membership import Membership, Telling
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.frontier import Hold
from coldnotify.errors import ColdNotifyError, QueryParked


@dataclass(frozen=True, slots=True, eq=False)
class MembersJob:
    """Run the members callbacks of these subscribers with these two sets, then call `CallbackTurns.done`."""

    membership: Membership
    subscribers: tuple[int, ...]
    added: frozenset[str]
    removed: frozenset[str]
    telling: Telling | None
    """None: these subscribers came later, and are told all members."""

    @property
    def query(self) -> QueryInterest:
        """The query whose members they are."""
        return self.membership.query

    @property
    def arguments(self) -> tuple[set[str], set[str]]:
        """For a callback, which may keep them."""
        return set(self.added), set(self.removed)


class ToldQueries(Protocol):
    """The interface of those who keep the queries and their objects, for telling."""

    def hold(self) -> Hold:
        """The cursor waits from here on."""

    def release(self, hold: Hold) -> None:
        """It need not wait for this any more."""

    def is_heard(self, query: QueryInterest) -> bool:
        """Returns true if callbacks are told the versions of its members."""

    def offer(self, name: str) -> None:
        """The object's version may be told, if one waits."""

    def gone(self, names: set[str]) -> None:
        """The application has heard, or is about to hear, that these are members of a query no more."""

    def owe(self, membership: Membership) -> None:
        """It cannot be told for now: the query must be answered again."""

    def settle(self, membership: Membership) -> None:
        """Settles the registration, if everything was told."""

    def report(self, error: ColdNotifyError) -> None:
        """The application should hear of this."""


class MembersCallbacks:
    """The members callbacks, and the changes that they must still be told."""

    def __init__(self, journal: Journal, settings: ClientSettings, keeper: ToldQueries) -> None:
        self._journal = journal
        self._settings = settings
        self._keeper = keeper
        self._subscribers: dict[QueryInterest, set[int]] = {}
        self._touched: dict[Membership, None] = {}
        """Queries whose members may differ from what was told."""
        self.telling: dict[Membership, None] = {}
        """Queries with something to be told."""
        self.begun = False
        """A session was caught up in this process. Who subscribes later has missed something."""

    # Subscribers

    def resume(self, membership: Membership) -> None:
        """A query that the document knows."""
        if membership.telling is not None or membership.touched:
            self._touched[membership] = None

    def are_for(self, query: QueryInterest) -> bool:
        """Returns true if there are any for this query."""
        return query in self._subscribers

    def subscribe(self, query: QueryInterest, membership: Membership | None, subscriber: int) -> None:
        """Adds a callback. A late one is told all members first."""
        self._subscribers.setdefault(query, set()).add(subscriber)
        if membership is None:
            return
        if self.begun and not membership.followed:
            membership.fresh.add(subscriber)
            if membership.telling is not None:
                membership.telling.spared.add(subscriber)
        self._unpark(membership)
        if membership.followed or membership.touched:
            self.touch(membership)
        self._consider(membership)

    def unsubscribe(self, query: QueryInterest, membership: Membership | None, subscriber: int) -> None:
        """One callback less."""
        subscribers = self._subscribers.get(query, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(query, None)
        if membership is not None:
            membership.fresh.discard(subscriber)
            self.touch(membership)

    def forget(self, membership: Membership) -> None:
        """The query is not wanted any more. Its subscribers stay."""
        self._touched.pop(membership, None)
        self.telling.pop(membership, None)
        membership.fresh.clear()
        self._release(membership)

    # Changes

    def touch(self, membership: Membership) -> None:
        """Its members may differ from what was told: the cursor waits, until `prepare` has handled it."""
        self._touched[membership] = None
        if membership.hold is None:
            membership.hold = self._keeper.hold()
        self._unpark(membership)

    def prepare(self) -> None:
        """Handles all changes. Called before the document is written, which must contain them before they are told."""
        for membership in list(self._touched):
            if membership.query in self._subscribers:
                if membership.telling is None:
                    self._begin_telling(membership)
                else:
                    self._consider(membership)
            elif self._keeper.is_heard(membership.query):
                self._follow(membership)
            else:
                del self._touched[membership]
                self.telling.pop(membership, None)
                self._release(membership)
                self._keeper.owe(membership)

    def _begin_telling(self, membership: Membership) -> None:
        del self._touched[membership]
        change, gone = membership.next_change()
        hold, membership.hold = membership.hold, None
        self._keeper.gone(gone)
        if change.added or change.removed:
            revision = self._journal.changed(urgent=True)
            if membership.deferred:
                membership.hold, hold = hold, None  # it holds for these, too, until the next change has been told
            membership.telling = Telling(change, revision, set(membership.fresh), hold)
            membership.failures = 0
            self._consider(membership)
        else:
            self._rest(membership, hold)
            self._keeper.settle(membership)

    def _follow(self, membership: Membership) -> None:
        del self._touched[membership]
        self.telling.pop(membership, None)
        telling = membership.telling
        membership.telling = None
        gone = membership.follow()
        self._journal.changed()
        self._keeper.gone(gone)
        if telling is not None:
            self._end_telling(membership, telling)
        hold, membership.hold = membership.hold, None
        self._rest(membership, hold)
        self._keeper.settle(membership)

    def _rest(self, membership: Membership, hold: Hold | None) -> None:
        """Releases a hold, unless members have left whose versions come first."""
        if hold is None:
            return
        if not membership.deferred:
            self._keeper.release(hold)
            return
        if membership.hold is not None:
            self._keeper.release(membership.hold)
        membership.hold = hold

    def _release(self, membership: Membership) -> None:
        telling = membership.telling
        holds = [membership.hold] if telling is None else [membership.hold, telling.hold]
        membership.hold = None
        if telling is not None:
            telling.hold = None
        for hold in holds:
            if hold is not None:
                self._keeper.release(hold)

    # Jobs

    def next_job(self, now: float) -> MembersJob | None:
        """The callbacks to run next, or None."""
        for membership in list(self.telling):
            if self._at(membership) <= now:
                job = self._job(membership)
                if job is not None:
                    return job
        return None

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""
        return min(map(self._at, self.telling), default=float("inf"))

    @property
    def idle(self) -> bool:
        """True if all callbacks have returned, or have failed too often."""
        return all(one.parked for one in (*self._touched, *self.telling))

    def done(self, job: MembersJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        membership, telling = job.membership, job.telling
        membership.running = False
        if telling is None:
            membership.fresh |= set(failed) & self._subscribers.get(job.query, set())
        else:
            telling.spared |= set(job.subscribers) - set(failed)
        if failed:
            self._failed(membership, now)
        else:
            membership.failures = 0
            if telling is not None and telling is membership.telling:
                membership.telling = None
                self._journal.changed()
                self._end_telling(membership, telling)
        self._consider(membership)
        self._keeper.settle(membership)

    def _at(self, membership: Membership) -> float:
        """Returns when it can be told."""
        if membership.running or membership.parked:
            return float("inf")
        if membership.retry_at is not None:
            return membership.retry_at
        telling = membership.telling
        durable = telling is not None and self._journal.may_rest_on(telling.revision)
        return float("-inf") if membership.fresh or durable else float("inf")

    def _job(self, membership: Membership) -> MembersJob | None:
        membership.retry_at = None
        query, telling = membership.query, membership.telling
        subscribers = self._subscribers.get(query, set())
        if membership.fresh:
            late, membership.fresh = membership.fresh & subscribers, set()
            if late and membership.members:
                membership.running = True
                return MembersJob(membership, tuple(sorted(late)), frozenset(membership.members), frozenset(), None)
        if telling is not None and self._journal.may_rest_on(telling.revision):
            due = subscribers - telling.spared
            if due:
                membership.running = True
                return MembersJob(membership, tuple(sorted(due)), *telling.change, telling)
            if subscribers:
                # Those whose callback failed have gone; the others know already.
                membership.telling = None
                self._journal.changed()
                self._end_telling(membership, telling)
        self._consider(membership)
        return None

    def _end_telling(self, membership: Membership, telling: Telling) -> None:
        self._rest(membership, telling.hold)
        telling.hold = None
        for name in sorted(telling.change.added):
            self._keeper.offer(name)

    def _failed(self, membership: Membership, now: float) -> None:
        membership.failures += 1
        if membership.failures < self._settings.tries_max:
            delay = self._settings.retry_min_s * 2 ** (membership.failures - 1)
            membership.retry_at = now + min(self._settings.retry_max_s, delay)
            return
        self._keeper.report(QueryParked(membership.query.text, membership.failures))
        membership.parked = True
        membership.failures = 0
        self._keeper.owe(membership)
        self._release(membership)
        # Also what has left again: its versions are told before that is.
        for name in sorted({*membership.received, *membership.deferred}):
            self._keeper.offer(name)

    def try_again(self, membership: Membership) -> None:
        """The query was answered: what failed too often gets new tries."""
        self._unpark(membership)
        self._consider(membership)

    def _unpark(self, membership: Membership) -> None:
        if membership.parked:
            membership.parked = False
            self._consider(membership)

    def _consider(self, membership: Membership) -> None:
        """Updates the two lists: what has something to be told, and what must be handled."""
        told = membership.telling is not None or membership.fresh
        if told and membership.query in self._subscribers:
            self.telling[membership] = None
        elif not membership.running:
            self.telling.pop(membership, None)
