"""ShareRule: the one place that decides which member of a share holds which message, and until when. Pure.

Theory of operation
-------------------
A share hands each message of a channel to one of its members. A *hand-out* has a number, which rises with each one of
its message; (offset, number) names a *lease*. Each message above the base that is not settled has a state:

| state  | event                                              | next state                                       |
|--------|----------------------------------------------------|--------------------------------------------------|
| WAITS  | `hand_out`                                         | HELD                                             |
| WAITS  | `settle` by its latest holder, whose time was over | settled                                          |
| HELD   | `begin`                                            | BEGUN; one attempt more                          |
| HELD, BEGUN | `settle`                                      | settled                                          |
| HELD, BEGUN | `give_back`; `expire`, once its time is over  | WAITS, or DYING if it had `attempts_max` attempts |
| HELD, BEGUN | `reject`                                      | DYING                                            |
| BEGUN  | `resend` to a member whose session is kept         | HELD, under the next number; or as `give_back`   |
| DYING  | `bury`: its dead letter is durable                 | settled                                          |

Nothing else ends a lease. The rule has no clock: `now_ms` is one that never jumps and never runs fast, and `expire` is
told a time up to which everything that members had said is handled. What was decided in a step is durable, as
`table` says it, before the step's hand-outs and answers leave; so is `bury` told only what is durable.

**Keys.** Of messages with one key only the first that is not settled may be handed out.

**Missing.** A message that has expired, or that retention removed, becomes a *notice*: it is handed out as a message
is, so one member is certain to say it; and it stands in no other's way. Whoever holds a message that retention removes
may still settle it.

**Bounds.** Each hand-out reserves what its settlement may cost in the record, so settling never fails for want of room.
The record names who holds something, and nobody else: so the next owner does not take a late settlement.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from coldnotify_schemas.share_state import (
    NOBODY,
    SHARE_BYTES_MAX,
    SHARE_HEAD_BYTES_MAX,
    HandOutState,
    ShareTable,
    StoredHandOut,
)
from coldnotify_schemas.wire_pb2 import EXPIRED, RETENTION

from coldnotify_matcher.engine.shares.settled_runs import SettledRuns
from coldnotify_matcher.engine.shares.share_values import DeadLetter, HandOut, Holding, SharedMessage

ATTEMPTS_MAX = 10
LOOKED_MAX = 10_000
"""Messages above the base that a share looks at: behind that many, what blocks it has to be settled first."""
AHEAD_MAX = 64
"""Messages that may be handed out at once: a share reads on when fewer are there, so an idle one takes no memory."""
RESERVE_BYTES = 1_024
"""Bytes of the record that are kept for what empties it. What is handed out again has half of them, for the name of its
next holder; the lowest message has all of them, so the base can rise, however many runs are above it."""
_HAND_OUT_BYTES = 40
"""Bytes in the record of a hand-out beside its offsets: number, attempts, state, member, seconds, and what separates
them."""
_RUN_BYTES = 2
_MEMBER_BYTES = 3
_TABLE_BYTES = 80
"""Names of fields."""


class ShareBounds(NamedTuple):
    """The bounds of one share."""

    table_bytes_max: int = SHARE_BYTES_MAX - SHARE_HEAD_BYTES_MAX
    reserve_bytes: int = RESERVE_BYTES
    looked_max: int = LOOKED_MAX
    ahead_max: int = AHEAD_MAX
    attempts_max: int = ATTEMPTS_MAX


BOUNDS = ShareBounds()


class _Delivery:
    """A message above the base that is not settled."""

    def __init__(self, offset: int, numbers_from: int = 0) -> None:
        self.offset = offset
        self.numbers_from = numbers_from
        self.key = ""
        self.expires_at: int | None = None
        self.published_ms = 0
        self.taken = True
        """False: it was loaded, and has not come in the log yet."""
        self.state = HandOutState.WAITS
        self.number = 0
        self.attempts = 0
        self.member = ""
        """The latest holder; empty: it gave the message back, or there was none."""
        self.holder = ""
        """The latest holder, also of what it gave back."""
        self.rejected = False
        self.lease_ms = 0
        self.lent_ms: int | None = None
        self.ends_ms = 0
        """The end of its lease; while it waits, the time from which on it may be handed out."""
        self.reason = 0
        self.through = -1
        self.gone = 0
        """The reason for which it becomes a notice when its lease ends; 0: it is there."""

    @property
    def is_held(self) -> bool:
        return self.state in (HandOutState.HELD, HandOutState.BEGUN)

    def is_lease(self, member: str, number: int) -> bool:
        return self.number == number and self.member == member

    def take(self, message: SharedMessage) -> None:
        self.taken = True
        self.key = message.key
        self.expires_at = message.expires_at
        self.published_ms = message.published_ms

    def lend(self, member: str, lease_ms: int, now_ms: int) -> HandOut:
        self.state = HandOutState.HELD
        self.number = max(self.number, self.numbers_from) + 1
        self.member = self.holder = member
        self.lease_ms, self.lent_ms = lease_ms, now_ms
        self.ends_ms = now_ms + lease_ms
        return self.handed_out

    def begin(self) -> None:
        if self.state is HandOutState.HELD:
            self.state = HandOutState.BEGUN
            self.attempts += 1

    def refuse(self) -> None:
        self.rejected = True

    def extend(self, now_ms: int) -> None:
        self.ends_ms = max(self.ends_ms, now_ms + self.lease_ms)

    def outlive(self, lease_ms: int, now_ms: int) -> None:
        self.lease_ms = max(self.lease_ms, lease_ms)
        self.extend(now_ms)

    def wait(self, due_ms: int, *, given_back: bool) -> None:
        self.state = HandOutState.WAITS
        self.ends_ms = due_ms
        if given_back:
            self.member = ""

    def die(self) -> None:
        self.state = HandOutState.DYING
        self.member = ""

    def go(self, reason: int) -> None:
        self.gone = reason

    def miss(self, reason: int, through: int) -> None:
        """Becomes a notice, whose attempts are counted from here on."""
        self.state = HandOutState.WAITS
        self.reason = reason
        self.through = through
        self.attempts = 0
        self.taken = True

    def stored(self, places: Mapping[str, int], now_ms: int) -> StoredHandOut:
        """Returns it as the record has it."""
        left_ms = self.lease_ms if self.is_held else max(self.ends_ms - now_ms, 0)
        member = places[self.member] if self.is_held else NOBODY
        seconds = -(-left_ms // 1_000)
        return StoredHandOut(
            self.offset, self.number, self.attempts, self.state, member, seconds, self.reason, self.through
        )

    def load(self, stored: StoredHandOut, members: Sequence[str], now_ms: int) -> None:
        self.state = HandOutState(stored.state)
        self.number = stored.number
        self.attempts = stored.attempts
        self.member = self.holder = "" if stored.member == NOBODY else members[stored.member]
        self.ends_ms = now_ms + stored.seconds * 1_000
        self.lease_ms = stored.seconds * 1_000 if self.is_held else 0
        self.reason, self.through = stored.reason, stored.through
        self.taken = bool(stored.reason)

    @property
    def handed_out(self) -> HandOut:
        return HandOut(self.member, self.offset, self.number, self.attempts, self.reason, self.through)

    @property
    def bytes_most(self) -> int:
        """The most bytes that it takes in the record, as a hand-out or as the run that it may leave."""
        return _HAND_OUT_BYTES + len(str(self.offset)) + len(str(max(self.through, self.offset)))


class _Member:
    """A member that is there."""

    def __init__(self, prefetch: int, lease_ms: int) -> None:
        self.prefetch = prefetch
        self.lease_ms = lease_ms
        self.heard_ms: int | None = None
        self.turn = 0

    def hear(self, now_ms: int) -> None:
        self.heard_ms = now_ms

    def serve(self, turn: int) -> None:
        self.turn = turn

    def answers(self, now_ms: int) -> bool:
        return self.heard_ms is not None and now_ms - self.heard_ms <= self.lease_ms // 2


class ShareRule:
    """Decides for one share."""

    def __init__(self, base: int, bounds: ShareBounds = BOUNDS, numbers_from: int = 0) -> None:
        """`base`: the share begins behind this offset of its log; -1: with the first one. `numbers_from`: hand-outs
        have higher numbers, as those of a former log may still be in hands."""
        self.bounds = bounds
        self._numbers_from = numbers_from
        self._changed = False
        """True if a record of now would say something else of what was handed out."""
        self.base = self.read = base
        """`read`: the share's messages up to this offset were taken."""
        self._log_start = 0
        self._runs = SettledRuns()
        self._open: list[int] = []
        """Offsets of what is not settled, rising."""
        self._deliveries: dict[int, _Delivery] = {}
        self._looked: deque[int] = deque()
        """Offsets above the base that were taken, settled ones as well."""
        self._keys: dict[str, deque[int]] = {}
        """By key: what is not settled and not missing, in order."""
        self._ready: list[int] = []
        """A heap of offsets that may perhaps be handed out; those that may not are dropped when they come first."""
        self._delayed: list[tuple[int, int]] = []
        """A heap of (due, offset)."""
        self._ends: list[tuple[int, int]] = []
        """A heap of (end, offset) of leases; an end that was put off comes again."""
        self._awaited: dict[int, int] = {}
        """By offset: the first end in the heap. Others are passed over."""
        self._members: dict[str, _Member] = {}
        self._in_hand: dict[str, set[int]] = {}
        self._holders: Counter[str] = Counter()
        """The members that the record names."""
        self._handed_bytes = self._member_bytes = 0
        self._counted: dict[int, tuple[int, str]] = {}
        """By offset of what the record has: bytes, and the member that it names."""
        self._dying: dict[int, None] = {}
        self._again: dict[int, None] = {}
        """Offsets of what is to be sent to its holder again."""
        self._turn = 0
        self._as_of_ms = 0
        self.is_full = False
        """True if something was not handed out because the record would have had too many bytes."""

    # --- the log

    @property
    def wants_more(self) -> bool:
        """True if the share is to be told further messages of its channel."""
        return len(self._looked) < self.bounds.looked_max and len(self._ready) < self.bounds.ahead_max

    @property
    def is_blocked(self) -> bool:
        """True if the share looks at no further message until one at its base is settled."""
        return len(self._looked) >= self.bounds.looked_max

    def take(self, message: SharedMessage) -> None:
        """Take the channel's next message. One that was taken before changes nothing."""
        offset = message.offset
        if offset <= self.read:
            return
        self.read_to(offset - 1)
        self.read = offset
        self._looked.append(offset)
        delivery = self._deliveries.get(offset)
        if delivery is None and offset in self._runs:
            self._advance()
            return
        if delivery is None:
            delivery = self._add(offset)
        delivery.take(message)
        if delivery.key and not delivery.reason:
            self._keys.setdefault(delivery.key, deque()).append(offset)
        self._offer(delivery)

    def read_to(self, through: int) -> None:
        """Note that the log has no further message of the share up to this offset."""
        if through <= self.read:
            return
        for offset in self._open[bisect_right(self._open, self.read) : bisect_right(self._open, through)]:
            if not self._deliveries[offset].reason:  # it was handed out, and is not in the log any more
                self._miss(self._deliveries[offset], RETENTION)
        self.read = through
        self._advance()

    def lose(self, through: int, reason: int) -> None:
        """Note that nobody can read what the log has from the next message up to this offset: it becomes one
        notice."""
        if through <= self.read:
            return
        unknown = self._unknown_below(through + 1)
        for offset in self._open[bisect_right(self._open, self.read) : bisect_right(self._open, through)]:
            self.lose_one(offset, reason)
        self.read = through
        if unknown is not None:
            notice = self._add(unknown)
            notice.miss(reason, through)
            self._offer(notice)
        self._advance()

    def lose_one(self, offset: int, reason: int) -> None:
        """Note that a message that is not settled cannot be read."""
        delivery = self._deliveries.get(offset)
        if delivery is not None and not delivery.reason and not delivery.gone:
            self._miss(delivery, reason)

    def on_log_start(self, log_start: int) -> None:
        """Note that retention has removed everything below this offset. What nobody was handed becomes one notice."""
        if log_start <= self._log_start:
            return
        self._log_start = log_start
        below = [self._deliveries[offset] for offset in self._open[: bisect_left(self._open, log_start)]]
        for one in below:
            if one.number and not one.reason and not one.gone:
                self._miss(one, RETENTION)
        never = [one for one in below if not one.number and not one.reason]
        unknown = self._unknown_below(log_start)
        self.read = max(self.read, log_start - 1)
        if not never and unknown is None:
            self._advance()
            return
        # It stands at the first one, so the base stays below all that is missing until it is settled.
        notice = never.pop(0) if never else self._add(unknown or 0)
        self._release_key(notice)
        notice.miss(RETENTION, log_start - 1)
        self._offer(notice)
        for one in never:
            self._close(one)

    def _unknown_below(self, end: int) -> int | None:
        """Returns the lowest offset above what was read that may have a message that nobody knows."""
        offset = self.read + 1
        while offset < end:
            delivery = self._deliveries.get(offset)
            if delivery is not None:
                offset = max(delivery.through, offset) + 1
            elif offset in self._runs:
                offset = self._runs.last_of(offset) + 1
            else:
                return offset
        return None

    # --- members

    def join(self, member: str, prefetch: int, lease_ms: int) -> None:
        """Note that a member is there. It is handed something once it was heard."""
        self._members[member] = _Member(prefetch, lease_ms)

    def leave(self, member: str) -> None:
        """Note that a member is not there: it is handed nothing, and keeps what it holds."""
        self._members.pop(member, None)

    def hear(self, member: str, now_ms: int) -> None:
        """Note that a member's link has answered."""
        if (known := self._members.get(member)) is not None:
            known.hear(now_ms)

    def resend(self, member: str, named: Container[tuple[int, int]], now_ms: int, *, begun: bool = False) -> None:
        """Have what a member holds, has not begun, and does not name as (offset, number) handed out to it again: it was
        lost on the way. Each lease begins its time again, under its number.

        A lease whose callback has begun waits for its end: handed out again without an attempt, a message that kills
        its member's process would never die.

        `begun`: its session is kept, so what it has begun is told again, as another hand-out: the next attempt.
        """
        for offset in sorted(self._in_hand.get(member, ())):
            delivery = self._deliveries[offset]
            if (offset, delivery.number) in named:
                continue
            if delivery.state is HandOutState.HELD:
                delivery.extend(now_ms)
                self._again[offset] = None
            elif begun:
                self._lend_again(delivery, now_ms)

    def _lend_again(self, delivery: _Delivery, now_ms: int) -> None:
        """Hand out what a member has begun to it again."""
        name = delivery.member
        if delivery.gone or delivery.attempts >= self.bounds.attempts_max or name not in self._members:
            self._end(delivery, self._as_of_ms, given_back=True)
            return
        self._let_go(delivery)
        self._lend(delivery, name, self._members[name].lease_ms, now_ms)
        self._again[delivery.offset] = None

    def outlive(self, member: str, lease_ms: int, now_ms: int) -> None:
        """Have what a member holds stay its for so long, at least, as its session is over, and its set is kept."""
        for offset in self._in_hand.get(member, ()):
            self._deliveries[offset].outlive(lease_ms, now_ms)
            self._changed = True

    def count_in_hand(self, member: str) -> int:
        """Returns how much a member holds."""
        return len(self._in_hand.get(member, ()))

    # --- what members say of a lease

    def begin(self, member: str, offset: int, number: int) -> bool:
        """Note that the callback has begun. Returns false if the member does not hold this lease any more."""
        delivery = self._held(member, offset, number)
        if delivery is None:
            return False
        attempts = delivery.attempts
        delivery.begin()
        self._changed |= delivery.attempts != attempts
        return True

    def extend(self, member: str, offset: int, number: int, now_ms: int) -> bool:
        """Begin a lease's time again. Returns false if the member does not hold it any more."""
        delivery = self._held(member, offset, number)
        if delivery is None:
            return False
        delivery.extend(now_ms)
        return True

    def settle(self, member: str, offset: int, number: int) -> bool:
        """Settle a message. Returns true if it is settled now, or was; only its latest hand-out may settle it."""
        delivery = self._deliveries.get(offset)
        if delivery is None:
            return offset <= self.read or offset in self._runs
        if not delivery.is_lease(member, number) or delivery.state is HandOutState.DYING:
            return False
        self._close(delivery)
        return True

    def give_back(self, member: str, offset: int, number: int, now_ms: int, after_ms: int = 0) -> bool:
        """End a lease: the message may be handed out again after this time. Returns false if it was not held."""
        delivery = self._held(member, offset, number)
        if delivery is None:
            return False
        self._end(delivery, now_ms + after_ms if after_ms else self._as_of_ms, given_back=True)
        return True

    def give_back_all(self, member: str, now_ms: int) -> None:
        """End all leases of a member that says that it goes."""
        for offset in sorted(self._in_hand.get(member, ())):
            self.give_back(member, offset, self._deliveries[offset].number, now_ms)

    def reject(self, member: str, offset: int, number: int) -> bool:
        """Have a message become a dead letter, whatever its attempts. Returns false if it was not held."""
        delivery = self._held(member, offset, number)
        if delivery is None:
            return False
        self._let_go(delivery)
        delivery.refuse()
        self._die(delivery)
        return True

    def is_held(self, member: str, offset: int, number: int) -> bool:
        """Returns true if the member holds this lease."""
        return self._held(member, offset, number) is not None

    def is_over(self, offset: int) -> bool:
        """Returns true if nobody is handed this message any more, as it is settled, or dead."""
        delivery = self._deliveries.get(offset)
        if delivery is None:
            return offset <= self.read or offset in self._runs
        return delivery.state is HandOutState.DYING

    # --- dead letters

    def dying(self) -> Iterator[DeadLetter]:
        """Yields what is to become a dead letter, in order; that may be written more than once."""
        for one in [self._deliveries[offset] for offset in sorted(self._dying)]:
            if one.taken:
                rejected = one.rejected or one.attempts < self.bounds.attempts_max  # the record does not say why
                yield DeadLetter(one.offset, one.attempts, one.holder, rejected, one.reason, one.through)

    def bury(self, offset: int) -> None:
        """Note that a message's dead letter is durable."""
        delivery = self._deliveries.get(offset)
        if delivery is not None and delivery.state is HandOutState.DYING:
            self._close(delivery)

    # --- time

    def expire(self, as_of_ms: int) -> None:
        """End the leases that are over, and make retries due. Everything that members had said by then is handled."""
        self._as_of_ms = max(self._as_of_ms, as_of_ms)
        while self._ends and self._ends[0][0] <= as_of_ms:
            looked_ms, offset = heappop(self._ends)
            if self._awaited.get(offset) != looked_ms:
                continue
            del self._awaited[offset]
            delivery = self._deliveries.get(offset)
            if delivery is None or not delivery.is_held:
                continue
            if delivery.ends_ms > as_of_ms:
                self._await_end(delivery)
            else:
                self._end(delivery, self._as_of_ms, given_back=False)
        while self._delayed and self._delayed[0][0] <= as_of_ms:
            _, offset = heappop(self._delayed)
            if (delivery := self._deliveries.get(offset)) is not None:
                self._offer(delivery)

    @property
    def next_ms(self) -> int | None:
        """The time at which `expire` may have something to do; None: there is none."""
        return min((heap[0][0] for heap in (self._ends, self._delayed) if heap), default=None)

    # --- handing out

    def hand_out(self, now_ms: int, unix_ms: int) -> list[HandOut]:
        """Hands out what may be: the lowest offsets first, to those who have fewest in hand. `unix_ms`: as messages
        say when they expire. What is sent again comes first."""
        self.is_full = False
        held = [self._deliveries[offset] for offset in self._again if offset in self._deliveries]
        handed = [one.handed_out for one in held if one.state is HandOutState.HELD and one.member in self._members]
        self._again.clear()
        free = [
            (self.count_in_hand(name), one.turn, name)
            for name, one in (self._members.items() if self._ready else ())
            if one.answers(now_ms) and self.count_in_hand(name) < one.prefetch
        ]
        heapify(free)
        while free and (delivery := self._first_ready()) is not None:
            if not delivery.reason and delivery.expires_at is not None and delivery.expires_at <= unix_ms:
                self._miss(delivery, EXPIRED)
            in_hand, _, name = heappop(free)
            if not self._fits(delivery, name):
                self.is_full = True
                break
            member = self._members[name]
            handed.append(self._lend(delivery, name, member.lease_ms, now_ms))
            self._turn += 1
            member.serve(self._turn)
            if in_hand + 1 < member.prefetch:
                heappush(free, (in_hand + 1, self._turn, name))
        return handed

    def _lend(self, delivery: _Delivery, name: str, lease_ms: int, now_ms: int) -> HandOut:
        handed = delivery.lend(name, lease_ms, now_ms)
        self._count_again(delivery)
        self._in_hand.setdefault(name, set()).add(delivery.offset)
        self._await_end(delivery)
        return handed

    def _await_end(self, delivery: _Delivery) -> None:
        """Look at a lease when its time may be over: not again if a look is due before that, so a message that goes
        from hand to hand does not fill the heap."""
        if delivery.ends_ms < self._awaited.get(delivery.offset, delivery.ends_ms + 1):
            self._awaited[delivery.offset] = delivery.ends_ms
            heappush(self._ends, (delivery.ends_ms, delivery.offset))

    def _first_ready(self) -> _Delivery | None:
        while self._ready:
            delivery = self._deliveries.get(self._ready[0])
            if delivery is not None and self._may_go(delivery):
                return delivery
            heappop(self._ready)
        return None

    def _may_go(self, delivery: _Delivery) -> bool:
        if delivery.state is not HandOutState.WAITS or not delivery.taken or delivery.ends_ms > self._as_of_ms:
            return False
        return delivery.reason != 0 or not delivery.key or self._keys[delivery.key][0] == delivery.offset

    def _offer(self, delivery: _Delivery) -> None:
        if delivery.state is not HandOutState.WAITS:
            return
        if delivery.ends_ms > self._as_of_ms:
            heappush(self._delayed, (delivery.ends_ms, delivery.offset))
        elif self._may_go(delivery):
            heappush(self._ready, delivery.offset)

    def _fits(self, delivery: _Delivery, name: str) -> bool:
        more = 0 if delivery.number else delivery.bytes_most
        more += 0 if name in self._holders else len(name) + _MEMBER_BYTES
        kept = self.bounds.reserve_bytes // 2 if delivery.number else self.bounds.reserve_bytes
        if delivery.offset == self._open[0]:
            kept = 0
        return self.table_bytes_most + more + kept <= self.bounds.table_bytes_max

    # --- transitions

    def _add(self, offset: int) -> _Delivery:
        delivery = self._deliveries[offset] = _Delivery(offset, self._numbers_from)
        insort(self._open, offset)
        return delivery

    def _held(self, member: str, offset: int, number: int) -> _Delivery | None:
        delivery = self._deliveries.get(offset)
        if delivery is None or not delivery.is_held or not delivery.is_lease(member, number):
            return None
        return delivery

    def _end(self, delivery: _Delivery, due_ms: int, *, given_back: bool) -> None:
        """End a lease without a settlement."""
        self._let_go(delivery)
        delivery.wait(due_ms, given_back=given_back)
        if delivery.gone:
            self._become_notice(delivery, delivery.gone)
        elif delivery.attempts >= self.bounds.attempts_max:
            self._die(delivery)
        else:
            self._count_again(delivery)
            self._offer(delivery)

    def _die(self, delivery: _Delivery) -> None:
        if delivery.gone:
            self._become_notice(delivery, delivery.gone)
            return
        delivery.die()
        self._count_again(delivery)
        self._dying[delivery.offset] = None

    def _miss(self, delivery: _Delivery, reason: int) -> None:
        """Have a message become a notice; one that is held, when its lease ends. It stands in no other's way."""
        self._release_key(delivery)
        if delivery.is_held:
            delivery.go(reason)
        else:
            self._become_notice(delivery, reason)

    def _become_notice(self, delivery: _Delivery, reason: int) -> None:
        self._dying.pop(delivery.offset, None)
        delivery.miss(reason, delivery.offset)
        self._count_again(delivery)
        self._offer(delivery)

    def _close(self, delivery: _Delivery) -> None:
        """Settle a message."""
        offset = delivery.offset
        if delivery.is_held:
            self._let_go(delivery)
        self._changed = True
        self._dying.pop(offset, None)
        self._forget_bytes(offset)
        del self._deliveries[offset]
        del self._open[bisect_left(self._open, offset)]
        self._release_key(delivery)
        self._runs.add(offset, max(offset, delivery.through), self._is_settled_between)
        self._advance()

    def _let_go(self, delivery: _Delivery) -> None:
        held = self._in_hand[delivery.member]
        held.remove(delivery.offset)
        if not held:
            del self._in_hand[delivery.member]

    def _release_key(self, delivery: _Delivery) -> None:
        """Have a message stand in the way of no other one with its key."""
        queue = self._keys.get(delivery.key)
        if not delivery.key or queue is None or delivery.offset not in queue:
            return
        was_first = queue[0] == delivery.offset
        queue.remove(delivery.offset)
        if not queue:
            del self._keys[delivery.key]
        elif was_first:
            self._offer(self._deliveries[queue[0]])

    def _is_settled_between(self, after: int, before: int) -> bool:
        """Returns true if all is settled that lies strictly between two offsets."""
        if before - 1 > max(self.read, after):
            return False
        place = bisect_right(self._open, after)
        return place == len(self._open) or self._open[place] >= before

    def _advance(self) -> None:
        self.base = max(self.base, min(self.read, self._open[0] - 1 if self._open else self.read))
        while self._looked and self._looked[0] <= self.base:
            self._looked.popleft()
        self._runs.drop_through(self.base)

    # --- the record

    @property
    def table_bytes_most(self) -> int:
        """The most bytes that the table takes in a record, whatever is settled of what is handed out."""
        runs = len(self._runs) * (_RUN_BYTES + 2 * len(str(self._runs.last)))
        return _TABLE_BYTES + runs + self._handed_bytes + self._member_bytes

    def _count_again(self, delivery: _Delivery) -> None:
        """Count what the record has of a delivery. It names who holds it."""
        self._forget_bytes(delivery.offset)
        if not delivery.number:
            return
        self._changed = True
        size = delivery.bytes_most
        member = delivery.member if delivery.is_held else ""
        self._counted[delivery.offset] = size, member
        self._handed_bytes += size
        if member:
            self._holders[member] += 1
            if self._holders[member] == 1:
                self._member_bytes += len(member) + _MEMBER_BYTES

    def _forget_bytes(self, offset: int) -> None:
        size, member = self._counted.pop(offset, (0, ""))
        self._handed_bytes -= size
        if member:
            self._holders[member] -= 1
            if not self._holders[member]:
                del self._holders[member]
                self._member_bytes -= len(member) + _MEMBER_BYTES

    @property
    def waiting(self) -> int:
        """Number of known messages that nobody has, and that are not settled."""
        return len(self._open) - sum(map(len, self._in_hand.values()))

    @property
    def held(self) -> int:
        """Number of messages that members have."""
        return sum(map(len, self._in_hand.values()))

    @property
    def oldest_ms(self) -> int | None:
        """When the log took the first known message that is not settled (Unix time); None: there is none, or that is
        not known."""
        return self._deliveries[self._open[0]].published_ms or None if self._open else None

    def holdings(self, count_max: int) -> list[Holding]:
        """Returns what was handed out and is not settled: the first ones, in order."""
        handed = (self._deliveries[offset] for offset in self._open if self._deliveries[offset].number)
        return [
            Holding(one.offset, one.number, one.attempts, one.state, one.member, one.ends_ms, one.lent_ms)
            if one.is_held
            else Holding(one.offset, one.number, one.attempts, one.state, "", one.ends_ms)
            for one in islice(handed, count_max)
        ]

    def take_changed(self) -> bool:
        """Returns true if a record of now would say something else of what was handed out than at the last call."""
        changed, self._changed = self._changed, False
        return changed

    def table(self, now_ms: int) -> ShareTable:
        """Returns all that is to be durable. What was never handed out comes again from the log."""
        members = sorted(self._holders)
        places = {name: place for place, name in enumerate(members)}
        handed = [
            self._deliveries[offset].stored(places, now_ms) for offset in self._open if self._deliveries[offset].number
        ]
        return ShareTable(self.base, self._runs.flat(), members, handed)

    @classmethod
    def load(cls, table: ShareTable, now_ms: int, bounds: ShareBounds = BOUNDS, numbers_from: int = 0) -> ShareRule:
        """Returns the rule for a table. Every lease, and every retry's delay, begins whole at `now_ms`. The channel's
        messages above the base are to be taken again."""
        rule = cls(table.base, bounds, numbers_from)
        rule._load(table, now_ms)
        return rule

    def _load(self, table: ShareTable, now_ms: int) -> None:
        self._runs = SettledRuns(table.settled)
        self._as_of_ms = now_ms
        for stored in table.handed_out:
            delivery = self._add(stored.offset)
            delivery.load(stored, table.members, now_ms)
            self._count_again(delivery)
            if delivery.is_held:
                self._in_hand.setdefault(delivery.member, set()).add(stored.offset)
                self._await_end(delivery)
            elif delivery.state is HandOutState.DYING:
                self._dying[stored.offset] = None
            else:
                self._offer(delivery)
