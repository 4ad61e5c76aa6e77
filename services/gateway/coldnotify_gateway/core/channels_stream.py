"""The stream of a session's channels, with the fields and steps that other streams lack.

It has question numbers of its own, so it may be live while objects are caught up, and vice versa. Its timeout for a
page is longer, because the matcher reads distant offsets in turns. The log is known once the matcher has named it. A
session whose client has no channels has no such stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from coldnotify_schemas.wire_pb2 import INTEREST_CHANNEL, INTEREST_PATTERN, INTEREST_SHARE, Interest

from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX
from coldnotify_gateway.core.stream import CHANNELS, NONE, Stage, Stream
from coldnotify_gateway.core.timers import NEVER_S

PAGE_S = 60.0
"""A page that does not arrive within this time is requested again."""


def has_channels(interests: Iterable[Interest]) -> bool:
    """Returns true if at least one of these interests is a channel or a pattern."""
    return any(one.kind in (INTEREST_CHANNEL, INTEREST_PATTERN) for one in interests)


def has_shares(interests: Iterable[Interest]) -> bool:
    """Returns true if at least one of these interests is a share. What it hands out is in no stream."""
    return any(one.kind == INTEREST_SHARE for one in interests)


@dataclass(slots=True, eq=False)
class ChannelsStream(Stream):
    """The channels of one session. Times are seconds of the core's clock."""

    place: ClassVar[int] = CHANNELS

    log: int | None = None
    page: int = 1
    """The page that is due or sent. The first one may arrive without a request: after a set that contains channels."""
    behind: bool = False
    """True if only the client knows the positions of some channels: it has sent them, and they are not caught up
    yet."""
    registering: int | None = None
    """Number of the Register with channels that the matcher has not answered; 0: the channels came with the Hello or
    the set; None: no registration of channels is pending."""
    due_s: float = NEVER_S
    """Time at which the page that is due is requested again."""
    _times: int = 0
    """Number of repeated requests for the page."""
    _ack_lost: bool = False
    """True if the matcher may not know the client's acknowledged offset."""

    def other_matcher(self) -> None:
        """Notes a new matcher, which may not know the acknowledged offset. It sends the log's epoch before the stream
        is live."""
        self._ack_lost = True

    def take_lost_ack(self) -> int | None:
        """Returns, once, the client's acknowledged offset if the matcher may not know it."""
        lost, self._ack_lost = self._ack_lost, False
        return self.acked if lost and self.acked != NONE else None

    def said(self, register: int = 0) -> None:
        """Notes channels, or positions of channels, that the client has sent in the Register of this number; 0:
        elsewhere."""
        self.behind, self.registering = True, register

    def answered(self, log: int, register: int = 0) -> None:
        """Sets the channels' log, which the matcher has sent. It has handled all Registers up to this one."""
        self.log = log or None
        if self.registering is not None and register >= self.registering:
            self.registering = None

    def begin_epoch(self, epoch: int) -> None:
        """Switches to a new log, because the client's offsets belong to another one or the client has no cursor yet.

        A Missed for the other log is still pending, and would be lost after an announcement.
        """
        self.behind = self.behind or self.epoch is not None
        Stream.begin_epoch(self, epoch)

    def ask(self, now_s: float) -> None:
        """Begins a new row of pages, from `complete` on."""
        self.begin(self.number + 1, now_s)
        self._expect(now_s)

    def expect_again(self, now_s: float) -> None:
        """Restarts the timer of the page that is due, because it is requested again."""
        self._times += 1
        self._expect(now_s)

    def expect_next(self, now_s: float) -> None:
        """Makes the next page due, because the client has acknowledged the one that was sent."""
        self.acknowledged()
        self._expect(now_s)

    def not_taken(self, number: int, again_s: float) -> None:
        """Moves the timer to `again_s` or earlier if the stream waits for this question, which Kafka did not accept."""
        if self.stage is Stage.DUE and number == self.number:
            self.due_s = min(self.due_s, again_s)

    def arrived(self, complete: int, paging: int, *, last: bool, blocked: bool) -> None:
        """Handles the page that was due."""
        Stream.arrived(self, complete, paging, last=last, blocked=blocked)
        self._times, self.due_s = 0, NEVER_S
        if last:
            self.behind = self.registering is not None

    def block_before_asking(self) -> None:
        """Postpones a request for channels, because the connection is full. A page in transit is kept."""
        if self.stage is not Stage.SENT:
            Stream.block_before_asking(self)
            self.due_s = NEVER_S

    def _expect(self, now_s: float) -> None:
        self.due_s = now_s + PAGE_S * 2 ** min(self._times, ASK_AGAIN_DOUBLINGS_MAX)
