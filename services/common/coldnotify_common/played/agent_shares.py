"""Plays a device's part in shares: what it says of its leases, what it is handed, and until when. Pure.

A device that asks by requests has no session between them, and its leases go on. So each request is one session: its
first Hold says all that the device holds, and what has become of it. Further Holds prolong that while the answer is
held back. The last one closes: it prolongs all leases again, and nothing is handed out behind it. So the device's
time begins with the answer, and a lease is known to nobody but the device from there on.

A lease is named by one text, which the device hands back: offset, number of the hand-out, and length in seconds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.frames import encode
from coldnotify_schemas.share_names import EARLY, HELD_MAX, LEASE_S_MAX, LEASE_S_MIN
from coldnotify_schemas.whole_numbers import WHOLE_NUMBER_MAX
from coldnotify_schemas.wire_pb2 import (
    HELD_BACK,
    HELD_BEGUN,
    HELD_WAITS,
    KINDS_SHARES,
    ClientFrame,
    HeldShare,
    HeldState,
    Hold,
    Interest,
    Leases,
    Message,
    Missed,
)

UNANSWERED_MAX = 16
"""Most Holds that are unanswered while nothing new is to be said. A gateway passes on 64."""
_HAND_OUT_MAX = (1 << 32) - 1
_LEASE = re.compile(r"([0-9]{1,19})\.([0-9]{1,10})\.([0-9]{1,5})")
NEVER = float("inf")
_GOES_ON = (HELD_WAITS, HELD_BEGUN)


class LeaseName(NamedTuple):
    """A lease of a share, as its text names it."""

    offset: int
    hand_out: int
    lease_s: int
    """The length that its owner prolongs it by."""

    def __str__(self) -> str:
        return f"{self.offset}.{self.hand_out}.{self.lease_s}"


def parse_lease(said: str) -> LeaseName | None:
    """Parses the text of a lease; returns None if it is not one."""
    match = _LEASE.fullmatch(said)
    if match is None:
        return None
    name = LeaseName(*map(int, match.groups()))
    fits = name.offset <= WHOLE_NUMBER_MAX and 0 < name.hand_out <= _HAND_OUT_MAX
    return name if fits and LEASE_S_MIN <= name.lease_s <= LEASE_S_MAX else None


class SaidLease(NamedTuple):
    """A lease, and the device's word of it."""

    name: LeaseName
    state: HeldState
    after_s: int = 0
    """With HELD_BACK: it is to be handed out again not before so many seconds."""
    failed: bool = False
    """With HELD_BACK: the device has begun, so it counts as an attempt."""


@dataclass(frozen=True)
class WantedShare:
    """A share that a device is a member of."""

    interest: Interest
    """In the form of a request."""
    lease_s: int = 30
    prefetch: int = 1
    """0: it is handed nothing."""
    held: tuple[SaidLease, ...] = ()


@dataclass(eq=False, slots=True)
class PlayedLease:
    """A lease in the device's hand."""

    name: LeaseName
    share: int
    """The hash of the share."""
    state: HeldState = HELD_WAITS
    after_s: int = 0
    failed: bool = False
    entry: Message | Missed | None = None
    """The hand-out of this session; None: the device has it from before."""
    ends_at: float = -NEVER

    @property
    def key(self) -> tuple[int, int]:
        """The share and the offset."""
        return self.share, self.name.offset

    @property
    def goes_on(self) -> bool:
        """True if a Hold is to prolong it."""
        return self.state in _GOES_ON and not self.failed

    def extend(self, begins_at: float) -> None:
        """A Hold that was sent at this time has prolonged it."""
        if self.goes_on:
            self.ends_at = max(self.ends_at, begins_at + self.name.lease_s * (1.0 - EARLY))

    def has_begun(self) -> bool:
        """Takes note that a Hold says that it has begun. Returns true if it is to be given back now."""
        if not self.failed or self.state == HELD_BACK:
            return False
        self.state = HELD_BACK
        return True

    def give_back(self) -> None:
        """Gives it back at once."""
        self.state, self.after_s = HELD_BACK, 0


