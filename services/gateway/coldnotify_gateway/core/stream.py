"""A stream: a log that a session follows, how far its client is in it, and the row of pages that it is caught up with.

A session follows the objects' log of its partition and, where its client has channels, the log of its domain's
channels (`channels_stream.py`). One machine moves both. A stream that is DUE waits for a page from the matcher. Once
the page is SENT, the client has to acknowledge it before the next one is asked for. After the last page the stream is
LIVE, and what is written to the log is passed on as it comes. In any other stage that is dropped, which loses nothing:
a page that is still to come contains it.

When the client's connection takes no more bytes, a LIVE stream is SLOW: nothing is sent and nothing is asked for until
the connection is drained; then it is DUE from where it stood.

`TABLE` says how the stages follow each other. Only the methods in this file change what the streams have in common.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import ClassVar

NONE = -1
"""A `complete` that says nothing: no offset is below it."""
OBJECTS = 0
CHANNELS = 1
"""The places of a session's streams."""
OBJECTS_LOG = 0
"""Names the objects' log of a partition. Logs of channels are named by their retention."""


class Stage(IntEnum):
    """The stages of a stream.

    The enums of the core's tables are IntEnums: a table is looked into ten times a wake, and an Enum's hash is Python.
    """

    DUE = auto()
    """A page is to come from the matcher."""
    SENT = auto()
    """The client is to acknowledge a page."""
    LIVE = auto()
    """The client has everything, and what comes is passed on."""
    SLOW = auto()
    """The connection is full. What comes is dropped; once drained, the client is caught up."""


class StreamEvent(IntEnum):
    """Events that move a stream from one stage to another."""

    BEGIN = auto()
    """A row of pages is asked for, or announced by the matcher."""
    PAGE = auto()
    """A page came, and others follow it."""
    LAST_PAGE = auto()
    """The last page came, or the matcher says that nothing is to come."""
    ACKNOWLEDGED = auto()
    """The client has the page; the next one is due."""
    BLOCKED = auto()
    """The connection is full at a moment that would make or leave the stream live, or ask for more."""


TABLE: dict[Stage, dict[StreamEvent, Stage]] = {
    Stage.DUE: {
        StreamEvent.BEGIN: Stage.DUE,
        StreamEvent.PAGE: Stage.SENT,
        StreamEvent.LAST_PAGE: Stage.LIVE,
        StreamEvent.BLOCKED: Stage.SLOW,
    },
    Stage.SENT: {StreamEvent.BEGIN: Stage.DUE, StreamEvent.ACKNOWLEDGED: Stage.DUE},
    Stage.LIVE: {StreamEvent.BEGIN: Stage.DUE, StreamEvent.BLOCKED: Stage.SLOW},
    Stage.SLOW: {StreamEvent.BEGIN: Stage.DUE, StreamEvent.BLOCKED: Stage.SLOW},
}
"""Any other transition raises KeyError."""
_UNDER_WAY = frozenset({Stage.DUE, Stage.SENT})


@dataclass(slots=True, eq=False)
class Stream:
    """One stream of one session."""

    place: ClassVar[int] = OBJECTS

    epoch: int | None = None
    """Of the log, as the matcher or the client has said it."""
    complete: int = NONE
    """The offset up to which the client may believe that it has everything, while the stream is not live."""
    acked: int = NONE
    """The offset up to which the client has applied everything."""
    stage: Stage = Stage.DUE
    number: int = 0
    """The number of the question that the row of pages answers."""
    page: int = 0
    """The page that is due or sent; 0: the row begins only with the matcher's Opened."""
    paging: int = 0
    """Names the row of pages that the last page came in; 0: none, or one that was cut off."""
    log: int | None = OBJECTS_LOG
    """The log's name; None: the matcher has not said it."""

    @property
    def live(self) -> bool:
        """True if what comes is passed on."""
        return self.stage is Stage.LIVE

    @property
    def slow(self) -> bool:
        """True if the connection is to be drained first."""
        return self.stage is Stage.SLOW

    @property
    def in_a_row(self) -> bool:
        """True if the client has at least one page of a row whose last page it has not."""
        return self.stage is Stage.SENT or (self.stage is Stage.DUE and self.page > 1)

    def begin_at(self, complete: int) -> None:
        """The client says how far it is."""
        self.complete = self.acked = complete

    def begin_epoch(self, epoch: int) -> None:
        """The log is another one: what the client has applied counts for nothing."""
        self.epoch, self.complete, self.acked = epoch, NONE, NONE

    def forget(self) -> None:
        """Everything is to come: what the client has says nothing of the rest."""
        self.complete = NONE

    def told(self, complete: int) -> None:
        """What was written lets the client believe that it is complete up to this offset."""
        self.complete = max(self.complete, complete)

    def applied(self, complete: int) -> bool:
        """The client has applied all up to this offset. Returns true if that is news."""
        if complete <= self.acked:
            return False
        self.acked = complete
        return True

    def begin(self, number: int, *, after_opened: bool = False) -> None:
        """A row of pages is asked for by this number. `after_opened`: its first page follows an Opened, and `open`."""
        if self.page and self.stage in _UNDER_WAY:
            self.paging = 0  # a row that is cut off counts for nothing
        self._move(StreamEvent.BEGIN)
        self.number, self.page = number, 0 if after_opened else 1

    def open(self) -> None:
        """The Opened has come: the first page is due."""
        self.page = 1

    def is_due(self, number: int, page: int) -> bool:
        """True if this is the page that is waited for."""
        return self.stage is Stage.DUE and page > 0 and (number, page) == (self.number, self.page)

    def is_on_its_way(self, number: int, page: int) -> bool:
        """True if this is the page that was sent and is not acknowledged."""
        return self.stage is Stage.SENT and (number, page) == (self.number, self.page)

    def arrived(self, complete: int, paging: int, *, last: bool, blocked: bool) -> None:
        """The page that was due has come; with it the client is complete up to `complete`."""
        self.told(complete)
        self.paging = paging
        if not last:
            self._move(StreamEvent.PAGE)
        else:
            self._move(StreamEvent.BLOCKED if blocked else StreamEvent.LAST_PAGE)

    def acknowledged(self) -> None:
        """The client has the page that was sent; the next one is due."""
        self._move(StreamEvent.ACKNOWLEDGED)
        self.page += 1

    def block(self) -> None:
        """The connection is full. A row of pages that is under way goes on all the same."""
        if self.stage is Stage.LIVE:
            self._move(StreamEvent.BLOCKED)

    def block_before_asking(self) -> None:
        """Pages are to be asked for, and the connection is full."""
        if self.stage in _UNDER_WAY:
            self.paging = 0
        self._move(StreamEvent.BLOCKED)

    def _move(self, event: StreamEvent) -> None:
        self.stage = TABLE[self.stage][event]
