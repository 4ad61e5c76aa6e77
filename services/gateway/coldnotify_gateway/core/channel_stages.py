"""A session's channels: how far its client is in the log of its domain's channels, and what it waits for.

They are a part of the session beside its objects, with asks and pages of their own: they may be live while objects are
caught up, and the other way round. A session whose client has no channels has none of this.

`TABLE` says how the stages follow each other. Everything that changes a session's channels is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

from coldnotify_schemas.internal_pb2 import RETENTION_UNSAID

from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX
from coldnotify_gateway.core.timers import NEVER_S

PAGE_S = 60.0
"""A page that does not come for so long is asked for again. What lies far behind is read in turns, which may take long.
"""


class Stage(IntEnum):
    """What is waited for."""

    DUE = auto()
    """A page is to come from the matcher."""
    SENT = auto()
    """The client is to acknowledge a page."""
    LIVE = auto()
    """Nothing: messages are passed on as they come."""
    SLOW = auto()
    """The connection is full. What comes is dropped; once drained, the client is caught up."""


class Event(IntEnum):
    """What moves one stage to another."""

    ASK = auto()
    """Open or CatchUpChannels, of a new number."""
    PAGE = auto()
    """A page came, and others follow it."""
    LAST_PAGE = auto()
    """A page came that is the last one, or the matcher says that there is nothing to come."""
    ACKNOWLEDGED = auto()
    """The client has the page; the next one is due."""
    BLOCKED = auto()
    """The connection is full at a moment that would make or leave them live."""


TABLE: dict[Stage, dict[Event, Stage]] = {
    Stage.DUE: {
        Event.ASK: Stage.DUE,
        Event.PAGE: Stage.SENT,
        Event.LAST_PAGE: Stage.LIVE,
        Event.BLOCKED: Stage.SLOW,
    },
    Stage.SENT: {Event.ASK: Stage.DUE, Event.ACKNOWLEDGED: Stage.DUE},
    Stage.LIVE: {Event.ASK: Stage.DUE, Event.BLOCKED: Stage.SLOW},
    Stage.SLOW: {Event.ASK: Stage.DUE, Event.BLOCKED: Stage.SLOW},
}
"""What is not in here does not happen: it raises KeyError."""


@dataclass(slots=True)
class Channels:
    """The channels of one session. Times are seconds of the core's clock."""

    epoch: int | None = None
    complete: int = NONE
    """What the client may believe while they are not live."""
    acked: int = NONE
    """What the client has applied."""
    _ack_lost: bool = False
    """The matcher may not know that."""
    retention: int = RETENTION_UNSAID
    """Which log they are in, as the matcher says."""
    stage: Stage = Stage.DUE
    number: int = 0
    """Of the last ask."""
    page: int = 1
    """The one that is due or sent."""
    paging: int = 0
    """Names the row of pages that the last one came in."""
    behind: bool = False
    """The client alone knows where some of them are: it has said so, and they are not caught up since."""
    registering: int | None = None
    """It has registered for some, which the matcher has not answered: in the Register of this number; 0: in its Hello
    or its set."""
    due_s: float = NEVER_S
    """When the page that is due is asked for again."""
    _times: int = 0

    @property
    def live(self) -> bool:
        """Messages are passed on as they come."""
        return self.stage is Stage.LIVE

    def begin_at(self, complete: int) -> None:
        """The client says how far it is."""
        self.complete = self.acked = complete

    def told(self, complete: int) -> None:
        """What was written lets the client believe that it is complete up to here."""
        self.complete = max(self.complete, complete)

    def applied(self, complete: int) -> bool:
        """The client says that it has applied all up to here. Whether that is news."""
        if complete <= self.acked:
            return False
        self.acked = complete
        return True

    def other_matcher(self) -> None:
        """Another one serves the session. Of which epoch the log is now, it says before they are live."""
        self._ack_lost = True

    def take_lost_ack(self) -> int | None:
        """What the client has applied, if the matcher may not know that; once."""
        lost, self._ack_lost = self._ack_lost, False
        return self.acked if lost and self.acked != NONE else None

    def said(self, register: int = 0) -> None:
        """The client registers for channels, or says where they are: in a Register of this number, or otherwise."""
        self.behind, self.registering = True, register

    def ask(self, now_s: float) -> None:
        """They are asked for anew, from `complete` on."""
        self._move(Event.ASK)
        self.number += 1
        self.page, self.paging = 1, 0
        self._expect(now_s)

    def expect_again(self, now_s: float) -> None:
        """The page that is due is asked for once more."""
        self._times += 1
        self._expect(now_s)

    def not_taken(self, ask: int, again_s: float) -> None:
        """Kafka did not take this question: if it is the one that waits, it is asked again then, or sooner."""
        if self.stage is Stage.DUE and ask == self.number:
            self.due_s = min(self.due_s, again_s)

    def begin_epoch(self, epoch: int) -> None:
        """What the client has applied is of another log, or it has no cursor yet.

        What it has missed of the other log is still to be told, and would not be after an announcement.
        """
        self.behind = self.behind or self.epoch is not None
        self.epoch, self.complete, self.acked = epoch, NONE, NONE

    def answered(self, retention: int, register: int = 0) -> None:
        """The matcher says which log they are in. It knows of Registers those up to this one."""
        self.retention = retention
        if self.registering is not None and register >= self.registering:
            self.registering = None

    def is_due(self, ask: int, page: int) -> bool:
        """Whether this is the page that is waited for."""
        return self.stage is Stage.DUE and (ask, page) == (self.number, self.page)

    def is_on_its_way(self, ask: int, page: int) -> bool:
        """Whether this is the page that was sent, and not acknowledged."""
        return self.stage is Stage.SENT and (ask, page) == (self.number, self.page)

    def arrived(self, complete: int, paging: int, *, last: bool, blocked: bool) -> None:
        """The page that was due."""
        self.complete = max(self.complete, complete)
        self.paging = paging
        self._times, self.due_s = 0, NEVER_S
        if not last:
            self._move(Event.PAGE)
            return
        self.behind = self.registering is not None
        self._move(Event.BLOCKED if blocked else Event.LAST_PAGE)

    def acknowledged(self, page: int, now_s: float) -> bool:
        """Whether this is the page that was sent: then the next one is due."""
        if self.stage is not Stage.SENT or page != self.page:
            return False
        self._move(Event.ACKNOWLEDGED)
        self.page += 1
        self._expect(now_s)
        return True

    def block(self) -> None:
        """The connection is full."""
        if self.stage is Stage.LIVE:
            self._move(Event.BLOCKED)

    def block_before_asking(self) -> None:
        """They are to be asked for, and the connection is full."""
        if self.stage is not Stage.SENT:
            self._move(Event.BLOCKED)
            self.due_s = NEVER_S

    def _expect(self, now_s: float) -> None:
        self.due_s = now_s + PAGE_S * 2 ** min(self._times, ASK_AGAIN_DOUBLINGS_MAX)

    def _move(self, event: Event) -> None:
        self.stage = TABLE[self.stage][event]