class _SaidHold(NamedTuple):
    at: float
    lease_s: Mapping[int, int]
    named: Mapping[tuple[int, int], tuple[int, HeldState]]


@dataclass
class AgentShares:
    """The shares' part of one session. Times are seconds on a clock that does not jump, and that counts sleep."""

    wanted: Mapping[int, WantedShare]
    """By hash."""
    refused: dict[int, str] = field(init=False, default_factory=dict)
    """The reason, by hash."""
    handed: list[PlayedLease] = field(init=False, default_factory=list)
    """The hand-outs of this session, in order."""
    settled: list[PlayedLease] = field(init=False, default_factory=list)
    """Leases that the device has said to be over, once that is durable."""
    lost: list[PlayedLease] = field(init=False, default_factory=list)
    """Leases of messages that another member may have."""

    def __post_init__(self) -> None:
        self._leases: dict[tuple[int, int], PlayedLease] = {}
        for hash_, share in self.wanted.items():
            for said in share.held:
                state = HELD_BEGUN if said.failed else said.state
                lease = PlayedLease(said.name, hash_, state, said.after_s, said.failed)
                self._leases[lease.key] = lease
        self._over: dict[tuple[int, int], int] = {}
        """By message: the hand-out that is over, because a copy of it may still be under way."""
        self._changed = dict.fromkeys(self._leases)
        """The leases that the next Hold has to name."""
        self._welcomed = self._all = self._closing = False
        self._number = self._answered = 0
        self._said: dict[int, _SaidHold] = {}
        self._held_at = -NEVER

    @property
    def interests(self) -> list[Interest]:
        """The shares as registrations."""
        return [share.interest for share in self.wanted.values()]

    @property
    def held(self) -> list[PlayedLease]:
        """The leases that go on."""
        return [one for one in self._leases.values() if one.goes_on]

    @property
    def has_news(self) -> bool:
        """True if the device waits for this: something was handed out, or is lost, or a share is refused."""
        return bool(self.handed or self.lost or self.refused)

    @property
    def is_answered(self) -> bool:
        """True once all that was to be said is answered, so that it is durable."""
        return not self._members or (
            self._welcomed and not self._all and not self._changed and self._number == self._answered > 0
        )

    @property
    def is_closed(self) -> bool:
        """True once nothing more is handed out in this session."""
        has_said_so = self._closing and self._held_at > -NEVER
        return self.is_answered and (has_said_so or not self._members)

    @property
    def _members(self) -> list[int]:
        return [hash_ for hash_ in self.wanted if hash_ not in self.refused]

    # --- outgoing

    def close(self) -> None:
        """Has the next Hold say that nothing more is to be handed out, and prolong all leases."""
        if not self._closing:
            self._closing, self._held_at = True, -NEVER

    @property
    def hold_at(self) -> float:
        """The time at which the next Hold is due, whatever happens before; inf: none is."""
        if not self._welcomed or not self._members:
            return NEVER
        if self._closing and self._held_at > -NEVER:
            return NEVER
        if not self._closing and self._number - self._answered >= UNANSWERED_MAX:
            return NEVER
        lengths = [self.wanted[hash_].lease_s for hash_ in self._members] + [one.name.lease_s for one in self.held]
        return self._held_at + min(lengths) / 3

    def next_hold(self, now: float) -> bytes:
        """Returns the frame of a Hold that is to leave now; b"": there is none."""
        whole = self._all or self.hold_at <= now
        if not self._welcomed or not self._members or not (whole or self._changed):
            return b""
        named = list(self._leases) if whole else [key for key in self._changed if key in self._leases]
        hold = self._hold_of(named[:HELD_MAX], now)
        if whole:
            self._all, self._held_at = False, now
        return encode(ClientFrame(hold=hold))

    def _hold_of(self, keys: Iterable[tuple[int, int]], now: float) -> Hold:
        said: dict[int, HeldShare] = {}
        for hash_ in self._members:
            share = self.wanted[hash_]
            if self._closing or not share.prefetch:
                said[hash_] = HeldShare(share=hash_, closed=True)
            else:
                said[hash_] = HeldShare(share=hash_, lease_s=share.lease_s, prefetch=share.prefetch)
        named: dict[tuple[int, int], tuple[int, HeldState]] = {}
        self._changed = {key: None for key in self._changed if key in self._leases}
        for key in keys:
            lease = self._leases[key]
            self._changed.pop(key, None)
            if lease.share not in said:
                continue
            name, state = lease.name, lease.state
            said[lease.share].messages.add(
                offset=name.offset, hand_out=name.hand_out, state=state, after_s=lease.after_s * (state == HELD_BACK)
            )
            named[key] = name.hand_out, state
            if lease.has_begun():
                self._changed[key] = None  # the next Hold gives it back
        self._number += 1
        self._said[self._number] = _SaidHold(now, {hash_: one.lease_s for hash_, one in said.items()}, named)
        return Hold(number=self._number, all=self._all, shares=list(said.values()))

    # --- incoming

    def takes(self, hash_: int) -> bool:
        """Returns true if this is the hash of one of the shares."""
        return hash_ in self.wanted

    def refuse(self, hash_: int, reason: str) -> None:
        """Notes that the service does not take this registration."""
        self.refused[hash_] = reason

    def welcomed(self, kinds: int) -> None:
        """Notes that the service has the set. `kinds`: those that it knows; 0: it does not say so."""
        if kinds and not kinds & KINDS_SHARES:
            for hash_ in self.wanted:
                self.refused.setdefault(hash_, "share: this service knows none: it is older, or lacks their topic")
        self._welcomed = self._all = True
        self._held_at = -NEVER

    def told(self, entry: Message | Missed) -> None:
        """Takes a hand-out."""
        hold = self._said.get(entry.hold)
        share = self.wanted.get(entry.channel)
        if hold is None or share is None:
            return
        lease_s = hold.lease_s.get(entry.channel) or share.lease_s
        lease = PlayedLease(LeaseName(offset_of(entry), entry.hand_out, lease_s), entry.channel, entry=entry)
        key = lease.key
        present = self._leases.get(key)
        newest = self._over.get(key, 0) if present is None else present.name.hand_out
        if entry.hand_out <= newest:
            return
        if present is not None:
            self._lose(present)
        lease.extend(hold.at)
        self._leases[key] = lease
        self.handed.append(lease)

    def decline(self, entry: Message | Missed) -> None:
        """Gives a hand-out back that has no room in the answer: nothing more is to be handed out."""
        count = len(self.handed)
        self.told(entry)
        for lease in self.handed[count:]:
            lease.give_back()
            self._changed[lease.key] = None
        del self.handed[count:]
        self.close()

    def answered(self, leases: Leases) -> None:
        """Takes the answer to a Hold. Number 0 asks for all."""
        if not leases.number:
            self._all = True
            return
        hold = self._said.get(leases.number)
        if hold is None or leases.number <= self._answered:
            return
        self._answered = leases.number
        lost = {(one.share, offset) for one in leases.lost for offset in one.offsets}
        for key, (hand_out, state) in hold.named.items():
            lease = self._leases.get(key)
            if lease is None or lease.name.hand_out != hand_out:
                continue
            if key in lost:
                self._lose(lease)
                continue
            lease.extend(hold.at)
            if state == lease.state and state not in _GOES_ON:
                self._drop(lease)
                if lease.entry is None:
                    self.settled.append(lease)

    def _lose(self, lease: PlayedLease) -> None:
        """Drops a lease that another member may have: the device is told, if it knows it, and wants it."""
        self._drop(lease)
        if lease.entry is None:
            gives_back = lease.failed or lease.state == HELD_BACK
            (self.settled if gives_back else self.lost).append(lease)

    def _drop(self, lease: PlayedLease) -> None:
        self._leases.pop(lease.key, None)
        self._over[lease.key] = lease.name.hand_out
        self.handed = [one for one in self.handed if one is not lease]
        self._changed.pop(lease.key, None)


def offset_of(entry: Message | Missed) -> int:
    """Returns the offset of a hand-out. A notice stands at the first offset that is missing."""
    if isinstance(entry, Missed):
        return entry.after + 1 if entry.HasField("after") else 0
    return entry.offset
