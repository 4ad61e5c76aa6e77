"""The gateway's view of one partition: its matcher's generation and record numbers, its position, sessions and beat."""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from coldnotify_gateway.core.dialects import DIALECTS
from coldnotify_gateway.core.freshness import Ages, Freshness
from coldnotify_gateway.core.outputs import Peer, Produce
from coldnotify_gateway.core.stream import NONE, OBJECTS, OBJECTS_LOG, Stream
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Dialect, Encode

_CHECKSUM_MODULUS = 1 << 64
NO_STREAMS: Mapping[int, int] = MappingProxyType({})
"""Positions from a matcher that follows the objects' log only."""
NO_AGES = Ages({})
"""The ages of a matcher that tells none."""
LEAVES_OWED_MAX = 100_000
"""More sessions than a gateway holds can end during an outage of Kafka only if clients constantly reconnect."""
_DISAGREEMENTS_BEFORE_ANNOUNCING = 2
"""A single disagreement may be a session that the matcher has closed and whose Closed is still in transit."""


class ViewedSession(Protocol):
    """The part of a session that its partition uses."""

    number: int
    peer: Peer
    dialect: Dialect

    def keep_complete(self) -> None:
        """Stores the client's completeness in its streams, because the partition's position is about to be
        discarded."""


S = TypeVar("S", bound=ViewedSession)


