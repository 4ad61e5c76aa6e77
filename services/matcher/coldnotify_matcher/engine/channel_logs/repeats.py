"""Repeats: records whose id, or `moved` header, was on one of their channel among REPEATS_KNOWN_OFFSETS before.

They follow from the log alone, so that every reader of a part of it finds the same ones: the followed part is checked
offset by offset, a part that is read again needs the marks of the blocks before it. A record repeats only what the log
still has: once retention has removed its original, it is a message like any other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from sys import intern
from typing import NamedTuple

from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS

FOUND_MAX = 500_000
"""Number of repeats that are remembered for one log: 12 MB. For offsets before them, the blocks are checked again."""


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
        self._originals = array("q")
        """For each of `_found`, the last record before it that it repeats."""
        self._keys: list[str] = []
        """For each of `_found`, its channel."""

    def __contains__(self, offset: int) -> bool:
        """Returns true if the record at this offset, which is not below `known_from`, is a repeat."""
        place = bisect_left(self._found, offset)
        return place < len(self._found) and self._found[place] == offset

    def first_of(self, offset: int) -> int:
        """Returns the offset of the record that the one at this offset repeats, or the same offset."""
        place = bisect_left(self._found, offset)
        while place < len(self._found) and self._found[place] == offset:
            offset = self._originals[place]
            place = bisect_left(self._found, offset)
        return offset

    def note(self, key: str, headers: MessageHeaders, offset: int, log_start: int) -> bool:
        """Note the next record of the log, which begins at `log_start` by now. Returns true if it is a repeat."""
        while self._marks and self._marks[0][0] < offset - REPEATS_KNOWN_OFFSETS:
            at, mark = self._marks.popleft()
            if self._seen.get(mark) == at:
                del self._seen[mark]
        original = -1
        for mark in marks_of(key, headers):
            original = max(original, self._seen.get(mark, -1))
            self._seen[mark] = offset
            self._marks.append((offset, mark))
        if original < log_start:
            return False
        self._found.append(offset)
        self._originals.append(original)
        self._keys.append(intern(key))
        return True

    def is_full(self) -> bool:
        """Returns true if the older ones must be forgotten."""
        return len(self._found) > FOUND_MAX

    def forget_older(self) -> None:
        """Forget the older half of the repeats."""
        half = len(self._found) // 2
        self.known_from = max(self.known_from, self._found[half])
        self._keep(range(half, len(self._found)))

    def take_freed(self, log_start: int) -> list[tuple[str, int]]:
        """Returns the records, as (channel, offset), that repeat nothing any more, because the log begins at
        `log_start` now."""
        behind = bisect_right(self._found, log_start + REPEATS_KNOWN_OFFSETS)
        freed = [place for place in range(behind) if self._originals[place] < log_start]
        records = [(self._keys[place], self._found[place]) for place in freed]
        if freed:
            gone = set(freed)
            self._keep([place for place in range(len(self._found)) if place not in gone])
        return records

    def _keep(self, places: Sequence[int]) -> None:
        self._found = array("q", [self._found[place] for place in places])
        self._originals = array("q", [self._originals[place] for place in places])
        self._keys = [self._keys[place] for place in places]


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
