"""Stretches of numbers: finds those that contain a number, without checking all.

A binary64 has an order as an integer of 64 bits. A stretch from `low` to `high` belongs to the highest bit in which
these integers differ: it is kept with all stretches that have the same bits above it. All of them contain the place
where that bit turns to 1. So for a number below that place only the low ends decide which of them contain it, and for
any other only the high ends; both are kept sorted. A number is searched for in one such node for each bit that is in
use. Nothing is ever balanced, and finding a stretch has no other cost.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from struct import Struct

Stretch = tuple[int, int]
"""Its lowest and its highest number, as integers in the order of numbers."""

_DOUBLE = Struct(">d")
_BITS = Struct(">Q")
_ZERO = 1 << 63


def ordered(number: float) -> int:
    """Returns a positive integer with the order of numbers; the next number has the next integer."""
    bits: int = _BITS.unpack(_DOUBLE.pack(number + 0.0))[0]  # -0.0 is 0.0
    return 2 * _ZERO - bits if bits > _ZERO else _ZERO + bits


class _Node:
    """Stretches that contain one place."""

    __slots__ = ("by_high", "by_low")

    def __init__(self) -> None:
        self.by_low: list[Stretch] = []
        self.by_high: list[Stretch] = []
        """Pairs with the high end first."""


class Stretches:
    """A set of distinct stretches. One costs two places in sorted lists, whatever others there are."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], _Node] = {}
        """By level (the number of bits below the place), and the bits above."""
        self._levels: dict[int, int] = {}
        """Number of nodes by level."""

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add(self, stretch: Stretch) -> None:
        """Add a new one."""
        place = _place_of(stretch)
        node = self._nodes.get(place)
        if node is None:
            node = self._nodes[place] = _Node()
            self._levels[place[0]] = self._levels.get(place[0], 0) + 1
        low, high = stretch
        insort(node.by_low, stretch)
        insort(node.by_high, (high, low))

    def remove(self, stretch: Stretch) -> None:
        """Remove an existing one."""
        place = _place_of(stretch)
        node = self._nodes[place]
        low, high = stretch
        del node.by_low[bisect_left(node.by_low, stretch)]
        del node.by_high[bisect_left(node.by_high, (high, low))]
        if not node.by_low:
            del self._nodes[place]
            self._levels[place[0]] -= 1
            if not self._levels[place[0]]:
                del self._levels[place[0]]

    def around(self, number: float) -> Iterator[Stretch]:
        """Yields the stretches that contain the number."""
        return self.around_place(ordered(number))

    def around_place(self, at: int) -> Iterator[Stretch]:
        """Yields the same for a number as an integer in the order of numbers."""
        for level in self._levels:
            node = self._nodes.get((level, at >> level))
            if node is None:
                continue
            if level and not at >> (level - 1) & 1:
                yield from node.by_low[: bisect_right(node.by_low, (at, _HIGHEST))]
            else:
                for high, low in node.by_high[bisect_left(node.by_high, (at, _LOWEST)) :]:
                    yield low, high


_LOWEST, _HIGHEST = -1, 1 << 65
"""Beyond all numbers."""


def _place_of(stretch: Stretch) -> tuple[int, int]:
    """Returns the level of the highest bit in which its ends differ, and the bits above that."""
    low, high = stretch
    level = (low ^ high).bit_length()
    return level, low >> level