class PartitionView(Generic[S]):
    """This gateway's view of one partition of the requests topic."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.generation = 0
        self.number: int | None = 0
        """Number of the last record in this generation; None: unknown, so the next record is accepted with any
        number."""
        self._said_in_vain = False
        """A record of a lower generation was addressed to this gateway. Its matcher may have committed its content."""
        self.positions: dict[int | None, int] = {}
        """For each log, the offset up to which all sessions are complete whose stream of that log is live."""
        self._trusted = False
        """The present matcher has confirmed that it knows the same sessions. Only then does the position move."""
        self._said_offset = NONE
        self._said_complete = NONE

        self.sessions: dict[int, S] = {}
        self.checksum = 0
        self.live: dict[Dialect, dict[int, Peer]] = {dialect: {} for dialect in DIALECTS}
        """Connections of live sessions, by session number. A fan-out reads nothing else."""
        self.channels_live: dict[Encode, dict[int, S]] = {dialect.encode: {} for dialect in DIALECTS}
        """Sessions whose channels are live, by session number. Messages name no object, so dialects share them."""
        self.acks: tuple[dict[int, int], dict[int, int]] = {}, {}
        """For each stream's place, the sessions whose clients have acknowledged something, with the acknowledged
        offset."""

        self.leaves: deque[Produce] = deque(maxlen=LEAVES_OWED_MAX)
        """Leaves that Kafka did not accept. Without them the matcher would count ended sessions forever."""

        self.beat_due_s = NEVER_S
        self.unanswered_since_s = NEVER_S
        """Time at which the first unanswered Beat was sent."""
        self._beats = 0
        self.beats_handled = 0
        """Highest serial of a Beat that the present matcher has answered. It has handled everything before that
        Beat."""
        self._believed_from = 1
        """Serial number of the first Beat whose answer counts."""
        self._disagreements = 0
        self.freshness = Freshness()

    def add(self, session: S, now_s: float, beat_s: float) -> None:
        """Adds a session of this partition."""
        if not self.sessions:
            self.beat_due_s = now_s + beat_s
        self.sessions[session.number] = session
        self.checksum = (self.checksum + session.number) % _CHECKSUM_MODULUS

    def remove(self, session: S, now_s: float) -> None:
        """Removes an ended session. If it was the last one, a Beat is due at once to report that."""
        del self.sessions[session.number]
        self.checksum = (self.checksum - session.number) % _CHECKSUM_MODULUS
        for peers in self.live.values():
            peers.pop(session.number, None)
        for sessions in self.channels_live.values():
            sessions.pop(session.number, None)
        for acks in self.acks:
            acks.pop(session.number, None)
        if not self.sessions:
            self.beat_due_s = now_s

    def owe_leave(self, leave: Produce, now_s: float, beat_s: float) -> None:
        """Keeps a Leave that Kafka did not accept, and sends it again with the next Beat."""
        self.leaves.append(leave)
        self.beat_due_s = min(self.beat_due_s, now_s + beat_s)

    @property
    def position(self) -> int:
        """Returns the offset up to which all sessions are complete whose objects are live."""
        return self.positions.get(OBJECTS_LOG, NONE)

    def position_in(self, stream: Stream) -> int:
        """Returns the offset up to which all sessions are complete whose stream of this log is live."""
        return self.positions.get(stream.log, NONE)

    def as_of(self, stream: Stream, domain: str) -> float:
        """Returns the time before which everything acknowledged has been told to the domain's sessions whose stream of
        this log is live."""
        return self.freshness.as_of(stream.log, domain, objects=stream.place == OBJECTS)

    def enter_live(self, session: S, stream: Stream) -> None:
        """Starts writing fan-outs of the stream to the session's connection."""
        self.leave_live(session.number, stream)
        if stream.place != OBJECTS:
            self.channels_live[session.dialect.encode][session.number] = session
        else:
            self.live[session.dialect][session.number] = session.peer

    def leave_live(self, number: int, stream: Stream) -> None:
        """Stops writing fan-outs of the stream to the session's connection."""
        if stream.place != OBJECTS:
            for sessions in self.channels_live.values():
                sessions.pop(number, None)
        else:
            for peers in self.live.values():
                peers.pop(number, None)

    def begin_generation(self, generation: int, now_s: float) -> None:
        """Begins the generation of a new matcher: record numbers restart, and a Beat asks it at once for its
        sessions."""
        self.generation = generation
        self.number = 0
        for session in self.sessions.values():
            session.keep_complete()
        # The new matcher's offsets may belong to another epoch: sessions must not inherit the old positions.
        self.positions.clear()
        self.freshness.forget()
        self._distrust()
        # The new matcher also answers Beats that its predecessor had not committed: they predate some of the sessions.
        self._believed_from = self._beats + 1
        self.beats_handled = 0
        self._disagreements = 0
        if self.sessions:
            self.beat_due_s = now_s

    def take_number(self, number: int) -> bool:
        """Notes the number of a record of the present generation. Returns false if records before it are lost.

        A number that is too low means a loss, too: the matcher had forgotten this gateway and its pending records.
        """
        last, self.number = self.number, number
        return last is None or number == last + 1

    def lost_number(self) -> None:
        """Notes that an unknown number of records is lost."""
        self.number = None

    def speaks_in_vain(self) -> None:
        """Notes that a record of a lower generation was addressed to this gateway."""
        self._said_in_vain = True

    def take_said_in_vain(self) -> bool:
        """Returns true, once, if such a record arrived. The present matcher repeats none of its content."""
        said, self._said_in_vain = self._said_in_vain, False
        return said

    def fanned_out(self, offset: int, complete: int) -> None:
        """Notes the `complete` of a FanOut of the publish at `offset`.

        A fan-out to many sessions arrives in several parts of the same offset, and the sessions of a later part do not
        have it yet. So its `complete` becomes the position only when a later offset follows.
        """
        if not self._trusted:
            return
        if offset != self._said_offset:
            self._reached(OBJECTS_LOG, self._said_complete)
        self._said_offset, self._said_complete = offset, complete

    def unheard(self, now_s: float, *, stopped: bool) -> None:
        """Handles a long silence: the matcher may have declared this gateway dead and its sessions offline. Asks at
        once.

        stopped: the gateway itself stood still, so answers that wait to be read may predate the silence.
        """
        if stopped or self._trusted:
            self._believed_from = self._beats + 1
        self.freshness.forget()
        self._distrust()
        # The next answer that disagrees makes the gateway announce its sessions.
        self._disagreements = _DISAGREEMENTS_BEFORE_ANNOUNCING - 1
        if self.sessions and self.unanswered_since_s == NEVER_S:
            self.beat_due_s = now_s

    @property
    def beats(self) -> int:
        """Returns the serial number of the latest Beat."""
        return self._beats

    def next_beat(self) -> int:
        """Returns the serial number of the next Beat, which is sent now."""
        self._beats += 1
        return self._beats

    def beat_sent(self, now_s: float, beat_s: float) -> None:
        """Notes that a Beat was sent. The next one is due later, or never if the partition has no sessions."""
        self.freshness.sent(self._beats, now_s)
        self.beat_due_s = now_s + beat_s if self.sessions else NEVER_S
        self.unanswered_since_s = min(self.unanswered_since_s, now_s) if self.sessions else NEVER_S

    def beat_answered(
        self,
        serial: int,
        *,
        agreed: bool,
        complete: int,
        streams: Mapping[int, int] = NO_STREAMS,
        ages: Ages = NO_AGES,
    ) -> bool:
        """Handles a BeatAnswer of a matcher whose position is `complete`. Returns true if the sessions must be
        announced, because the matcher has forgotten some of them.

        `streams`: its position in each other log.
        """
        self.beats_handled = max(self.beats_handled, min(serial, self._beats))
        if serial < self._believed_from:
            return False
        self.unanswered_since_s = NEVER_S
        if agreed:
            self._trusted = True
            self._disagreements = 0
            self._reached(OBJECTS_LOG, complete)
            for log, at in streams.items():
                self._reached(log, at)
            self.freshness.answered(serial, ages, OBJECTS_LOG)
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
        # The matcher may not know some of the sessions that are live here: its positions are not valid for them.
        self._trusted = False
        self._said_offset = self._said_complete = NONE
