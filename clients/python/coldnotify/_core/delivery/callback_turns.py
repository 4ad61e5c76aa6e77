"""CallbackTurns: the order in which callbacks of objects, queries' members, channels and shares run: in turns."""

from collections.abc import Callable, Mapping
from typing import Protocol

from coldnotify._core.delivery.queries import Queries
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.delivery.telling import MembersJob
from coldnotify._core.delivery.unsettled import Failing
from coldnotify._core.shares.share_member import ShareJob, ShareMember
from coldnotify._core.streams.channels import Channels
from coldnotify._core.streams.feed import ChannelJob
from coldnotify.errors import ColdNotifyError, MembersCallbackFailed

AnyJob = CallbackJob | MembersJob | ChannelJob | ShareJob


class ObjectCallbacks(Protocol):
    """The interface of those who deliver objects' versions, for callbacks."""

    @property
    def waiting(self) -> int:
        """Number of objects with undelivered updates."""

    @property
    def idle(self) -> bool:
        """True if no version waits for a callback, or for another try."""

    def wake_retries(self, now: float) -> None:
        """Lets versions be told again whose pause is over."""

    def next_job(self) -> CallbackJob | None:
        """Returns the callbacks of an object to run next, or None."""

    def done(self, job: CallbackJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks."""

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""


class CallbackTurns:
    """All callbacks of a client, one job after another."""

    def __init__(
        self,
        objects: ObjectCallbacks,
        queries: Queries,
        channels: Channels,
        shares: ShareMember,
        failing: Failing,
        report: Callable[[ColdNotifyError], None],
    ) -> None:
        self._objects = objects
        self._queries = queries
        self._channels = channels
        self._shares = shares
        self._failing = failing
        self._report = report
        self._jobs: set[CallbackJob | MembersJob] = set()
        self._turn = 0
        """The place of those who go first the next time: objects, channels, shares."""

    def next_job(self, now: float) -> AnyJob | None:
        """The callbacks to run next, or None."""
        turns = self._next_of_objects, self._channels.next_job, self._shares.next_job
        first, self._turn = self._turn, (self._turn + 1) % len(turns)
        for turn in (*turns[first:], *turns[:first]):
            job = turn(now)
            if job is not None:
                return job
        return None

    def _next_of_objects(self, now: float) -> CallbackJob | MembersJob | None:
        self._objects.wake_retries(now)
        job: CallbackJob | MembersJob | None = None
        if self._queries.callbacks.telling:
            job = self._queries.callbacks.next_job(now)
        job = job or self._objects.next_job()
        if job is not None:
            self._jobs.add(job)
        return job

    def done(self, job: AnyJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        if isinstance(job, ChannelJob):
            if job.feed.running is job:
                self._failing.note(job.feed.channel, failed, now)
            self._channels.done(job, failed, now)
            return
        if isinstance(job, ShareJob):
            self._shares.done(job, failed, now)
            return
        self._jobs.discard(job)
        if isinstance(job, CallbackJob):
            self._objects.done(job, failed, now)
            return
        for cause in failed.values():
            self._report(MembersCallbackFailed(job.query.text, cause))
        if self._queries.get(job.query) is job.membership:
            self._failing.note(job.query, failed, now)
            self._queries.callbacks.done(job, failed, now)

    @property
    def waiting(self) -> int:
        """Number of objects and channels with undelivered updates, and of messages of shares that wait."""
        return self._objects.waiting + self._channels.waiting + self._shares.waiting

    @property
    def idle(self) -> bool:
        """True if all callbacks have returned: what still waits has no subscriber."""
        if self._jobs or not (self._queries.callbacks.idle and self._channels.idle):
            return False
        return self._objects.idle

    @property
    def running(self) -> bool:
        """True if a job is running."""
        return bool(self._jobs) or self._channels.running or self._shares.running

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""
        others = self._queries.callbacks.ready_at(), self._channels.ready_at(), self._shares.ready_at()
        return min(self._objects.ready_at(), *others)
