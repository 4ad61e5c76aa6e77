"""ShareMember: the shares that a client is a member of, the leases that it holds, and their callbacks. Pure.

A Hold leaves each third of the shortest lease, also with nothing in hand: it prolongs all leases, and shows that the
member is there. Another one leaves at once when something is to be said: that a callback begins, which is said before
it is called, that a message is settled or given back. What was said stays in the table until it is answered, and is
said again in each full Hold; so also in the next session, at any gateway. The first Hold behind a Welcome says all.

A message that was settled or given back is not taken again: a copy of its hand-out may still be under way.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.share_names import HELD_MAX, RETRY_S_MAX

from coldnotify._core.interests.interests import Interest, ShareInterest, shares_of
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.interests.since import NOW, Since
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify._core.shares.lease import Lease, LeaseKey, LeaseState, key_of
from coldnotify._core.shares.said_holds import SaidHold, SaidHolds
from coldnotify._core.streams.feed import REASONS, time_of
from coldnotify._core.streams.payloads import said_by
from coldnotify.errors import ChannelCallbackFailed, ColdNotifyError, LeaseLost, MessagesMissed
from coldnotify.handed_message import HandedMessage
from coldnotify.message import Missed, MissedReason

LEASE_S = 30
UNANSWERED_MAX = 32
"""So many Holds may be unanswered, beside those that are due by time: a gateway passes on 64."""
REMEMBERED_MAX = 10_000
"""Hand-outs that are over and are remembered, for the length of their leases at most."""
NEVER = float("inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptShare:
    """The state of a share in the document."""

    since: Since = NOW
    """The beginning, if this client is the share's first member."""
    lease_s: int = LEASE_S
    prefetch: int = 1


@dataclass(slots=True, eq=False)
class _Share:
    interest: ShareInterest
    kept: KeptShare
    subscribers: set[int] = field(default_factory=set)
    missed_subscribers: set[int] = field(default_factory=set)
    lost_subscribers: set[int] = field(default_factory=set)

    def keep(self, kept: KeptShare) -> None:
        """Takes other leases, and another prefetch."""
        self.kept = KeptShare(since=self.kept.since, lease_s=kept.lease_s, prefetch=kept.prefetch)

    def take_subscribers(self, before: "_Share") -> None:
        """Takes over from a registration of the same name."""
        self.subscribers, self.missed_subscribers = before.subscribers, before.missed_subscribers
        self.lost_subscribers = before.lost_subscribers


@dataclass(frozen=True, slots=True, eq=False)
class ShareJob:
    """Run the callbacks of these subscribers with this message or notice, then call `CallbackTurns.done`."""

    lease: Lease
    subscribers: tuple[int, ...]
    message: HandedMessage | Missed

    @property
    def arguments(self) -> tuple[HandedMessage | Missed]:
        """For a callback."""
        return (self.message,)


