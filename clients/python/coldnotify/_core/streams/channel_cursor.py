"""The cursor of channels, and the items that hold it back: one number for all channels of a client, however many.

Messages of all channels have offsets in one log. So a message that was received and is not told yet holds the cursor by
its offset, not by its time of arrival: the cursor is the highest number that frames reported as complete, or the lowest
`limit` of an item that holds it, whichever is lower. It never falls within an epoch: an item that holds it has a limit
at or above it.
"""

from collections import deque
from heapq import heappop, heappush

from coldnotify._core.streams.feed import Item

PROOFS_MAX = 64
"""While so many wait for the cursor, further ones are dropped: what it reaches next is proved by those."""


class ChannelCursor:
    """A client's position in the log of its domain's channels."""

    def __init__(self, epoch: int | None, cursor: int | None) -> None:
        self.epoch = epoch
        """Epoch of the log; None: not known yet."""
        self.cursor = cursor
        """Everything at or below it is told, of every channel without a pending registration. None:
        nothing is known.
        """
        self.complete = cursor
        """All at or below it has come."""
        self.as_of: float | None = None
        """Everything acknowledged before that time is told, of these channels. None: not known."""
        self._proofs: deque[tuple[int, float]] = deque()
        """Times like that, each with the cursor at which it counts; both rise."""
        self._held: list[tuple[int, int, Item]] = []
        self._serial = 0

    def void(self, epoch: int | None) -> None:
        """Another log: no number of the old one counts any more."""
        self.epoch = epoch
        self.cursor = self.complete = None
        self._proofs.clear()
        self._held.clear()

    def completed(self, complete: int) -> None:
        """A frame reported that everything up to there has come."""
        if self.epoch is not None and (self.complete is None or complete > self.complete):
            self.complete = complete

    def prove(self, as_of: float) -> None:
        """Everything acknowledged before that time has come: it counts once the cursor is at `complete`."""
        if self.complete is None:
            self._reach(as_of)  # the log is empty
        elif self.cursor is not None and self.cursor >= self.complete:
            self._reach(as_of)
        elif len(self._proofs) < PROOFS_MAX and (not self._proofs or self._proofs[-1][0] < self.complete):
            self._proofs.append((self.complete, as_of))
        elif self._proofs and self._proofs[-1][0] == self.complete:
            self._proofs[-1] = self.complete, max(as_of, self._proofs[-1][1])

    def _reach(self, as_of: float) -> None:
        self.as_of = as_of if self.as_of is None else max(self.as_of, as_of)

    def hold(self, item: Item) -> None:
        """Holds the cursor back for an item that is not told yet."""
        if not item.held:
            item.held = True
            self._serial += 1
            heappush(self._held, (item.limit, self._serial, item))

    def move(self) -> bool:
        """Moves the cursor as far as possible, after an item has come, was told, or holds no more. Returns true if it
        moved.
        """
        if self.complete is None:
            return False
        while self._held and not self._held[0][2].held:
            heappop(self._held)
        cursor = min(self.complete, self._held[0][0]) if self._held else self.complete
        if cursor < 0 or (self.cursor is not None and cursor <= self.cursor):
            return False
        self.cursor = cursor
        while self._proofs and self._proofs[0][0] <= cursor:
            self._reach(self._proofs.popleft()[1])
        return True
