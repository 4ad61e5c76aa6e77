"""A stream: a log that a session follows, its client's position in it, and the row of pages that catches it up.

A session follows the objects' log of its partition and, if its client has channels, the log of its domain's channels
(`channels_stream.py`). One state machine moves both. A stream that is DUE waits for a page from the matcher. Once the
page is SENT, the client has to acknowledge it before the next one is requested. After the last page the stream is LIVE,
and new records of the log are forwarded as they arrive. In any other stage they are dropped, which loses nothing,
because a later page contains them.

When the client's connection accepts no more bytes, a LIVE stream becomes SLOW: nothing is sent and nothing is requested
until the connection is drained. Then it is DUE from its last position.

`TABLE` lists the transitions between stages. Only the methods in this file change the fields that streams share.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import ClassVar

from coldnotify_gateway.core.freshness import UNKNOWN_S

NONE = -1
"""An unknown `complete`. It is lower than any offset."""
OBJECTS = 0
CHANNELS = 1
"""The indexes of a session's streams."""
OBJECTS_LOG = 0
"""Name of a partition's objects' log. Channel logs are named by their retention."""


class Stage(IntEnum):
    """The stages of a stream.

    The enums of the core's tables are IntEnums, because each wake reads a table ten times and Enum hashes in Python.
    """

    DUE = auto()
    """The stream waits for a page from the matcher."""
    SENT = auto()
    """The stream waits for the client to acknowledge a page."""
    LIVE = auto()
    """The client has everything, and new records are forwarded."""
    SLOW = auto()
    """The connection is full. New records are dropped; once it is drained, the client is caught up."""


class StreamEvent(IntEnum):
    """Events that move a stream from one stage to another."""

    BEGIN = auto()
    """A row of pages is requested, or announced by the matcher."""
    PAGE = auto()
    """A page arrived, and others follow it."""
    LAST_PAGE = auto()
    """The last page arrived, or the matcher reported that none follows."""
    ACKNOWLEDGED = auto()
    """The client has the page; the next one is due."""
    BLOCKED = auto()
    """The connection is full at a moment that would make the stream live, keep it live, or request pages."""


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


def or_none(complete: int) -> int | None:
    """Returns None for an unknown `complete`: a message leaves it out."""
    return None if complete == NONE else complete


@dataclass(slots=True, eq=False)
class Stream:
    """One stream of one session."""

    place: ClassVar[int] = OBJECTS

    epoch: int | None = None
    """Epoch of the log, from the matcher or the client."""
    complete: int = NONE
    """Offset up to which the client has everything, while the stream is not live."""
    acked: int = NONE
    """Offset up to which the client has applied everything."""
    stage: Stage = Stage.DUE
    number: int = 0
    """Number of the question that the row of pages answers."""
    page: int = 0
    """Number of the page that is due or sent; 0: the row begins only after the matcher's Opened."""
    paging: int = 0
    """Identifies the row that contained the last page; 0: none, or a row that was cut off."""
    log: int | None = OBJECTS_LOG
    """The log's name; None: the matcher has not sent it."""
    as_of_s: float = UNKNOWN_S
    """Everything acknowledged before that time was told when the stream was live last."""
    asked_s: float = UNKNOWN_S
    """Time at which the row of pages was requested. The matcher answers with all that was acknowledged before."""

    @property
    def live(self) -> bool:
        """Returns true if new records are forwarded."""
        return self.stage is Stage.LIVE

    @property
    def slow(self) -> bool:
        """Returns true if the connection must be drained first."""
        return self.stage is Stage.SLOW

    @property
    def in_a_row(self) -> bool:
        """Returns true if the client has at least one page of a row, but not the last page."""
        return self.stage is Stage.SENT or (self.stage is Stage.DUE and self.page > 1)

    def begin_at(self, complete: int) -> None:
        """Sets the position that the client has sent."""
        self.complete = self.acked = complete

    def begin_epoch(self, epoch: int) -> None:
        """Switches to a new log, and discards the client's position, which belongs to the old one."""
        self.epoch, self.complete, self.acked = epoch, NONE, NONE

    def forget(self) -> None:
        """Discards `complete`, because the client is sent everything again."""
        self.complete = NONE

    def told(self, complete: int) -> None:
        """Notes that the written frames make the client complete up to this offset."""
        self.complete = max(self.complete, complete)

    def applied(self, complete: int) -> bool:
        """Notes that the client has applied everything up to this offset. Returns true if the offset is new."""
        if complete <= self.acked:
            return False
        self.acked = complete
        return True

    def fresh(self, as_of_s: float) -> None:
        """Notes that everything acknowledged before that time has been told."""
        self.as_of_s = max(self.as_of_s, as_of_s)

    def begin(self, number: int, now_s: float, *, after_opened: bool = False) -> None:
        """Begins the row of pages that this question requests. `after_opened`: its first page follows an Opened, and
        `open`."""
        if self.page and self.stage in _UNDER_WAY:
            self.paging = 0  # a row that is cut off does not count
        self._move(StreamEvent.BEGIN)
        self.number, self.page, self.asked_s = number, 0 if after_opened else 1, now_s

    def open(self) -> None:
        """Makes the first page due, because the Opened has arrived."""
        self.page = 1

    def is_due(self, number: int, page: int) -> bool:
        """Returns true if the stream waits for this page."""
        return self.stage is Stage.DUE and page > 0 and (number, page) == (self.number, self.page)

    def is_on_its_way(self, number: int, page: int) -> bool:
        """Returns true if this page was sent and is not acknowledged yet."""
        return self.stage is Stage.SENT and (number, page) == (self.number, self.page)

    def arrived(self, complete: int, paging: int, *, last: bool, blocked: bool) -> None:
        """Handles the page that was due. It makes the client complete up to `complete`."""
        self.told(complete)
        self.paging = paging
        if last:
            self.fresh(self.asked_s)
        if not last:
            self._move(StreamEvent.PAGE)
        else:
            self._move(StreamEvent.BLOCKED if blocked else StreamEvent.LAST_PAGE)

    def acknowledged(self) -> None:
        """Makes the next page due, because the client has acknowledged the one that was sent."""
        self._move(StreamEvent.ACKNOWLEDGED)
        self.page += 1

    def block(self) -> None:
        """Makes a live stream slow, because the connection is full. A row of pages that has begun continues."""
        if self.stage is Stage.LIVE:
            self._move(StreamEvent.BLOCKED)

    def block_before_asking(self) -> None:
        """Postpones a request for pages, because the connection is full."""
        if self.stage in _UNDER_WAY:
            self.paging = 0
        self._move(StreamEvent.BLOCKED)

    def _move(self, event: StreamEvent) -> None:
        self.stage = TABLE[self.stage][event]
