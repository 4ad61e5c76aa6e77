"""What the gateway knows of one partition: its matcher's generation and numbers, its position, sessions and beat."""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from coldnotify_gateway.core.outputs import Peer, Produce
from coldnotify_gateway.core.stream import NONE, OBJECTS, OBJECTS_LOG, Stream
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Dialect

_CHECKSUM_MODULUS = 1 << 64
NO_CHANNELS: Mapping[int, int] = MappingProxyType({})
"""What a matcher says that follows no log of channels."""
LEAVES_OWED_MAX = 100_000
"""More sessions than a gateway holds end while Kafka is away only if clients come and go all the time."""
_DISAGREEMENTS_BEFORE_ANNOUNCING = 2
"""One may be a session that the matcher has closed and whose Closed is still under way."""


class ViewedSession(Protocol):
    """What a partition needs to know of a session."""

    number: int
    peer: Peer
    dialect: Dialect

    def keep_complete(self) -> None:
        """The partition's position will not hold any more; what the client may believe does."""


S = TypeVar("S", bound=ViewedSession)


class PartitionView(Generic[S]):
    """One of requests' partitions as this gateway sees it."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.generation = 0
        self.number: int | None = 0
        """Of the last record in this generation; None: unknown, the next one is taken as it is."""
        self._said_in_vain = False
        """A record of a lower generation was for this gateway. Its matcher may have committed what it said there."""
        self.positions: dict[int | None, int] = {}
        """By log: all sessions whose stream of it is live are complete up to here."""
        self._trusted = False
        """The present matcher has agreed that it knows the same sessions. Only then the position moves."""
        self._said_offset = NONE
        self._said_complete = NONE

        self.sessions: dict[int, S] = {}
        self.checksum = 0
        self.live: dict[Dialect, dict[int, Peer]] = {dialect: {} for dialect in Dialect}
        """The connections of live sessions, by their numbers: all that a fan-out needs to look at."""
        self.channels_live: dict[int, S] = {}
        """Sessions whose channels are live."""
        self.acks: tuple[dict[int, int], dict[int, int]] = {}, {}
        """By the stream's place: sessions whose clients have acknowledged something, and up to which offset."""

        self.leaves: deque[Produce] = deque(maxlen=LEAVES_OWED_MAX)
        """Leaves that Kafka did not take. Without them the matcher would count sessions that are gone for ever."""

        self.beat_due_s = NEVER_S
        self.unanswered_since_s = NEVER_S
        """When the first Beat that no BeatAnswer followed was sent."""
        self._beats = 0
        self.beats_handled = 0
        """The highest serial of a Beat that the present matcher has answered: it has handled what came before that."""
        self._believed_from = 1
        """Serial of the first Beat whose answer counts."""
        self._disagreements = 0

    def add(self, session: S, now_s: float, beat_s: float) -> None:
        """A session of this partition begins."""
        if not self.sessions:
            self.beat_due_s = now_s + beat_s
        self.sessions[session.number] = session
        self.checksum = (self.checksum + session.number) % _CHECKSUM_MODULUS

    def remove(self, session: S, now_s: float) -> None:
        """It ends. When it was the last one, one more Beat is due at once, to say so."""
        del self.sessions[session.number]
        self.checksum = (self.checksum - session.number) % _CHECKSUM_MODULUS
        for live in self.live.values():
            live.pop(session.number, None)
        self.channels_live.pop(session.number, None)
        for acks in self.acks:
            acks.pop(session.number, None)
        if not self.sessions:
            self.beat_due_s = now_s

    def owe_leave(self, leave: Produce, now_s: float, beat_s: float) -> None:
        """A Leave was not taken: it goes out again with the next Beat."""
        self.leaves.append(leave)
        self.beat_due_s = min(self.beat_due_s, now_s + beat_s)

    @property
    def position(self) -> int:
        """All sessions whose objects are live are complete up to here."""
        return self.positions.get(OBJECTS_LOG, NONE)

    def position_in(self, stream: Stream) -> int:
        """All sessions are complete up to here whose stream of this log is live."""
        return self.positions.get(stream.log, NONE)

    def enter_live(self, session: S, stream: Stream) -> None:
        """From here on fan-outs of the stream are written to the session's connection."""
        self.leave_live(session.number, stream)
        if stream.place != OBJECTS:
            self.channels_live[session.number] = session
        else:
            self.live[session.dialect][session.number] = session.peer

    def leave_live(self, number: int, stream: Stream) -> None:
        """Fan-outs of the stream are not written any more."""
        if stream.place != OBJECTS:
            self.channels_live.pop(number, None)
        else:
            for live in self.live.values():
                live.pop(number, None)

    def begin_generation(self, generation: int, now_s: float) -> None:
        """Another matcher owns the partition: its numbers begin anew, and it is asked at once whether it knows us."""
        self.generation = generation
        self.number = 0
        for session in self.sessions.values():
            session.keep_complete()
        # What the new matcher says may be of another epoch, and those that come to it must not be taken to be as far
        # as those of the old one were.
        self.positions.clear()
        self._distrust()
        # The new matcher also answers what its predecessor had not committed: Beats from before some of the sessions.
        self._believed_from = self._beats + 1
        self.beats_handled = 0
        self._disagreements = 0
        if self.sessions:
            self.beat_due_s = now_s

    def take_number(self, number: int) -> bool:
        """Takes note of the number of a record of the present generation. False: records before it are lost.

        A number that is too low is a loss, too: the matcher had forgotten this gateway, and what it had to say.
        """
        last, self.number = self.number, number
        return last is None or number == last + 1

    def lost_number(self) -> None:
        """Records of an unknown number are lost."""
        self.number = None

    def speaks_in_vain(self) -> None:
        """A record of a lower generation was for this gateway."""
        self._said_in_vain = True

    def take_said_in_vain(self) -> bool:
        """Whether there was such a record, of which the present matcher repeats nothing."""
        said, self._said_in_vain = self._said_in_vain, False
        return said

    def fanned_out(self, offset: int, complete: int) -> None:
        """A FanOut of the publish at `offset` said `complete`.

        A fan-out to many sessions comes in several parts of the same offset, and those of a later part have not got it
        yet: so what it says becomes the position only when something later follows.
        """
        if not self._trusted:
            return
        if offset != self._said_offset:
            self._reached(OBJECTS_LOG, self._said_complete)
        self._said_offset, self._said_complete = offset, complete

    def unheard(self, now_s: float, *, stopped: bool) -> None:
        """The matcher may have taken this gateway for dead and its sessions for offline. It is asked at once.

        stopped: the gateway itself stood still, and answers that wait to be read may be from before.
        """
        if stopped or self._trusted:
            self._believed_from = self._beats + 1
        self._distrust()
        # One answer more that does not agree, and the sessions are announced.
        self._disagreements = _DISAGREEMENTS_BEFORE_ANNOUNCING - 1
        if self.sessions and self.unanswered_since_s == NEVER_S:
            self.beat_due_s = now_s

    @property
    def beats(self) -> int:
        """The serial of the latest Beat."""
        return self._beats

    def next_beat(self) -> int:
        """The serial of the Beat that goes out now."""
        self._beats += 1
        return self._beats

    def beat_sent(self, now_s: float, beat_s: float) -> None:
        """A Beat goes out; the next one is due later, or never if there is nobody."""
        self.beat_due_s = now_s + beat_s if self.sessions else NEVER_S
        self.unanswered_since_s = min(self.unanswered_since_s, now_s) if self.sessions else NEVER_S

    def beat_answered(
        self, serial: int, *, agreed: bool, complete: int, channels: Mapping[int, int] = NO_CHANNELS
    ) -> bool:
        """The matcher is there and stands at `complete`. True: it has lost sight of sessions, announce them.

        `channels`: by retention, where it stands in that log.
        """
        self.beats_handled = max(self.beats_handled, min(serial, self._beats))
        if serial < self._believed_from:
            return False
        self.unanswered_since_s = NEVER_S
        if agreed:
            self._trusted = True
            self._disagreements = 0
            self._reached(OBJECTS_LOG, complete)
            for retention, at in channels.items():
                self._reached(retention, at)
            return False
        self._distrust()
        self._disagreements += 1
        if self._disagreements < _DISAGREEMENTS_BEFORE_ANNOUNCING:
            return False
        self._disagreements = 0
        return bool(self.sessions)

    def _reached(self, log: int, complete: int) -> None:
        self.positions[log] = max(self.positions.get(log, NONE), complete)

    def _distrust(self) -> None:
        # The matcher may not know some of the sessions that are live here: what it says to others is not true of them.
        self._trusted = False
        self._said_offset = self._said_complete = NONE
