"""Lease: a message of a share in this client's hand, until what was said of it is answered. Pure.

| state        | event                                        | next                                      |
|--------------|----------------------------------------------|-------------------------------------------|
| WAITS        | `begin`, said before the callback is called  | BEGUN                                     |
| WAITS, BEGUN | `settle`, `give_back`, `reject`              | DONE, BACK, REJECTED                      |
| any          | `answer` of a Hold that says DONE, BACK, REJECTED as the state is | over                 |
| any          | `lose`: the owner says so                    | over, lost                                |
| WAITS        | `end`: its time is over by our clock         | over                                      |
| BEGUN        | `end`                                        | BEGUN, lost: it may still be settled      |

Its time counts from when the Hold was sent that the hand-out, or the latest grant, names; and it ends EARLY sooner than
the owner's, because no two clocks run alike.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.share_names import EARLY


class LeaseState(Enum):
    """The states of a lease, as a Hold says them."""

    WAITS = wire.HELD_WAITS
    BEGUN = wire.HELD_BEGUN
    DONE = wire.HELD_DONE
    BACK = wire.HELD_BACK
    REJECTED = wire.HELD_REJECTED


class LeaseKey(NamedTuple):
    """The message that a lease is of."""

    share: int
    """Hash of the share."""
    offset: int


class Lease:
    """One hand-out. Times are seconds on a clock that does not jump."""

    __slots__ = (
        "after_s",
        "ends_at",
        "hand_out",
        "is_lost",
        "is_over",
        "key",
        "lease_s",
        "may_run",
        "reject_wanted",
        "retry_wanted_s",
        "said",
        "state",
        "told",
    )

    def __init__(self, said: wire.Message | wire.Missed, begins_at: float, lease_s: int) -> None:
        """`begins_at`: when the Hold was sent that the hand-out names."""
        self.key = key_of(said)
        self.said = said
        self.hand_out = said.hand_out
        self.lease_s = lease_s
        self.ends_at = self._end_from(begins_at)
        self.state = LeaseState.WAITS
        self.after_s = 0
        """With BACK: it is to be handed out again not before so many seconds."""
        self.may_run = False
        """A Hold has left that says that its callback begins."""
        self.is_lost = False
        """Another member may have the message."""
        self.is_over = False
        """Nothing is to be said of it any more."""
        self.told: list[Callable[[], object]] = []
        """Called once it is over."""
        self.retry_wanted_s: int | None = None
        self.reject_wanted = False

    @property
    def is_held(self) -> bool:
        """True if a Hold is to prolong it."""
        return self.state in (LeaseState.WAITS, LeaseState.BEGUN) and not self.is_lost and not self.is_over

    def has_time(self, now: float) -> bool:
        """Returns true if nobody else can have the message yet."""
        return self.is_held and now < self.ends_at

    def extend(self, begins_at: float) -> None:
        """A Hold that was sent at this time has prolonged it."""
        if self.is_held:
            self.ends_at = max(self.ends_at, self._end_from(begins_at))

    def begin(self) -> None:
        """Its callback is to be called once that is said."""
        if self.state is LeaseState.WAITS:
            self.state = LeaseState.BEGUN

    def written(self, said: LeaseState) -> None:
        """A Hold that says this of it has left."""
        self.may_run = self.may_run or said is LeaseState.BEGUN

    def settle(self) -> bool:
        """Returns true if that is to be said."""
        return self._become(LeaseState.DONE)

    def give_back(self, after_s: int = 0) -> bool:
        """Returns true if that is to be said. What is lost is given back already."""
        self.after_s = after_s
        return not self.is_lost and self._become(LeaseState.BACK)

    def reject(self) -> bool:
        """Returns true if that is to be said."""
        return not self.is_lost and self._become(LeaseState.REJECTED)

    def want_retry(self, after_s: int) -> None:
        """The application gives it back once its callback has returned."""
        self.retry_wanted_s = after_s

    def want_reject(self) -> None:
        """It becomes a dead letter then."""
        self.reject_wanted = True

    def end(self) -> None:
        """Its time is over by our clock."""
        self.is_lost = True
        if self.state is LeaseState.WAITS:
            self.close()

    def answer(self, said: LeaseState) -> None:
        """A Hold that says this is answered: that is durable."""
        if said is self.state and said not in (LeaseState.WAITS, LeaseState.BEGUN):
            self.is_lost = False
            self.close()

    def lose(self) -> None:
        """The owner says that it is lost."""
        self.is_lost = True
        self.close()

    def close(self) -> None:
        """Nothing more is to be said of it."""
        self.is_over = True
        told, self.told = self.told, []
        for one in told:
            one()

    def _become(self, state: LeaseState) -> bool:
        if self.is_over or self.state not in (LeaseState.WAITS, LeaseState.BEGUN):
            return False
        self.state = state
        return True

    def _end_from(self, begins_at: float) -> float:
        return begins_at + self.lease_s * (1.0 - EARLY)


def key_of(said: wire.Message | wire.Missed) -> LeaseKey:
    """Returns what a hand-out is of. A notice stands at the first offset that is missing."""
    if isinstance(said, wire.Missed):
        return LeaseKey(said.channel, said.after + 1 if said.HasField("after") else 0)
    return LeaseKey(said.channel, said.offset)
