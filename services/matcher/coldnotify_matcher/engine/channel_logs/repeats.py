"""Repeats: records whose id, or `moved` header, was on one of their channel among REPEATS_KNOWN_OFFSETS before.

They follow from the log alone, so that every reader of a part of it finds the same ones: the followed part is checked
offset by offset, a part that is read again needs the marks of the blocks before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS

FOUND_MAX = 500_000
"""Offsets of repeats that are remembered for one log: 4 MB. For offsets before them, the blocks are checked again."""


def marks_of(key: str, headers: MessageHeaders) -> Iterable[int]:
    """Yields the marks that a record of this channel has in common with its repeats."""
    if headers.id:
        yield hash((key, 0, headers.id))
    if headers.moved is not None:
        yield hash((key, 1, headers.moved))


class Repeats:
    """The repeats in the followed part of one log."""

    def __init__(self, known_from: int) -> None:
        self.known_from = known_from
        """From this offset on all repeats that were read are included."""
        self._seen: dict[int, int] = {}
        """By mark: its last offset."""
        self._marks: deque[tuple[int, int]] = deque()
        self._found = array("q")

    def __contains__(self, offset: int) -> bool:
        """Returns true if the record at this offset, which is not below `known_from`, is a repeat."""
        place = bisect_left(self._found, offset)
        return place < len(self._found) and self._found[place] == offset

    def note(self, key: str, headers: MessageHeaders, offset: int) -> bool:
        """Note the next record of the log. Returns true if it is a repeat."""
        while self._marks and self._marks[0][0] < offset - REPEATS_KNOWN_OFFSETS:
            at, mark = self._marks.popleft()
            if self._seen.get(mark) == at:
                del self._seen[mark]
        repeat = False
        for mark in marks_of(key, headers):
            repeat |= mark in self._seen
            self._seen[mark] = offset
            self._marks.append((offset, mark))
        if repeat:
            self._found.append(offset)
        return repeat

    def is_full(self) -> bool:
        """Returns true if the older ones must be forgotten."""
        return len(self._found) > FOUND_MAX

    def forget_older(self) -> None:
        """Forget the older half of the repeats."""
        half = len(self._found) // 2
        self.known_from = max(self.known_from, self._found[half])
        del self._found[:half]


class Marks(NamedTuple):
    """Marks of a block's records, each with the last offset at which it occurs."""

    marks: array[int]
    offsets: array[int]


NO_MARKS = Marks(array("q"), array("q"))


def repeats_among(
    records: Sequence[tuple[int, str, MessageHeaders]], before: Iterable[Marks]
) -> tuple[set[int], Marks]:
    """Returns the offsets of the repeats among a block's records, given as (offset, key, headers), and their marks.

    `before`: the marks of all blocks that have some of the REPEATS_KNOWN_OFFSETS before it.
    """
    marks = [(offset, mark) for offset, key, headers in records for mark in marks_of(key, headers)]
    wanted = {mark for _, mark in marks}
    seen: dict[int, int] = {}
    for block in before:
        if wanted.isdisjoint(block.marks):
            continue
        for mark, offset in zip(block.marks, block.offsets, strict=True):
            if mark in wanted:
                seen[mark] = max(offset, seen.get(mark, -1))
    repeats: set[int] = set()
    last: dict[int, int] = {}
    for offset, mark in marks:
        if mark in seen and seen[mark] < offset and seen[mark] >= offset - REPEATS_KNOWN_OFFSETS:
            repeats.add(offset)
        seen[mark] = last[mark] = offset
    return repeats, Marks(array("q", last.keys()), array("q", last.values()))
