"""Stream: how far one session has been told one log, and the row of pages that catches it up.

A session has one for objects, and one for its domain's channels if its client has any. They differ in what fills a
page: newest versions, or every message. How pages are asked for, sent, acknowledged, lost and caught up is the same,
and is here. A full connection is for the gateway to see: it asks again once the connection is drained.

`TABLE` says how the stages follow each other. Everything that changes a stream is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

NO_CURSOR = -1


class FollowedStage(IntEnum):
    """The stage of one stream."""

    PAUSED = auto()
    """Nothing is sent until its gateway asks: the digests differ, its tenant may not be told more, or a predecessor
    served it."""
    DUE = auto()
    """A page is being filled. It may wait: for sets, for a block of the log, or for its tenant's turn."""
    SENT = auto()
    """A page is on its way. The next one is filled once it is asked for."""
    LIVE = auto()
    """What is published is told as it comes."""


class FollowedEvent(IntEnum):
    """An event that moves one stage to another."""

    BEGUN = auto()
    """A row of pages begins."""
    NEXT = auto()
    """The next page of the row is asked for."""
    PAGE = auto()
    """A page leaves, and others follow it."""
    LAST_PAGE = auto()
    """A page leaves that is the last one; or nothing lacks, which the page of another stream says."""
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
    """The offset up to which its client may believe to know all: `cursor`, but for what it is to be told before."""
    page: int = 0
    """The number of the last page of the row."""
    paging: int = 0
    """Names the present row of pages: its gateway may have got the first pages of an earlier one."""
    page_bytes: int = 0
    """The size of a page, as its gateway says; 0: it does not say."""
    epoch_said: bool = False
    """Its client knows the log's epoch."""
    clean: bool = False
    """Nothing lacks. The next page of the session's other stream says so, and no page of its own."""

    @property
    def live(self) -> bool:
        """What is published is told as it comes."""
        return self.stage is FollowedStage.LIVE

    @property
    def under_way(self) -> bool:
        """Pages are on their way, and contain what is registered meanwhile."""
        return self.stage is FollowedStage.DUE or self.stage is FollowedStage.SENT

    def asked(self, ask: int, *, page_bytes: int | None = None, after_page: int | None = None) -> None:
        """Its gateway asks. `after_page`: pages up to this number have come."""
        self.ask = ask
        if page_bytes is not None:
            self.page_bytes = page_bytes
        if after_page is not None:
            self.page = after_page

    def is_next(self, ask: int, page: int, paging: int) -> bool:
        """The question is for the page behind this one, of the present row.

        The same question may have been answered twice, by this matcher or by two, and its gateway took what came first.
        """
        return page > 0 and (ask, page, paging) == (self.ask, self.page, self.paging)

    def place(self, cursor: int) -> None:
        """Its client has got all up to here, or says so."""
        self.cursor = self.complete = cursor

    def begin(self, paging: int, after_page: int) -> None:
        """A row of this name begins behind the page of this number."""
        self.stage = TABLE[self.stage][FollowedEvent.BEGUN]
        self.page, self.paging, self.clean = after_page, paging, False

    def next_page(self) -> None:
        """The next page of the row is to be filled."""
        self._move(FollowedEvent.NEXT)
        self.clean = False

    def cover(self, offset: int) -> None:
        """Pages cover the log up to this offset."""
        if offset > self.cursor:
            self.cursor = offset

    def send(self, *, whole: bool) -> int:
        """A page leaves, and others follow. Returns its number. `whole`: all that it covers was told."""
        self._move(FollowedEvent.PAGE)
        return self._sent(whole=whole)

    def send_last(self, position: int) -> int:
        """The last page leaves, in front of this position of the log. Returns its number."""
        self.stage = TABLE[self.stage][FollowedEvent.LAST_PAGE]
        if position - 1 > self.cursor:
            self.cursor = position - 1
        self.complete = self.cursor
        self.page += 1
        return self.page

    def join(self, position: int) -> None:
        """Nothing lacks: no page of its own says so."""
        self._move(FollowedEvent.LAST_PAGE)
        self.cover(position - 1)
        self.complete = self.cursor
        self.clean = True

    def take_clean(self) -> bool:
        """The page of another stream says that nothing lacks; once."""
        clean, self.clean = self.clean, False
        return clean

    def take_epoch(self) -> bool:
        """Its client is to be told the log's epoch; once."""
        said, self.epoch_said = self.epoch_said, True
        return not said

    def know_epoch(self, *, known: bool) -> None:
        """Its client says an epoch: whether it is the log's."""
        self.epoch_said = known

    def pause(self) -> None:
        """Nothing is sent until its gateway asks."""
        self._move(FollowedEvent.PAUSED)

    def begin_pages_anew(self) -> None:
        """The row that comes begins with the page that is waited for, whatever was sent."""
        self.page = 0

    def _sent(self, *, whole: bool) -> int:
        if whole:
            self.complete = self.cursor
        self.page += 1
        return self.page

    def _move(self, event: FollowedEvent) -> None:
        self.stage = TABLE[self.stage][event]
