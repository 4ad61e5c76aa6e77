"""Tracks what the application has not accepted although the cursor may be past it, and reports that to the service.

Unsettled is each pending registration, and each object whose callbacks have raised and are retried. The service marks a
registration when it is requested. So a session reports only the differences: what is settled, and callbacks' errors;
and everything again, if that is not answered. While the service may believe that something is unsettled, the document
records it (`known` is False), and the next Hello reports everything. So a wake in which nothing is unsettled, after one
that left nothing, reports nothing. But a Hello that was not answered may reach the service behind everything that the
next session says, so from then on each Hello reports everything.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import (
    OBJECTS_PER_FRAME_MAX,
    REQUESTS_UNANSWERED_MAX,
    UNSETTLED_ERROR_BYTES_MAX,
)

from coldnotify._core.delivery.membership import Membership
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, names_of
from coldnotify._core.interests.registrations import Operation, OperationKind, OperationStage, Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings

IN_VAIN_S_MAX = 600.0
"""Limit on the pause between repeats of unanswered reports, which grows: a service of release 0.1.0 never answers."""
SAID_AGAIN_S = 5.0
"""While something is unsettled, changes are reported at most this often, because callbacks that are retried raise
again.
"""
MEMBERS_MAX = 16
"""An entry names at most so many members of a query..."""
MEMBERS_BYTES_MAX = 250
"""...of so many bytes: 64 entries fit in a frame."""


class CallbackFailure(NamedTuple):
    """That callbacks raise, and have not returned since."""

    times: int
    error: str
    """The first line of what they raised last."""
    since: float
    """When they first raised."""


class Failing:
    """The objects, queries and channels whose callbacks raise."""

    def __init__(self, *, say_errors: bool) -> None:
        self._say_errors = say_errors
        self.by_interest: dict[Interest, CallbackFailure] = {}
        """An object may be here that is wanted for the sake of queries only."""
        self.changes = 0

    def failed(self, interest: Interest, causes: Iterable[BaseException], now: float) -> None:
        """Callbacks of this have raised these, once each."""
        before = self.by_interest.get(interest)
        error = next((_first_line(cause) for cause in causes), "") if self._say_errors else ""
        since, times = (now, 0) if before is None else (before.since, before.times)
        self.by_interest[interest] = CallbackFailure(times + 1, error, since)
        self.changes += 1

    def note(self, interest: Interest, failed: Mapping[int, BaseException], now: float) -> None:
        """Callbacks of this have returned; `failed` contains the errors of those that raised, by subscriber."""
        if failed:
            self.failed(interest, failed.values(), now)
        else:
            self.over(interest)

    def over(self, interest: Interest) -> None:
        """They have returned, or the application does not want it any more."""
        if self.by_interest and self.by_interest.pop(interest, None) is not None:
            self.changes += 1


class UnsettledInterest(NamedTuple):
    """The report on one interest."""

    parked: bool = False
    failure: CallbackFailure | None = None
    members: tuple[str, ...] = ()
    """For a query: the members that were not taken. Empty: any may be missing."""
    position: int = -1
    """For a channel: everything up to this offset is told."""

    @property
    def gist(self) -> tuple[bool, bool, str, tuple[str, ...], int]:
        """The part whose change is worth a frame: not that callbacks have raised again."""
        error = "" if self.failure is None else self.failure.error
        return self.parked, self.failure is not None, error, self.members, self.position


PENDING = UnsettledInterest()
_NOT_ASKED = (OperationStage.UNSENT, OperationStage.WITHHELD)


class UnsettledChannels(Protocol):
    """The interface of those who deliver messages."""

    progress: int
    """How often something of a pending channel was told."""

    def told(self, channel: ChannelInterest) -> int:
        """Returns the offset up to which a pending channel is told; -1: nothing is."""

    def lacks(self, channel: ChannelInterest) -> bool:
        """Returns true if something of a pending channel must be told, or is still to come."""


class UnsettledObjects(Protocol):
    """The interface of those who deliver objects."""

    @property
    def failing(self) -> Failing:
        """The interests whose callbacks raise."""

    @property
    def channels(self) -> UnsettledChannels:
        """Those of channels."""

    @property
    def all_parked(self) -> Collection[Interest]:
        """Returns the interests whose callbacks raised too often."""

    def memberships(self, name: str) -> Collection[Membership]:
        """Returns the queries because of which an object is told."""

    def membership_of(self, query: QueryInterest) -> Membership | None:
        """Returns the state of a query."""


class UnsettledTold:
    """Holds what is unsettled, and what the service knows of it. One per client; `begin` is called for each session."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        objects: UnsettledObjects,
        settings: ClientSettings,
        *,
        known: bool,
    ) -> None:
        """`known`: the service knows that nothing is unsettled, by the document."""
        self._journal = journal
        self._registrations = registrations
        self._objects = objects
        self._settings = settings
        self._known = known
        self._said: dict[Interest, UnsettledInterest] | None = None
        """The service's state, once what is in transit has arrived; None: not known."""
        self._in_hello = False
        self._seen = -1
        """The value of `_changes` at the last report."""
        self._due = float("inf")
        self._hurried = False
        """True if it does not wait for the answer to the last report."""
        self._revision = 0
        """Revision of the document that must be durable before anything is reported."""
        self._frames: deque[wire.Unsettled] = deque()
        self._awaited: set[int] = set()
        """Numbers of requests that are unanswered."""
        self._answer_due = float("inf")
        self._in_vain = 0
        """So many times in a row nothing was answered in this session."""
        self._late_hello = registrations.owes
        """True if a Hello that said something to be unsettled may be under way still, maybe one of an earlier process.
        """

    @property
    def known(self) -> bool:
        """For the document: the service knows that nothing is unsettled."""
        return self._known and not self._registrations.owes

    # What a session says

    def begin(self, operations: Mapping[Interest, Operation], *, in_hello: bool = True) -> bool:
        """Begins a session whose Hello has these operations. Returns true if the Hello reports that nothing else is
        unsettled; it cannot if not `in_hello`.
        """
        self._late_hello |= self._in_hello and bool(self._said)  # the last one, as no Welcome came
        self._forget()
        self._in_vain = 0
        if not self._settings.say_unsettled:
            return False
        pending = self._registrations.owes
        if self._known and not pending:
            self._said, self._seen = {}, self._changes
            return in_hello and self._late_hello
        self._doubt()
        self._in_hello = in_hello and (bool(operations) or not pending) and self._journal.is_durable(self._revision)
        self._said = dict.fromkeys(_registered(operations), PENDING) if self._in_hello else None
        return self._in_hello

    def welcomed(self, now: float) -> None:
        """The registrations are in sync: the Hello's report is stored."""
        if self._in_hello:
            self._in_hello = False
            self._learn()
        elif self._said is None:
            self._due = now + SAID_AGAIN_S

    def caught_up(self, now: float) -> None:
        """If much was requested, the service now learns which of it is unsettled."""
        if self._said is None:
            self._due = min(self._due, now + self._settings.ack_delay_s)

    def begin_sync(self) -> None:
        """The whole set is sent again. What is unsettled then is reported once it is in sync."""
        self._forget()

    def confirmed(self, operations: Mapping[Interest, Operation]) -> None:
        """The service has these, and holds those that register for unsettled."""
        registered = _registered(operations)
        if registered:
            self._known = False
        if self._said is not None:
            for one in registered:
                self._said.setdefault(one, PENDING)

    def tick(self, now: float, answer_due: float) -> None:
        """Handles changes, and reports that were not answered until `answer_due`."""
        if self._awaited and answer_due <= now:
            self._forget()
            self._due = now + min(IN_VAIN_S_MAX, self._settings.request_timeout_s * (2**self._in_vain - 1))
            self._in_vain += 1
        if self._changes == self._seen or self._in_vain:
            return
        is_settled = not (self._registrations.owes or self._objects.failing.by_interest)
        delay_s = self._settings.ack_delay_s
        self._due = min(self._due, now + (delay_s if is_settled else max(delay_s, SAID_AGAIN_S)))

    def hurry(self, now: float) -> None:
        """A cursor is about to be acknowledged, or the session to end: changes are reported before."""
        if self._changes != self._seen and not self._in_vain:
            self._due, self._hurried = now, True

    @property
    def is_late(self) -> bool:
        """True if a cursor that is acknowledged now would tell more than the service has been told here."""
        return not self._in_vain and (bool(self._frames) or self._changes != self._seen)

    @property
    def is_held(self) -> bool:
        """True if the next report waits until the document is durable, or until the last report is answered."""
        if not self._journal.is_durable(self._revision):
            return True
        return bool(self._frames) and len(self._awaited) >= REQUESTS_UNANSWERED_MAX

    @property
    def due(self) -> float:
        """Returns when something is to be reported; inf: nothing is, or not yet."""
        return float("inf") if self.is_held or (self._awaited and not self._hurried) else self._due

    @property
    def answer_due(self) -> float:
        """Returns when the last report must be answered; inf: none must be."""
        return self._answer_due if self._awaited else float("inf")

    def next(self, now: float, number: int) -> wire.Unsettled | None:
        """Returns the next report, with this request number; None: nothing, or not yet."""
        if not self._frames and self.due <= now:
            self._fill(now)
        if not self._frames or self.is_held:
            return None
        self._awaited.add(number)
        self._answer_due = now + self._settings.request_timeout_s
        frame = self._frames.popleft()
        frame.request = number
        return frame

    def answered(self, number: int) -> None:
        """The service has this request's report."""
        if number in self._awaited:
            self._awaited.remove(number)
            if not (self._awaited or self._frames):
                self._in_vain = 0
                self._learn()

    def _fill(self, now: float) -> None:
        everything = self.entries()
        # What is still to be asked for is unsettled from that request on.
        entries = {one: entry for one, entry in everything.items() if not self._is_at(one, *_NOT_ASKED)}
        if entries:
            self._doubt()
        if self.is_held:
            return
        self._due, self._seen, self._hurried = float("inf"), self._changes, False
        before = self._said
        said = {} if before is None else before
        held = {one: said.get(one, PENDING) for one in entries if one in said or self._is_at(one, OperationStage.SENT)}
        changed = {one: entry for one, entry in entries.items() if one not in held or entry.gist != held[one].gist}
        settled = [one for one in said if one not in entries and not self._is_at(one, *_NOT_ASKED)]
        # What is to be asked for again may be unsettled since it was asked for before, and stays so.
        unsettled = {one: entry for one, entry in everything.items() if one in entries or self._may_be_known(one)}
        # Whatever is shorter.
        whole = before is None or (bool(settled) and len(unsettled) <= len(changed) + len(settled))
        if whole:
            changed, settled = unsettled, []
        self._said = entries
        self._frames.extend(_frames(changed, settled, now, whole=whole))

    def _doubt(self) -> None:
        """The service is about to believe that something is unsettled: that has to be durable before."""
        if self._known:
            self._known = False
            pending = self._registrations.owes  # then the document says so already
            self._revision = self._journal.revision if pending else self._journal.changed(urgent=True)

    def _learn(self) -> None:
        """The service has all reports."""
        if not self._said and not self._known and not self.entries():
            self._known = True
            self._journal.changed()

    def _forget(self) -> None:
        """Forgets what the service knows."""
        self._said, self._in_hello, self._hurried = None, False, False
        self._seen, self._due = -1, float("inf")
        self._frames.clear()
        self._awaited.clear()

    # What is unsettled

    def entries(self) -> dict[Interest, UnsettledInterest]:
        """All of it."""
        entries: dict[Interest, UnsettledInterest] = {}
        parked = self._objects.all_parked
        failing = self._objects.failing.by_interest
        for interest, operation in self._registrations.pending.items():
            if operation.kind is OperationKind.REGISTER and not self._is_drained(interest):
                entries[interest] = UnsettledInterest(interest in parked, failing.get(interest))
        for interest, failure in failing.items():
            if interest not in entries and self._registrations.wants(interest):
                entries[interest] = UnsettledInterest(interest in parked, failure)
            for membership in self._objects.memberships(interest) if isinstance(interest, str) else ():
                query = membership.query
                before = entries.get(query, PENDING)
                entries[query] = UnsettledInterest(before.parked or interest in parked, before.failure or failure)
        for interest, entry in entries.items():
            if isinstance(interest, QueryInterest):
                entries[interest] = entry._replace(members=self._lacking(interest))
            elif isinstance(interest, ChannelInterest):
                entries[interest] = entry._replace(position=self._objects.channels.told(interest))
        return entries

    def _lacking(self, query: QueryInterest) -> tuple[str, ...]:
        """The members that were not taken, if these are known and few."""
        membership = self._objects.membership_of(query)
        if membership is None or membership.telling is not None or membership.dropped:
            return ()
        if self._registrations.stage(query) not in (None, OperationStage.ARRIVED):
            return ()  # its answer is to come
        failing = [name for name in self._objects.failing.by_interest if isinstance(name, str)]
        names = {name for name in failing if membership.concerns(name)} | membership.untold
        few = len(names) <= MEMBERS_MAX and sum(len(name.encode()) for name in names) <= MEMBERS_BYTES_MAX
        return tuple(sorted(names)) if few else ()

    @property
    def _changes(self) -> int:
        return self._registrations.changes + self._objects.failing.changes + self._objects.channels.progress

    def _is_drained(self, interest: Interest) -> bool:
        """Returns true if it is a channel that is pending only because its log has no message for
        the cursor to be at.
        """
        return isinstance(interest, ChannelInterest) and not self._objects.channels.lacks(interest)

    def _is_at(self, interest: Interest, *stages: OperationStage) -> bool:
        return self._registrations.stage(interest) in stages

    def _may_be_known(self, interest: Interest) -> bool:
        operation = self._registrations.pending.get(interest)
        return operation is not None and operation.may_be_known


