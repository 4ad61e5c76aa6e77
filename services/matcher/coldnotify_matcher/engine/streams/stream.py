"""Stream: one session's progress in one log, and the row of pages that catches it up.

A session has one for objects, and one for its domain's channels if its client has any. They differ in the contents of a
page: newest versions, or every message. Pages are asked for, sent, acknowledged, lost and caught up in the same way,
which is here. A full connection is the gateway's concern: it asks again once the connection is drained.

`TABLE` contains the transitions of the stages. Everything that changes a stream is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

NO_CURSOR = -1


class FollowedStage(IntEnum):
    """The stage of one stream."""

    PAUSED = auto()
    """Nothing is sent until its gateway asks: the digests differ, its tenant may not receive more, or a predecessor
    served it."""
    DUE = auto()
    """A page is being filled. It may wait: for sets, for a block of the log, or for its tenant's turn."""
    SENT = auto()
    """A page is on its way. The next one is filled once it is asked for."""
    LIVE = auto()
    """Publishes are sent as they come."""


class FollowedEvent(IntEnum):
    """An event that moves one stage to another."""

    BEGUN = auto()
    """A row of pages begins."""
    NEXT = auto()
    """The next page of the row is asked for."""
    PAGE = auto()
    """A page leaves, and others follow it."""
    LAST_PAGE = auto()
    """The last page leaves; or nothing is missing, and the page of another stream says so."""
    PAUSED = auto()


TABLE: dict[FollowedStage, dict[FollowedEvent, FollowedStage]] = {
    FollowedStage.PAUSED: {FollowedEvent.BEGUN: FollowedStage.DUE, FollowedEvent.PAUSED: FollowedStage.PAUSED},
    FollowedStage.DUE: {
        FollowedEvent.BEGUN: FollowedStage.DUE,
        FollowedEvent.NEXT: FollowedStage.DUE,
        FollowedEvent.PAGE: FollowedStage.SENT,
        FollowedEvent.LAST_PAGE: FollowedStage.LIVE,
        FollowedEvent.PAUSED: FollowedStage.PAUSED,
    },
    FollowedStage.SENT: {
        FollowedEvent.BEGUN: FollowedStage.DUE,
        FollowedEvent.NEXT: FollowedStage.DUE,
        FollowedEvent.PAUSED: FollowedStage.PAUSED,
    },
    FollowedStage.LIVE: {
        FollowedEvent.BEGUN: FollowedStage.DUE,
        FollowedEvent.NEXT: FollowedStage.DUE,
        FollowedEvent.PAUSED: FollowedStage.PAUSED,
    },
}
"""Any other transition raises KeyError. NEXT while LIVE: a gateway has missed that the page was the last one."""


@dataclass(slots=True, eq=False)
class Stream:
    """One stream of one session."""

    ask: int = 0
    """The number of its gateway's last question, which pages answer."""
    stage: FollowedStage = FollowedStage.PAUSED
    cursor: int = NO_CURSOR
    """The offset up to which the pages sent so far cover the log."""
    complete: int = NO_CURSOR
    """The offset up to which its client may believe to know all: `cursor`, unless it has to hear of something
    before."""
    page: int = 0
    """The number of the last page of the row."""
    paging: int = 0
    """Names the present row of pages: its gateway may have received the first pages of an earlier one."""
    page_bytes: int = 0
    """The size of a page that its gateway names; 0: it names none."""
    entries_max: int = 0
    """The most entries of a page that its gateway names; 0: it names none."""
    epoch_said: bool = False
    """True if its client knows the log's epoch."""
    clean: bool = False
    """True if nothing is missing. The next page of the session's other stream says so, instead of a page of its own."""

    @property
    def live(self) -> bool:
        """True if publishes are sent as they come."""
        return self.stage is FollowedStage.LIVE

    @property
    def under_way(self) -> bool:
        """True if pages are on their way, which contain later registrations."""
        return self.stage is FollowedStage.DUE or self.stage is FollowedStage.SENT

    def asked(
        self, ask: int, *, page_bytes: int | None = None, entries_max: int = 0, after_page: int | None = None
    ) -> None:
        """Note that its gateway asks. `after_page`: pages up to this number have come."""
        self.ask, self.entries_max = ask, entries_max
        if page_bytes is not None:
            self.page_bytes = page_bytes
        if after_page is not None:
            self.page = after_page

    def is_next(self, ask: int, page: int, paging: int) -> bool:
        """Returns true if the question is for the page after this one, of the present row.

        The same question may have been answered twice, by this matcher or by two, and its gateway took the first
        answer.
        """
        return page > 0 and (ask, page, paging) == (self.ask, self.page, self.paging)

    def place(self, cursor: int) -> None:
        """Set the place up to which its client has received all, or says so."""
        self.cursor = self.complete = cursor

    def begin(self, paging: int, after_page: int) -> None:
        """Begin a row of this name after the page of this number."""
        self.stage = TABLE[self.stage][FollowedEvent.BEGUN]
        self.page, self.paging, self.clean = after_page, paging, False

    def next_page(self) -> None:
        """Begin to fill the next page of the row."""
        self._move(FollowedEvent.NEXT)
        self.clean = False

    def cover(self, offset: int) -> None:
        """Note that pages cover the log up to this offset."""
        if offset > self.cursor:
            self.cursor = offset

    def send(self, *, whole: bool) -> int:
        """Send a page that others follow. Returns its number. `whole`: all that it covers was sent."""
        self._move(FollowedEvent.PAGE)
        return self._sent(whole=whole)

    def send_last(self, position: int) -> int:
        """Send the last page, at this position of the log. Returns its number."""
        self.stage = TABLE[self.stage][FollowedEvent.LAST_PAGE]
        if position - 1 > self.cursor:
            self.cursor = position - 1
        self.complete = self.cursor
        self.page += 1
        return self.page

    def join(self, position: int) -> None:
        """Go live without a page of its own, because nothing is missing."""
        self._move(FollowedEvent.LAST_PAGE)
        self.cover(position - 1)
        self.complete = self.cursor
        self.clean = True

    def take_clean(self) -> bool:
        """Returns true, once, if the page of another stream has to say that nothing is missing."""
        clean, self.clean = self.clean, False
        return clean

    def take_epoch(self) -> bool:
        """Returns true, once, if its client has to hear the log's epoch."""
        said, self.epoch_said = self.epoch_said, True
        return not said

    def know_epoch(self, *, known: bool) -> None:
        """Note that its client names an epoch; `known`: it is the log's."""
        self.epoch_said = known

    def pause(self) -> None:
        """Send nothing until its gateway asks."""
        self._move(FollowedEvent.PAUSED)

    def begin_pages_anew(self) -> None:
        """Begin the coming row with the page that is waited for, whatever was sent."""
        self.page = 0

    def _sent(self, *, whole: bool) -> int:
        if whole:
            self.complete = self.cursor
        self.page += 1
        return self.page

    def _move(self, event: FollowedEvent) -> None:
        self.stage = TABLE[self.stage][event]
