"""A bounded thing that many share: how much of it is taken and by whom, so that nobody alone has all of it. Pure.

Who somebody is: their identity, where they had to prove one; otherwise what cannot be changed at will in what they ask,
as the domain or the address. Where many cannot be told from each other (from loopback, say) it is None: they have no
share of their own, and may have all there is.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from enum import Enum

Who = Hashable | None


class Full(Enum):
    """Why no more can be taken."""

    OF_ONE = "own"
    """Who asks has as much of it as one may have."""
    OF_ALL = "all"
    """There is no more of it."""


class Shared:
    """So much of it there is, and so much each may have."""

    def __init__(self, number: int, of_one: int) -> None:
        self.number = number
        self.of_one = of_one
        self.taken = 0
        """By all together."""
        self._of: Counter[Who] = Counter()

    def of(self, who: Who) -> int:
        """How much of it is taken by one; of None, by all that cannot be told from each other."""
        return self._of[who]

    def full(self, who: Who, more: int = 1) -> Full | None:
        """Why `more` cannot be taken; None: it can."""
        if who is not None and self._of[who] + more > self.of_one:
            return Full.OF_ONE
        return Full.OF_ALL if self.taken + more > self.number else None

    def take(self, who: Who, more: int = 1) -> Full | None:
        """None: it is taken, to be given back. Otherwise why it is not."""
        full = self.full(who, more)
        if full is None:
            self.taken += more
            self._of[who] += more
        return full

    def give_back(self, who: Who, less: int = 1) -> None:
        """Part of what was taken."""
        self.taken -= less
        self._of[who] -= less
        if not self._of[who]:
            del self._of[who]

    @contextmanager
    def part(self, who: Who, more: int = 1) -> Iterator[Full | None]:
        """It is taken until the end of the block; the block begins with why it is not, where it is not."""
        full = self.take(who, more)
        try:
            yield full
        finally:
            if full is None:
                self.give_back(who, more)
