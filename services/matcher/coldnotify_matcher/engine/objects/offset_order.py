"""OffsetOrder: the objects of one group by the offsets of their newest versions, deleted ones included.

An object that changes moves to the end. Its former entry stays until a third of all are such, and is passed over.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_STALE_KEPT_MAX = 64
"""Number of former entries that are not worth a pass over all."""


class OffsetOrder:
    """Names and offsets, ascending by the offsets. A change costs the same whatever their number."""

    __slots__ = ("_names", "_offset_of", "_offsets")

    def __init__(self, offsets: Iterable[tuple[str, int]] = ()) -> None:
        """`offsets`: names with their offsets, in any order."""
        pairs = sorted(offsets, key=lambda pair: pair[1])
        self._offset_of = dict(pairs)
        self._names = [name for name, _ in pairs]
        self._offsets = array("q", (offset for _, offset in pairs))

    def __len__(self) -> int:
        return len(self._offset_of)

    def __contains__(self, name: str) -> bool:
        return name in self._offset_of

    def __iter__(self) -> Iterator[str]:
        """Yields the names, in any order."""
        return iter(self._offset_of)

    @property
    def last(self) -> int | None:
        """The highest offset; None: it is empty."""
        for at in range(len(self._offsets) - 1, -1, -1):
            if self._offset_of.get(self._names[at]) == self._offsets[at]:
                return self._offsets[at]
        return None

    def offset_of(self, name: str, otherwise: int) -> int:
        """Returns the object's offset, or `otherwise`, if it is not there."""
        return self._offset_of.get(name, otherwise)

    def put(self, name: str, offset: int) -> None:
        """Note that the object's newest version has this offset."""
        if self._offset_of.get(name) == offset:
            return
        self._offset_of[name] = offset
        at = len(self._offsets)
        if at and offset < self._offsets[-1]:
            at = bisect_right(self._offsets, offset)
        self._offsets.insert(at, offset)
        self._names.insert(at, name)
        self._drop_stale()

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        if self._offset_of.pop(name, None) is not None:
            self._drop_stale()

    def above(self, offset: int) -> Iterator[tuple[str, int]]:
        """Yields names and offsets above this one, ascending. Nothing may be changed meanwhile."""
        names, offsets, offset_of = self._names, self._offsets, self._offset_of
        for at in range(bisect_right(offsets, offset), len(offsets)):
            name = names[at]
            if offset_of.get(name) == offsets[at]:
                yield name, offsets[at]

    def _drop_stale(self) -> None:
        if 2 * len(self._names) <= 3 * len(self._offset_of) + _STALE_KEPT_MAX:
            return
        kept = list(self.above(-1))
        self._names = [name for name, _ in kept]
        self._offsets = array("q", (offset for _, offset in kept))
