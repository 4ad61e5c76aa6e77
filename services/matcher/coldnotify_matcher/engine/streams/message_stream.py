"""The stream of a session's channels: every message, each channel from its own position."""

from dataclasses import dataclass, field

from coldnotify_matcher.engine.streams.positions import Positions
from coldnotify_matcher.engine.streams.row import MessageRow
from coldnotify_matcher.engine.streams.stream import Stream


@dataclass(slots=True, eq=False)
class MessageStream(Stream):
    """The progress of one session in the log of its domain's channels."""

    positions: Positions = field(default_factory=Positions)
    row: MessageRow = field(default_factory=MessageRow)

    def acknowledged(self, complete: int) -> None:
        """Note that its client has applied all up to here."""
        if self.live and complete >= self.cursor:
            self.positions.taken_last()

    def begin_row(self, paging: int, after_page: int) -> None:
        """Begin a row of pages."""
        self.begin(paging, after_page)
        self.row.begin()

    def stop(self) -> int:
        """End the row. Returns the size of the page that was being filled."""
        self.pause()
        return self.row.close()
