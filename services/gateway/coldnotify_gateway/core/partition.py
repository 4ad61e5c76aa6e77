"""What the gateway knows of one partition: its matcher's generation and numbers, its position, sessions and beat."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.outputs import Peer

if TYPE_CHECKING:
    from coldnotify_gateway.core.identified import Identified

_CHECKSUM_MODULUS = 1 << 64
_DISAGREEMENTS_BEFORE_ANNOUNCING = 2
"""One may be a session that the matcher has closed and whose Closed is still under way."""


class Numbering(Enum):
    """What an inbox record's number says."""

    NEXT = auto()
    GAP = auto()
    """Records before it are lost."""
    REPEATED = auto()
    """It was here before."""


class PartitionView:
    """One of requests' partitions as this gateway sees it."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.generation = 0
        self.number: int | None = 0
        """Of the last record in this generation; None: unknown, the next one is taken as it is."""
        self.position = NONE
        """All live sessions are complete up to here."""
        self._said_offset = NONE
        self._said_complete = NONE

        self.sessions: dict[int, Identified] = {}
        self.checksum = 0
        self.live: dict[int, Peer] = {}
        """The connections of live sessions that take CRC-32s: all that a fan-out needs to look at."""
        self.live_names: dict[int, Peer] = {}
        self.acks: dict[int, int] = {}

        self.beat_due_s = float("inf")
        self.unanswered_since_s = float("inf")
        """When the first Beat that no BeatAnswer followed was sent."""
        self._disagreements = 0

    def add(self, session: Identified, now_s: float, beat_s: float) -> None:
        """A session of this partition begins."""
        if not self.sessions:
            self.beat_due_s = now_s + beat_s
        self.sessions[session.number] = session
        self.checksum = (self.checksum + session.number) % _CHECKSUM_MODULUS

    def remove(self, session: Identified, now_s: float) -> None:
        """It ends. When it was the last one, one more Beat is due at once, to say so."""
        del self.sessions[session.number]
        self.checksum = (self.checksum - session.number) % _CHECKSUM_MODULUS
        self.leave_live(session.number)
        self.acks.pop(session.number, None)
        if not self.sessions:
            self.beat_due_s = now_s

    def enter_live(self, number: int, peer: Peer, *, names: bool) -> None:
        """From here on fan-outs are written to this connection."""
        self.leave_live(number)
        (self.live_names if names else self.live)[number] = peer

    def leave_live(self, number: int) -> None:
        """No fan-outs any more."""
        self.live.pop(number, None)
        self.live_names.pop(number, None)

    def begin_generation(self, generation: int) -> None:
        """Another matcher owns the partition: its numbers begin anew."""
        self.generation = generation
        self.number = 0
        # Parts of a fan-out that the old matcher did not get out are the new one's to send.
        self._said_offset = self._said_complete = NONE
        self._disagreements = 0

    def take_number(self, number: int) -> Numbering:
        """Takes note of the number of a record of the present generation."""
        last, self.number = self.number, number
        if last is None or number == last + 1:
            return Numbering.NEXT
        if number > last:
            return Numbering.GAP
        self.number = last
        return Numbering.REPEATED

    def fanned_out(self, offset: int, complete: int) -> None:
        """A FanOut of the publish at `offset` said `complete`.

        A fan-out to many sessions comes in several parts of the same offset, and those of a later part have not got it
        yet: so what it says becomes the position only when something later follows.
        """
        if offset != self._said_offset:
            self.position = max(self.position, self._said_complete)
        self._said_offset, self._said_complete = offset, complete

    def beat_sent(self, now_s: float, beat_s: float) -> None:
        """A Beat goes out; the next one is due later, or never if there is nobody."""
        self.beat_due_s = now_s + beat_s if self.sessions else float("inf")
        self.unanswered_since_s = min(self.unanswered_since_s, now_s) if self.sessions else float("inf")

    def beat_answered(self, *, agreed: bool, complete: int) -> bool:
        """The matcher is there and stands at `complete`. True: it has lost sight of sessions, they are to be announced."""
        self.unanswered_since_s = float("inf")
        self.position = max(self.position, complete)
        self._disagreements = 0 if agreed else self._disagreements + 1
        if self._disagreements < _DISAGREEMENTS_BEFORE_ANNOUNCING:
            return False
        self._disagreements = 0
        return bool(self.sessions)
