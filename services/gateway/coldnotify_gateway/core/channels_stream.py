"""The stream of a session's channels: what it has beside what every stream has.

It is asked for by numbers of its own, so it may be live while objects are caught up, and the other way round. A page is
waited for longer, since what lies far behind is read in turns. The log is known once the matcher has named it. A
session whose client has no channels has no such stream.
"""

from dataclasses import dataclass
from typing import ClassVar

from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX
from coldnotify_gateway.core.stream import CHANNELS, NONE, Stage, Stream
from coldnotify_gateway.core.timers import NEVER_S

PAGE_S = 60.0
"""A page that does not come for so long is asked for again."""


@dataclass(slots=True, eq=False)
class ChannelsStream(Stream):
    """The channels of one session. Times are seconds of the core's clock."""

    place: ClassVar[int] = CHANNELS

    log: int | None = None
    page: int = 1
    """The page that is due or sent. The first one may come unasked: behind a set that has channels."""
    behind: bool = False
    """The client alone knows where some of the channels are: it has said so, and they are not caught up since."""
    registering: int | None = None
    """The client has registered for channels, which the matcher has not answered: in the Register of this number; 0:
    in its Hello or its set."""
    due_s: float = NEVER_S
    """When the page that is due is asked for again."""
    _times: int = 0
    """How often it was asked for again."""
    _ack_lost: bool = False
    """The matcher may not know what the client has applied."""

    def other_matcher(self) -> None:
        """Another matcher serves the session. It says which epoch the log is of before the stream is live."""
        self._ack_lost = True

    def take_lost_ack(self) -> int | None:
        """Returns once what the client has applied, if the matcher may not know that."""
        lost, self._ack_lost = self._ack_lost, False
        return self.acked if lost and self.acked != NONE else None

    def said(self, register: int = 0) -> None:
        """The client registers for channels, or says where they are: in a Register of this number, or otherwise."""
        self.behind, self.registering = True, register

    def answered(self, retention: int, register: int = 0) -> None:
        """The matcher says which log they are in. It knows of Registers those up to this one."""
        self.log = retention or None
        if self.registering is not None and register >= self.registering:
            self.registering = None

    def begin_epoch(self, epoch: int) -> None:
        """What the client has applied is of another log, or it has no cursor yet.

        What it has missed of the other log is still to be told, and would not be after an announcement.
        """
        self.behind = self.behind or self.epoch is not None
        Stream.begin_epoch(self, epoch)

    def ask(self, now_s: float) -> None:
        """Channels are asked for anew, from `complete` on."""
        self.begin(self.number + 1)
        self._expect(now_s)

    def expect_again(self, now_s: float) -> None:
        """The page that is due is asked for once more."""
        self._times += 1
        self._expect(now_s)

    def expect_next(self, now_s: float) -> None:
        """The client has the page that was sent; the next one is due."""
        self.acknowledged()
        self._expect(now_s)

    def not_taken(self, number: int, again_s: float) -> None:
        """Kafka did not take this question: if it is the one that waits, it is asked again then, or sooner."""
        if self.stage is Stage.DUE and number == self.number:
            self.due_s = min(self.due_s, again_s)

    def arrived(self, complete: int, paging: int, *, last: bool, blocked: bool) -> None:
        """The page that was due has come."""
        Stream.arrived(self, complete, paging, last=last, blocked=blocked)
        self._times, self.due_s = 0, NEVER_S
        if last:
            self.behind = self.registering is not None

    def block_before_asking(self) -> None:
        """Channels are to be asked for, and the connection is full. A page that is under way goes on."""
        if self.stage is not Stage.SENT:
            Stream.block_before_asking(self)
            self.due_s = NEVER_S

    def _expect(self, now_s: float) -> None:
        self.due_s = now_s + PAGE_S * 2 ** min(self._times, ASK_AGAIN_DOUBLINGS_MAX)
