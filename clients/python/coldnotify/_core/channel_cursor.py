"""The cursor of channels, and what holds it back: one number for all channels of a client, however many there are.

Messages of all channels have offsets in one log. So what was received and is not told yet holds the cursor by its
offset, not by when it came: the cursor is the highest number that frames said to be complete, or the lowest `limit` of
an item that holds it, whichever is lower. It never goes down within an epoch: an item that holds it has a limit at or
above it.
"""

from heapq import heappop, heappush

from coldnotify._core.feed import Item


class ChannelCursor:
    """How far a client is in the log of its domain's channels."""

    def __init__(self, epoch: int | None, cursor: int | None) -> None:
        self.epoch = epoch
        """Of the log. None: it is not known yet."""
        self.cursor = cursor
        """All at or below it is told, of every channel that is no pending registration. None: nothing is known."""
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
        """A frame said that all up to there has come."""
        if self.epoch is not None and (self.complete is None or complete > self.complete):
            self.complete = complete

    def hold(self, item: Item) -> None:
        """It is not told yet: the cursor waits in front of it."""
        if not item.held:
            item.held = True
            self._serial += 1
            heappush(self._held, (item.limit, self._serial, item))

    def move(self) -> bool:
        """As far as it goes: after something has come, was told, or holds no more. Whether that is a change."""
        if self.complete is None:
            return False
        while self._held and not self._held[0][2].held:
            heappop(self._held)
        cursor = min(self.complete, self._held[0][0]) if self._held else self.complete
        if cursor < 0 or (self.cursor is not None and cursor <= self.cursor):
            return False
        self.cursor = cursor
        return True
