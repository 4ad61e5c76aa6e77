"""The cursor of channels, and the items that hold it back: one number for all channels of a client, however many.

Messages of all channels have offsets in one log. So a message that was received and is not told yet holds the cursor by
its offset, not by its time of arrival: the cursor is the highest number that frames reported as complete, or the lowest
`limit` of an item that holds it, whichever is lower. It never falls within an epoch: an item that holds it has a limit
at or above it.
"""

from heapq import heappop, heappush

from coldnotify._core.streams.feed import Item


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
        self._held: list[tuple[int, int, Item]] = []
        self._serial = 0

    def void(self, epoch: int | None) -> None:
        """Another log: no number of the old one counts any more."""
        self.epoch = epoch
        self.cursor = self.complete = None
        self._held.clear()

    def completed(self, complete: int) -> None:
        """A frame reported that everything up to there has come."""
        if self.epoch is not None and (self.complete is None or complete > self.complete):
            self.complete = complete

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
        return True
