"""SaidHolds: the Holds of one session, when each was sent, and what it said. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from coldnotify._core.shares.lease import LeaseKey, LeaseState

HOLDS_KEPT = 64
"""A gateway passes on so many that are unanswered. A hand-out, or an answer, that names an older one counts for
nothing."""


class SaidHold(NamedTuple):
    """One Hold."""

    at: float
    """When it was made, which is before it was sent."""
    lease_s: Mapping[int, int]
    """Lengths of leases, by the hash of the share."""
    named: Mapping[LeaseKey, tuple[int, LeaseState]]
    """By message: the hand-out, and what was said of it."""


class SaidHolds:
    """The numbers rise from 1 in each session."""

    def __init__(self) -> None:
        self._number = 0
        self._answered = 0
        self._kept: OrderedDict[int, SaidHold] = OrderedDict()

    @property
    def unanswered(self) -> int:
        """Number of Holds that are not answered yet."""
        return self._number - self._answered

    def say(self, hold: SaidHold) -> int:
        """Returns the number of this Hold, which leaves now."""
        self._number += 1
        self._kept[self._number] = hold
        while len(self._kept) > HOLDS_KEPT:
            self._kept.popitem(last=False)
        return self._number

    def of(self, number: int) -> SaidHold | None:
        """Returns the Hold of this number; None: it is too old, or there is none."""
        return self._kept.get(number)

    def answered(self, number: int) -> SaidHold | None:
        """Notes an answer. Returns the Hold; None: it is answered already, or too old. Later hand-outs may name it."""
        if number <= self._answered or number > self._number:
            return None
        self._answered = number
        return self._kept.get(number)
