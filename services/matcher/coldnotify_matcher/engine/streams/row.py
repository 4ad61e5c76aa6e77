"""Row: the page of messages that is being filled for a session, and what was told in front of the page before.

A page that is filled may wait for a block of the log. `TABLE` says how its stages follow each other. Everything that
changes a row is in this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import TYPE_CHECKING

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.streams.stream import NO_CURSOR

if TYPE_CHECKING:
    from collections.abc import Iterable


class RowStage(IntEnum):
    """The stage of the page."""

    CLOSED = auto()
    """No page is being filled."""
    OPEN = auto()
    """One is. It may go on in the partition's next turn, or wait for its tenant's."""
    WAITING = auto()
    """It waits for a block of the log."""


class RowEvent(IntEnum):
    """An event that moves one stage to another."""

    OPENED = auto()
    WAITS = auto()
    SERVED = auto()
    """The block has come, or is not waited for any more."""
    CLOSED = auto()
    """The page leaves, or the row is over."""


TABLE: dict[RowStage, dict[RowEvent, RowStage]] = {
    RowStage.CLOSED: {RowEvent.OPENED: RowStage.OPEN, RowEvent.CLOSED: RowStage.CLOSED},
    RowStage.OPEN: {RowEvent.WAITS: RowStage.WAITING, RowEvent.CLOSED: RowStage.CLOSED},
    RowStage.WAITING: {RowEvent.SERVED: RowStage.OPEN, RowEvent.CLOSED: RowStage.CLOSED},
}
"""Any other transition raises KeyError."""


@dataclass(slots=True, eq=False)
class MessageRow:
    """The row of pages of one session's messages."""

    stage: RowStage = RowStage.CLOSED
    page: internal_pb2.ChannelPage | None = None
    """The page that is being filled."""
    size_bytes: int = 0
    asked_ms: int = 0
    """When the page was asked for."""
    waits_for: int = NO_CURSOR
    """The offset whose block it waits for; -1: it does not wait."""
    turn_since_ms: int | None = None
    """Since when pages wait until the tenant may be told more; None: they do not."""
    entries_max: int | None = None
    """Of the present page, where its tenant may be told only so much; None: its size counts alone."""
    urgent_bytes: int = 0
    """What came before others in this row because of its priority."""
    ahead: dict[int, int] = field(default_factory=dict)
    """By hash: up to where channels were told in front of what waits of the page that is on its way."""
    ahead_bytes: int = 0
    """What that takes."""

    def begin(self) -> None:
        """A row of pages begins."""
        self.urgent_bytes = 0

    def open(self, number: int, now_ms: int) -> None:
        """A page is asked for, by the session of this number."""
        self._move(RowEvent.OPENED)
        self.page = internal_pb2.ChannelPage(session=number)
        self.asked_ms = now_ms

    def opened(self) -> internal_pb2.ChannelPage:
        """The page that is being filled."""
        assert self.page is not None, "it is open"
        return self.page

    def waited_for_long(self, now_ms: int, filled_ms_max: int, empty_ms_max: int) -> bool:
        """The page is to leave with what it has: one with anything in it sooner than an empty one."""
        return now_ms - self.asked_ms >= (filled_ms_max if self.opened().entries else empty_ms_max)

    def limit(self, entries_max: int | None) -> None:
        """The page may have so many entries."""
        self.entries_max = entries_max

    def wait_for(self, offset: int) -> None:
        """The page waits for the block with this offset."""
        self._move(RowEvent.WAITS)
        self.waits_for = offset

    def served(self) -> None:
        """It waits no more."""
        self._move(RowEvent.SERVED)
        self.waits_for = NO_CURSOR

    def wait_turn(self, now_ms: int) -> int:
        """The page waits for its tenant's turn. Returns since when pages of the row have."""
        if self.turn_since_ms is None or self.turn_since_ms > now_ms:
            self.turn_since_ms = now_ms
        return self.turn_since_ms

    def put(self, entry: internal_pb2.ChannelEntry, bytes_max: int) -> int:
        """Put an entry in. Returns its size; 0: the page is full. One goes into an empty page however long it is."""
        page = self.opened()
        told = entry.missed if entry.HasField("missed") else entry.message
        told.paged = True
        size = entry.ByteSize()
        if page.entries and self.size_bytes + size > bytes_max:
            return 0
        if self.entries_max is not None and len(page.entries) >= self.entries_max:
            return 0
        page.entries.append(entry)
        if told.channel in page.urgent:
            self.urgent_bytes += size
        self.size_bytes += size
        return size

    def hurry(self, hashes: Iterable[int]) -> None:
        """These channels come before the others."""
        urgent = self.opened().urgent
        urgent.extend(hash_ for hash_ in hashes if hash_ not in urgent)

    def close(self) -> int:
        """No page is being filled. Returns the size of the one that was."""
        self._move(RowEvent.CLOSED)
        size, self.size_bytes = self.size_bytes, 0
        self.page, self.waits_for = None, NO_CURSOR
        return size

    def had_its_turn(self) -> None:
        """A page with messages leaves."""
        self.turn_since_ms = None

    def begin_ahead(self) -> None:
        """A page is on its way: nothing was told in front of what waits of it."""
        self.ahead, self.ahead_bytes = {}, 0

    def tell_ahead(self, hash_: int, offset: int, size_bytes: int) -> None:
        """The channel was told up to this offset in front of what waits."""
        self.ahead[hash_] = offset
        self.ahead_bytes += size_bytes

    def _move(self, event: RowEvent) -> None:
        self.stage = TABLE[self.stage][event]