class ShareMember:
    """All shares of one client. Times are seconds on a clock that does not jump, and that counts sleep."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        settings: ClientSettings,
        report: Callable[[ColdNotifyError], None],
        kept: Mapping[ShareInterest, KeptShare],
        epoch: Callable[[], int | None],
    ) -> None:
        """`epoch`: of the log of channels, if it is known."""
        self._journal = journal
        self._registrations = registrations
        self._settings = settings
        self._report = report
        self._epoch = epoch
        self._shares: dict[tuple[str, str], _Share] = {}
        self._by_hash: dict[int, _Share] = {}
        for interest in sorted(registrations.shares):
            self._add(_Share(interest, kept.get(interest, KeptShare())))
        self._leases: dict[LeaseKey, Lease] = {}
        self._queue: deque[Lease] = deque()
        self._next: Lease | None = None
        """Its callback begins as soon as a Hold has said so."""
        self._running: ShareJob | None = None
        self._remembered: OrderedDict[LeaseKey, tuple[int, float]] = OrderedDict()
        """By message: the latest hand-out that is over, and when that may be forgotten."""
        self._lost: deque[ShareJob] = deque(maxlen=HELD_MAX)
        self._changed: dict[LeaseKey, None] = {}
        """The leases that a Hold is to say something new of."""
        self._closing: set[int] = set()
        """Hashes of shares that the next Hold closes: nothing more of them is to be handed out."""
        self._looks_at = NEVER
        """No lease ends before."""
        self._holds = SaidHolds()
        self._all = False
        """The next Hold says all that is held."""
        self._held_at = -NEVER
        """When the last Hold left that named all."""
        self._unwritten: list[tuple[Lease, LeaseState]] = []
        """The leases in Holds that are made, and next, in those that are being written; and what they say of each."""
        self._leaving: list[tuple[Lease, LeaseState]] = []
        self._stopping = False

    def _add(self, share: _Share) -> None:
        self._shares[share.interest.channel, share.interest.share] = share
        self._by_hash[share.interest.hash] = share

    # What the application asks for

    def want(self, interest: ShareInterest, kept: KeptShare) -> None:
        """It is wanted from now on, with these leases and this prefetch. Raises ValueError if a Hold has no room."""
        old = self._shares.get((interest.channel, interest.share))
        check_room({**self.kept, interest: kept} if old is None else {**self.kept, old.interest: kept})
        if old is not None and self._registrations.wants(interest):
            if kept.lease_s != old.kept.lease_s or kept.prefetch != old.kept.prefetch:
                old.keep(kept)
                self._journal.changed()
                self._held_at = -NEVER
            return
        share = _Share(interest, kept)
        if old is not None:
            share.take_subscribers(old)
            if self._registrations.unregister(old.interest):
                self.forget(old.interest)
            del self._by_hash[old.interest.hash]
        self._registrations.register(interest)
        self._add(share)

    def of(self, channel: str, share: str) -> ShareInterest | None:
        """The share of this name that is wanted."""
        found = self._shares.get((channel, share))
        return None if found is None or not self._registrations.wants(found.interest) else found.interest

    def forget(self, interest: ShareInterest) -> None:
        """It is not wanted any more: what waits is given back. Its subscribers stay."""
        self._give_back_waiting(interest.hash)

    def subscribe(self, interest: ShareInterest, subscriber: int) -> None:
        """Adds a callback for messages: from now on this client may be handed some."""
        self._share_of(interest).subscribers.add(subscriber)
        self._held_at = -NEVER

    def unsubscribe(self, interest: ShareInterest, subscriber: int) -> None:
        """One callback less. Without any, what waits is given back."""
        share = self._share_of(interest)
        share.subscribers.discard(subscriber)
        if not share.subscribers:
            self._closing.add(share.interest.hash)
            self._give_back_waiting(share.interest.hash)

    def subscribe_missed(self, interest: ShareInterest, subscriber: int) -> None:
        """Adds a callback for notices of missing messages."""
        self._share_of(interest).missed_subscribers.add(subscriber)

    def unsubscribe_missed(self, interest: ShareInterest, subscriber: int) -> None:
        """One callback less."""
        self._share_of(interest).missed_subscribers.discard(subscriber)

    def subscribe_lost(self, interest: ShareInterest, subscriber: int) -> None:
        """Adds a callback for leases that end while the message's callback runs, or before it is settled."""
        self._share_of(interest).lost_subscribers.add(subscriber)

    def unsubscribe_lost(self, interest: ShareInterest, subscriber: int) -> None:
        """One callback less."""
        self._share_of(interest).lost_subscribers.discard(subscriber)

    def settle(self, lease: Lease, told: Callable[[], object]) -> None:
        """Settles a message whose callback still runs. `told` is called once that is answered, or the lease is lost."""
        if lease.is_over:
            told()
            return
        lease.told.append(told)
        if lease.settle():
            self._changed[lease.key] = None

    @property
    def kept(self) -> dict[ShareInterest, KeptShare]:
        """For the document."""
        wanted = self._registrations.shares
        return {one.interest: one.kept for one in self._shares.values() if one.interest in wanted}

    # What a session says

    def begin_session(self) -> None:
        """Begins a new session: its Holds are numbered from 1."""
        self._holds = SaidHolds()
        self._unwritten.clear()
        self._leaving.clear()
        self._welcomed()

    def welcomed(self) -> None:
        """The service has welcomed the session, or has taken the whole set: all is to be said."""
        self._welcomed()

    def _welcomed(self) -> None:
        self._all, self._held_at = True, -NEVER

    def confirmed(self, interests: Iterable[Interest]) -> None:
        """The service has these registrations. Nothing else comes of them by itself."""
        for one in shares_of(interests):
            self._registrations.arrived(one)
            self._registrations.settle(one)
            self._held_at = -NEVER

    def handed(self, said: wire.Message | wire.Missed, now: float) -> None:
        """Handles a hand-out."""
        key, hold = key_of(said), self._holds.of(said.hold)
        share = self._by_hash.get(key.share)
        if share is None or hold is None:
            return
        known = self._remembered.get(key)
        if known is not None and said.hand_out <= known[0]:
            return
        present = self._leases.get(key)
        if present is not None and said.hand_out <= present.hand_out:
            if said.hand_out == present.hand_out:
                present.extend(hold.at)
            return
        if present is not None:
            self._lose(present, now)
        lease = Lease(said, hold.at, hold.lease_s.get(key.share, share.kept.lease_s))
        if not lease.has_time(now):
            return
        self._leases[key] = lease
        self._looks_at = min(self._looks_at, lease.ends_at)
        if share.subscribers and not self._stopping:
            self._queue.append(lease)
        else:
            self._give_back(lease)

    def answered(self, leases: wire.Leases, now: float) -> None:
        """Handles the answer to a Hold; number 0 asks for all that is held."""
        if not leases.number:
            self._welcomed()
            return
        hold = self._holds.answered(leases.number)
        if hold is None:
            return
        lost = {LeaseKey(one.share, offset) for one in leases.lost for offset in one.offsets}
        for key, (hand_out, state) in hold.named.items():
            lease = self._leases.get(key)
            if lease is None or lease.hand_out != hand_out:
                continue
            if key in lost:
                self._lose(lease, now)
                continue
            lease.extend(hold.at)
            lease.answer(state)
            if lease.is_over:
                self._remove(lease, now)

    def next_hold(self, now: float) -> wire.Hold | None:
        """Returns what is to be said now, or None. It leaves at once; `written` follows."""
        self._begin_next(now)
        members = self._members()
        if not members and not self._leases and not self._closing:
            return None
        whole = self._all or self._hold_at <= now
        news = self._changed or self._closing
        if not whole and (not news or self._holds.unanswered >= UNANSWERED_MAX):
            return None
        said = self._leases if whole else {key: self._leases[key] for key in self._changed if key in self._leases}
        if not whole and not said and not self._closing:
            self._changed.clear()
            return None
        hold = self._hold_of([*said.values()][:HELD_MAX], members, now, all_=self._all)
        self._all = False
        if whole:
            self._held_at = now
        self._changed.clear()
        return hold

    def last_hold(self, now: float) -> wire.Hold | None:
        """Returns what is to be said before Bye, which gives back all but what a callback still works at."""
        for lease in self._leases.values():
            if self._running is None or lease is not self._running.lease:
                lease.give_back()
        self._queue.clear()
        self._next = None
        ended = [one for one in self._leases.values() if not one.is_held]
        return self._hold_of(ended[:HELD_MAX], self._members(), now) if ended else None

    def _hold_of(
        self, leases: Iterable[Lease], members: Iterable[_Share], now: float, *, all_: bool = False
    ) -> wire.Hold:
        said: dict[int, wire.HeldShare] = {}
        for share in members:
            kept = share.kept
            hash_ = share.interest.hash
            said[hash_] = wire.HeldShare(share=hash_, lease_s=kept.lease_s, prefetch=kept.prefetch)
        for hash_ in [*self._closing][: OBJECTS_PER_FRAME_MAX - len(said)]:
            said.setdefault(hash_, wire.HeldShare(share=hash_, closed=True))
            self._closing.discard(hash_)
        named: dict[LeaseKey, tuple[int, LeaseState]] = {}
        for lease in leases:
            if lease.state is LeaseState.BEGUN and lease.is_lost:
                continue  # who has it now is for the owner to say
            key = lease.key
            if key.share not in said and len(said) >= OBJECTS_PER_FRAME_MAX:
                continue
            held = said.setdefault(key.share, wire.HeldShare(share=key.share, closed=True))
            held.messages.add(
                offset=key.offset, hand_out=lease.hand_out, state=lease.state.value, after_s=lease.after_s
            )
            named[key] = lease.hand_out, lease.state
            self._unwritten.append((lease, lease.state))
        lengths = {hash_: one.lease_s for hash_, one in said.items() if one.lease_s}
        number = self._holds.say(SaidHold(now, lengths, named))
        return wire.Hold(number=number, all=all_, shares=list(said.values()))

    def leaving(self) -> None:
        """All Holds so far are being written."""
        self._leaving += self._unwritten
        self._unwritten.clear()

    def written(self) -> None:
        """They are written."""
        for lease, said in self._leaving:
            lease.written(said)
        self._leaving.clear()

    # What the callback thread says

    def next_job(self, now: float) -> ShareJob | None:
        """The callbacks to run next, or None."""
        lease = self._next
        if lease is None or not lease.may_run or self._running is not None:
            return None
        self._next = None
        share = self._by_hash.get(lease.key.share)
        if share is None or not lease.has_time(now):
            self._remove(lease, now)
            return None
        is_missed = isinstance(lease.said, wire.Missed)
        subscribers = share.missed_subscribers if is_missed else share.subscribers
        if not subscribers:
            self._give_back(lease)
            return None
        self._running = ShareJob(lease, tuple(sorted(subscribers)), self._message_of(share, lease))
        return self._running

    def done(self, job: ShareJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks: returning settles, raising gives back."""
        lease = job.lease
        self._running = None
        share = self._by_hash.get(lease.key.share)
        title = "" if share is None else share.interest.channel
        for cause in failed.values():
            self._report(ChannelCallbackFailed(title, lease.key.offset, cause))
        if lease.is_over:
            return
        if lease.reject_wanted:
            says = lease.reject()
        elif lease.retry_wanted_s is not None:
            says = lease.give_back(lease.retry_wanted_s)
        elif failed:
            says = lease.give_back(self._pause_s(lease))
        else:
            says = lease.settle()
        if says:
            self._changed[lease.key] = None
        elif lease.state is LeaseState.BEGUN:
            self._remove(lease, now)  # it is lost, and failed

    def _pause_s(self, lease: Lease) -> int:
        doubled_s: float = self._settings.retry_min_s * 2.0 ** min(lease.said.attempts, 30)
        return min(RETRY_S_MAX, ceil(min(self._settings.retry_max_s, doubled_s)))

    def take_lost(self) -> ShareJob | None:
        """Returns the callbacks to run of who is to hear that a lease is lost, or None."""
        while self._lost:
            job = self._lost.popleft()
            if job.subscribers:
                return job
            self._report(self._lost_error(job.lease))
        return None

    @property
    def running(self) -> bool:
        """True if a job is running."""
        return self._running is not None

    @property
    def waiting(self) -> int:
        """The number of messages in hand that wait for a callback."""
        return sum(one.state is LeaseState.WAITS for one in self._leases.values())

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""
        is_ready = self._next is not None and self._next.may_run and self._running is None
        return -NEVER if is_ready else NEVER

    # Time

    def stop(self) -> None:
        """Begins no further callback, and gives back what waits for one."""
        self._closing |= {one.interest.hash for one in self._members()}
        self._stopping = True
        for lease in self._leases.values():
            if lease.state is LeaseState.WAITS:
                self._give_back(lease)

    def tick(self, now: float) -> None:
        """Ends the leases whose time is over."""
        if now < self._looks_at:
            return
        for lease in list(self._leases.values()):
            if lease.is_held and lease.ends_at <= now:
                lease.end()
                if lease.is_over:
                    del self._leases[lease.key]
                elif lease is self._next:
                    self._next = None  # its callback was not called
                    del self._leases[lease.key]
                else:
                    self._tell_lost(lease)
        self._looks_at = min((one.ends_at for one in self._leases.values() if one.is_held), default=NEVER)

    def deadline(self) -> float:
        """Returns when `tick` next has something to do."""
        return self._looks_at

    @property
    def hold_at(self) -> float:
        """When the next Hold is due in a session, whatever happens before."""
        return self._hold_at if self._members() or self._leases else NEVER

    @property
    def _hold_at(self) -> float:
        lengths = [one.kept.lease_s for one in self._members()] + [one.lease_s for one in self._leases.values()]
        return self._held_at + min(lengths) / 3 if lengths else NEVER

    # One lease

    def _members(self) -> list[_Share]:
        """The shares that this client takes messages of: it has callbacks, and the service has its registration."""
        found = [
            one
            for one in self._shares.values()
            if one.subscribers
            and self._registrations.wants(one.interest)
            and self._registrations.stage(one.interest) is None
        ]
        return [] if self._stopping else found[:OBJECTS_PER_FRAME_MAX]

    def _share_of(self, interest: ShareInterest) -> _Share:
        share = self._shares.get((interest.channel, interest.share))
        if share is None:
            share = _Share(interest, KeptShare())
            self._add(share)
        return share

    def _begin_next(self, now: float) -> None:
        while self._next is None and self._running is None and self._queue and not self._stopping:
            lease = self._queue.popleft()
            share = self._by_hash.get(lease.key.share)
            if share is None or lease.state is not LeaseState.WAITS or not lease.has_time(now):
                continue
            if isinstance(lease.said, wire.Missed) and not share.missed_subscribers:
                self._report(MessagesMissed(_missed(share, lease.said)))
                lease.settle()
            else:
                lease.begin()
                self._next = lease
            self._changed[lease.key] = None

    def _give_back(self, lease: Lease) -> None:
        if lease.give_back():
            self._changed[lease.key] = None

    def _give_back_waiting(self, share: int) -> None:
        for lease in self._leases.values():
            if lease.key.share == share and lease.state is LeaseState.WAITS:
                self._give_back(lease)

    def _lose(self, lease: Lease, now: float) -> None:
        """Another member may have the message."""
        was_told = lease.is_lost
        unsaid = lease.state in (LeaseState.BEGUN, LeaseState.DONE) and lease is not self._next
        lease.lose()
        self._remove(lease, now)
        if unsaid and not was_told:
            self._tell_lost(lease)

    def _tell_lost(self, lease: Lease) -> None:
        share = self._by_hash.get(lease.key.share)
        if share is not None:
            subscribers = tuple(sorted(share.lost_subscribers))
            self._lost.append(ShareJob(lease, subscribers, self._message_of(share, lease)))

    def _lost_error(self, lease: Lease) -> LeaseLost:
        share = self._by_hash.get(lease.key.share)
        interest = None if share is None else share.interest
        return LeaseLost("" if interest is None else interest.channel, lease.key.offset)

    def _remove(self, lease: Lease, now: float) -> None:
        """It is over: its number is remembered, so a copy is dropped."""
        lease.close()
        if self._leases.get(lease.key) is lease:
            del self._leases[lease.key]
        if self._next is lease:
            self._next = None
        self._remembered[lease.key] = lease.hand_out, now + lease.lease_s
        self._remembered.move_to_end(lease.key)
        while self._remembered and (
            len(self._remembered) > REMEMBERED_MAX or next(iter(self._remembered.values()))[1] <= now
        ):
            self._remembered.popitem(last=False)

    def _message_of(self, share: _Share, lease: Lease) -> HandedMessage | Missed:
        said = lease.said
        if isinstance(said, wire.Missed):
            return _missed(share, said)
        return HandedMessage(
            channel=share.interest.channel,
            payload=said_by(said.payload),
            offset=said.offset,
            data=said.payload,
            id=said.id or None,
            source=said.source or None,
            published_at=time_of(said.published_ms),
            epoch=self._epoch() or 0,
            share=share.interest.share,
            attempts=said.attempts,
            key=said.key or None,
            lease=lease,
        )


def check_room(kept: Mapping[ShareInterest, KeptShare]) -> None:
    """Raises ValueError, naming the parameter, if one Hold has no room for what a client holds of these shares."""
    if len(kept) > OBJECTS_PER_FRAME_MAX:
        raise ValueError(f"share: the client would have {len(kept)} (at most {OBJECTS_PER_FRAME_MAX})")
    held = sum(one.prefetch for one in kept.values())
    if held > HELD_MAX:
        raise ValueError(f"prefetch: the client's shares would have {held} together (at most {HELD_MAX})")


def _missed(share: _Share, said: wire.Missed) -> Missed:
    after = said.after if said.HasField("after") else None
    reason = REASONS.get(said.reason, MissedReason.UNSAID)
    return Missed(share.interest.channel, after, said.before, reason)
