"""Row: the page of messages that is being filled for a session, and the messages sent ahead of the page before.

A page that is being filled may wait for a block of the log. `TABLE` contains the transitions of its stages. Everything
that changes a row is in this file.
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
    """A page is being filled. It may go on in the partition's next turn, or wait for its tenant's."""
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
    page: internal_pb2.Page | None = None
    """The page that is being filled."""
    size_bytes: int = 0
    asked_ms: int = 0
    """Time at which the page was asked for."""
    waits_for: int = NO_CURSOR
    """The offset whose block it waits for; -1: it does not wait."""
    turn_since_ms: int | None = None
    """Time since which pages wait until the tenant may receive more; None: they do not wait."""
    entries_max: int | None = None
    """Maximum for the present page; None: only its size counts."""
    urgent_bytes: int = 0
    """Size of messages that came before others in this row because of their priority."""
    ahead: dict[int, int] = field(default_factory=dict)
    """By hash: the offset up to which channels were sent ahead of the waiting part of the page that is on its way."""
    ahead_bytes: int = 0
    """Size of these messages."""

    def begin(self) -> None:
        """Begin a row of pages."""
        self.urgent_bytes = 0

    def open(self, number: int, now_ms: int) -> None:
        """Open a page, which the session of this number has asked for."""
        self._move(RowEvent.OPENED)
        self.page = internal_pb2.Page(session=number)
        self.asked_ms = now_ms

    def opened(self) -> internal_pb2.Page:
        """Returns the page that is being filled."""
        assert self.page is not None, "it is open"
        return self.page

    def waited_for_long(self, now_ms: int, filled_ms_max: int, empty_ms_max: int) -> bool:
        """Returns true if the page has to leave with what it has: sooner with an entry than empty."""
        return now_ms - self.asked_ms >= (filled_ms_max if self.opened().entries else empty_ms_max)

    def limit(self, asked: int, allowed: int | None) -> None:
        """Limit the number of the page's entries: to those asked for, 0 is any, and to those that its tenant may
        have."""
        bounds = [bound for bound in (asked or None, allowed) if bound is not None]
        self.entries_max = min(bounds, default=None)

    def wait_for(self, offset: int) -> None:
        """Wait for the block with this offset."""
        self._move(RowEvent.WAITS)
        self.waits_for = offset

    def served(self) -> None:
        """End the wait."""
        self._move(RowEvent.SERVED)
        self.waits_for = NO_CURSOR

    def wait_turn(self, now_ms: int) -> int:
        """Wait for the tenant's turn. Returns the time since which pages of the row have waited."""
        if self.turn_since_ms is None or self.turn_since_ms > now_ms:
            self.turn_since_ms = now_ms
        return self.turn_since_ms

    def put(self, entry: internal_pb2.Entry, bytes_max: int) -> int:
        """Put an entry in. Returns its size; 0: the page is full. An empty page takes one entry of any size."""
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
        """Send these channels before the others."""
        urgent = self.opened().urgent
        urgent.extend(hash_ for hash_ in hashes if hash_ not in urgent)

    def close(self) -> int:
        """Close the page. Returns its size."""
        self._move(RowEvent.CLOSED)
        size, self.size_bytes = self.size_bytes, 0
        self.page, self.waits_for = None, NO_CURSOR
        return size

    def had_its_turn(self) -> None:
        """Note that a page with messages leaves."""
        self.turn_since_ms = None

    def begin_ahead(self) -> None:
        """Begin to count messages ahead of the page that is on its way: there are none yet."""
        self.ahead, self.ahead_bytes = {}, 0

    def tell_ahead(self, hash_: int, offset: int, size_bytes: int) -> None:
        """Note that the channel was sent up to this offset ahead of the waiting part."""
        self.ahead[hash_] = offset
        self.ahead_bytes += size_bytes

    def _move(self, event: RowEvent) -> None:
        self.stage = TABLE[self.stage][event]
