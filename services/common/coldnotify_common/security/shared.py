"""Shares a bounded resource: counts how much each caller has taken, so that none can take all of it. Pure.

A caller is known by its identity if one is required; otherwise by a part of the request that it cannot change at will,
such as the domain or the address. If many callers cannot be told apart (from loopback, say), it is None: they have no
share of their own, and may take everything.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from enum import Enum

Who = Hashable | None


class Full(Enum):
    """The reason why no more can be taken."""

    OF_ONE = "own"
    """The caller has reached its own limit."""
    OF_ALL = "all"
    """The resource is exhausted."""


class Shared:
    """A resource with a total amount and a limit per caller."""

    def __init__(self, number: int, of_one: int) -> None:
        self.number = number
        self.of_one = of_one
        self.taken = 0
        """The amount taken by all callers."""
        self._of: Counter[Who] = Counter()

    def of(self, who: Who) -> int:
        """Returns the amount taken by one caller; for None, by all that cannot be told apart."""
        return self._of[who]

    def full(self, who: Who, more: int = 1) -> Full | None:
        """Returns the reason why `more` cannot be taken; None if it can."""
        if who is not None and self._of[who] + more > self.of_one:
            return Full.OF_ONE
        return Full.OF_ALL if self.taken + more > self.number else None

    def take(self, who: Who, more: int = 1) -> Full | None:
        """Takes `more`, to be given back later, and returns None; otherwise returns the reason why not."""
        full = self.full(who, more)
        if full is None:
            self.taken += more
            self._of[who] += more
        return full

    def give_back(self, who: Who, less: int = 1) -> None:
        """Gives back `less` of what the caller has taken."""
        self.taken -= less
        self._of[who] -= less
        if not self._of[who]:
            del self._of[who]

    @contextmanager
    def part(self, who: Who, more: int = 1) -> Iterator[Full | None]:
        """Takes `more` until the end of the block; yields the reason if that is not possible, otherwise None."""
        full = self.take(who, more)
        try:
            yield full
        finally:
            if full is None:
                self.give_back(who, more)