def _registered(operations: Mapping[Interest, Operation]) -> list[Interest]:
    return [one for one, operation in operations.items() if operation.kind is OperationKind.REGISTER]


def _frames(
    entries: Mapping[Interest, UnsettledInterest], settled: Sequence[Interest], now: float, *, whole: bool
) -> Iterator[wire.Unsettled]:
    """`whole`: nothing else is unsettled."""
    said = [_entry(interest, entry, now) for interest, entry in entries.items()]
    both: list[wire.UnsettledEntry | Interest] = [*said, *settled]
    for begin in range(0, max(len(both), int(whole)), OBJECTS_PER_FRAME_MAX):
        some = both[begin : begin + OBJECTS_PER_FRAME_MAX]
        gone = [one for one in some if not isinstance(one, wire.UnsettledEntry)]
        yield wire.Unsettled(
            entries=[one for one in some if isinstance(one, wire.UnsettledEntry)],
            settled=names_of(gone),
            settled_hashes=[one.hash for one in gone if not isinstance(one, str)],
            all=whole and begin == 0,
        )


def _entry(interest: Interest, entry: UnsettledInterest, now: float) -> wire.UnsettledEntry:
    said = wire.UnsettledEntry(parked=entry.parked, members=entry.members)
    if not isinstance(interest, str):
        said.hash = interest.hash
    else:
        said.name = interest
    if entry.position >= 0:
        said.position = entry.position
    if entry.failure is not None:
        said.since_s = max(1, int(now - entry.failure.since))
        said.failures, said.error = entry.failure.times, entry.failure.error
    return said


def _first_line(cause: BaseException) -> str:
    """The error's type and the first line of its text, without what would steer a terminal."""
    try:
        text = str(cause)
    except Exception:
        text = ""
    lines = f"{type(cause).__name__}: {text}".splitlines()
    line = "".join(character if character.isprintable() else " " for character in (lines[0] if lines else ""))
    return line.encode(errors="replace")[:UNSETTLED_ERROR_BYTES_MAX].decode(errors="ignore")
