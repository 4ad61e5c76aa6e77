"""The shares that an MQTT session is a member of: what it was handed, and what the service is to hear of that.

The gateway is what a library is to other members. It says Holds for its device: all that the device has, each third of
a lease, so leases go on while the session lives; and at once what is new. A task begins when its PUBLISH is sent, and
PUBACK settles it. What a Hold said counts once that is answered; until then it is remembered, and said again if no
answer comes.

A device says nothing of a former connection's packets. So the first Hold of a session names nothing: what the device
held is handed out again, to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.share_names import HELD_MAX
from coldnotify_schemas.wire_pb2 import (
    HELD_BEGUN,
    HELD_DONE,
    HELD_REJECTED,
    HELD_WAITS,
    HeldMessage,
    HeldShare,
    HeldState,
    Hold,
    Leases,
)

from coldnotify_gateway.core.timers import NEVER_S

LEASE_S = 60
"""Length of a lease while its device is connected. A gateway that dies is noticed within a quarter of it."""
HOLD_S = LEASE_S / 3
PREFETCH_UNSAID = 16
"""Tasks in the hands of a device that says no Receive Maximum: as those of a back-end. More would wait there while
other members have nothing to do."""
HOLDS_UNANSWERED_MAX = 2
"""Holds under way: what comes meanwhile goes together."""
ANSWER_S = 10.0
"""A Hold without an answer for so long is lost: the next one says the same."""
_SETTLES = frozenset((HELD_DONE, HELD_REJECTED))


@dataclass(slots=True, eq=False)
class DeviceLease:
    """A task in a device's hand, or on its way to it."""

    share: int
    """Hash of the registration."""
    offset: int
    hand_out: int
    state: HeldState = HELD_WAITS

    def become(self, state: HeldState) -> None:
        """Notes what has become of it."""
        self.state = state


class _SaidHold(NamedTuple):
    """A Hold that is not answered."""

    sent_s: float
    names_all: bool
    asks_all: bool
    said: tuple[tuple[DeviceLease, HeldState], ...]


_Key = tuple[int, int, int]


def _key_of(lease: DeviceLease) -> _Key:
    return lease.share, lease.offset, lease.hand_out


@dataclass(slots=True, eq=False)
class DeviceShares:
    """Shares of one session, and its tasks. Times are seconds of the core's clock."""

    prefetch: int = PREFETCH_UNSAID
    shares: tuple[int, ...] = ()
    """Hashes of the registrations."""
    _leases: dict[_Key, DeviceLease] = field(default_factory=dict)
    _packets: dict[int, DeviceLease] = field(default_factory=dict)
    """By packet identifier: what was sent and is not acknowledged."""
    _news: dict[_Key, DeviceLease] = field(default_factory=dict)
    """News for the next Hold."""
    _under_way: dict[int, _SaidHold] = field(default_factory=dict)
    """By number."""
    _number: int = 0
    _all_due: bool = True
    """The next Hold has to ask for what is lost."""
    _due_s: float = NEVER_S
    """The time of the next Hold that names all."""
    _heard_s: float = -NEVER_S
    """The sending of the latest Hold that named all and was answered."""

    def __len__(self) -> int:
        """The number of tasks in hand."""
        return len(self._leases)

    @property
    def wake_s(self) -> float:
        """Returns the time of its next work."""
        if not self.shares:
            return NEVER_S
        late_s = min((one.sent_s + ANSWER_S for one in self._under_way.values()), default=NEVER_S)
        return min(self._due_s, late_s) if len(self._under_way) < HOLDS_UNANSWERED_MAX else late_s

    def join(self, shares: Iterable[int], now_s: float, *, registered: bool = False) -> None:
        """Notes the shares that it is a member of now. `registered`: the service has just said so of one of them."""
        before, self.shares = self.shares, tuple(shares)
        for lease in [one for one in self._leases.values() if one.share not in self.shares]:
            self._forget(lease)
        if registered or set(self.shares) - set(before):
            self._due_s = now_s
        elif not self.shares:
            self._due_s = NEVER_S

    def ask_all(self) -> None:
        """Notes that what it was handed may be lost: the next Hold asks for it."""
        self._all_due = True

    def take(self, share: int, offset: int, hand_out: int) -> DeviceLease | None:
        """Notes that it was handed a message. Returns None if it has that already, or is no member."""
        lease = DeviceLease(share, offset, hand_out)
        if share not in self.shares or _key_of(lease) in self._leases:
            return None
        self._leases[_key_of(lease)] = lease
        return lease

    def may_send(self, lease: DeviceLease, now_s: float) -> bool:
        """Returns true if a task that waited here is still the device's. Else it is forgotten: its lease has ended, or
        does by its time."""
        if _key_of(lease) not in self._leases:
            return False
        if now_s - self._heard_s <= LEASE_S:
            return True
        self._forget(lease)
        return False

    def begin(self, lease: DeviceLease, packet_id: int) -> None:
        """Notes that a task is sent."""
        self._packets[packet_id] = lease
        self._say(lease, HELD_BEGUN)

    def acknowledge(self, packet_id: int, *, rejects: bool) -> None:
        """Handles a PUBACK. `rejects`: its reason says that the device does not take it."""
        lease = self._packets.pop(packet_id, None)
        if lease is not None and lease.share in self.shares:
            self._leases.setdefault(_key_of(lease), lease)  # its latest holder may settle it, though its lease is over
            self._say(lease, HELD_REJECTED if rejects else HELD_DONE)

    def settle(self, lease: DeviceLease) -> None:
        """Notes that nothing of it is sent: it is a notice of what is missing."""
        self._say(lease, HELD_DONE)

    def reject(self, lease: DeviceLease) -> None:
        """Notes that the device cannot be sent it, whatever happens."""
        self._say(lease, HELD_REJECTED)

    def _say(self, lease: DeviceLease, state: HeldState) -> None:
        lease.become(state)
        self._news[_key_of(lease)] = lease

    def _forget(self, lease: DeviceLease) -> None:
        self._leases.pop(_key_of(lease), None)
        self._news.pop(_key_of(lease), None)

    # --- Holds

    def hold(self, now_s: float) -> Hold | None:
        """Returns what is to be said now; None: nothing, or too much is not answered."""
        for number in [one for one, said in self._under_way.items() if now_s - said.sent_s >= ANSWER_S]:
            self._lost(number)
        if len(self._under_way) >= HOLDS_UNANSWERED_MAX or not self.shares:
            return None
        names_all = self._all_due or now_s >= self._due_s
        if not names_all and not self._news:
            return None
        return self._hold_of(now_s, names_all=names_all)

    def last_hold(self, now_s: float) -> Hold | None:
        """Returns what a session that ends has still to say; None: nothing."""
        settled = [one for one in self._news.values() if one.state in _SETTLES]
        self._news = {_key_of(one): one for one in settled}
        return self._hold_of(now_s, names_all=False) if settled else None

    def _hold_of(self, now_s: float, *, names_all: bool) -> Hold:
        self._number += 1
        named = list((self._leases if names_all else self._news).values())[:HELD_MAX]
        by_share: dict[int, list[DeviceLease]] = {one: [] for one in self.shares} if names_all else {}
        for lease in named:
            by_share.setdefault(lease.share, []).append(lease)
        asks_all = self._all_due and names_all
        said = tuple((one, one.state) for one in named)
        self._under_way[self._number] = _SaidHold(now_s, names_all, asks_all, said)
        for lease in named:
            self._news.pop(_key_of(lease), None)
        if names_all:
            self._all_due = False
            self._due_s = now_s + HOLD_S
        shares = [
            HeldShare(share=share, messages=map(_named, leases), lease_s=LEASE_S, prefetch=self.prefetch)
            for share, leases in by_share.items()
        ]
        return Hold(number=self._number, all=asks_all, shares=shares)

    def not_sent(self, hold: Hold, again_s: float) -> None:
        """Notes that a Hold was not sent: it is said from `again_s` on."""
        self._lost(hold.number)
        self._due_s = min(self._due_s, again_s)

    def _lost(self, number: int) -> None:
        said = self._under_way.pop(number)
        self._all_due |= said.asks_all
        if said.names_all:
            self._due_s = min(self._due_s, said.sent_s + ANSWER_S)
        for lease, _ in said.said:
            if _key_of(lease) in self._leases:
                self._news[_key_of(lease)] = lease

    def answered(self, leases: Leases) -> None:
        """Handles the answer to a Hold."""
        for number in [one for one in self._under_way if one < leases.number]:
            self._lost(number)
        said = self._under_way.pop(leases.number, None)
        if said is None:
            return
        if said.names_all:
            self._heard_s = max(self._heard_s, said.sent_s)
        lost = {(one.share, offset) for one in leases.lost for offset in one.offsets}
        for lease, state in said.said:
            settles = state in _SETTLES and lease.state == state
            if settles or (lease.share, lease.offset) in lost:
                self._forget(lease)


def _named(lease: DeviceLease) -> HeldMessage:
    return HeldMessage(offset=lease.offset, hand_out=lease.hand_out, state=lease.state)
