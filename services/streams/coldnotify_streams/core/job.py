"""What a stateful job must be able to do: `Job` makes partitions, `JobPartition` holds the state of one.

A job has two inputs, or more. *Requests* are shared out by a consumer group, whose member also owns the state of the
partition; they are handled from where the group has committed them. The *table* is compacted, loaded from its
beginning, and then followed. *Logs* are not compacted: they are read on from where the group has committed them, and
parts of them that lie further back, *blocks*, are read beside that, as the job wants them. The job's own *state* topics
are compacted, too. All of them have the same number of partitions.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from coldnotify_streams.core.events import Block, Record, Takeover, UnreadableOffsets
from coldnotify_streams.core.partition_turns import Spent, never

EPOCH_MARK = "/"
"""Between a topic's id and an epoch, in what offsets are committed with (`Job.marks`)."""
NOT_UNDERSTOOD = "not_understood"
"""Why a record is set aside: its parser says what is wrong with it."""
RAISED = "raised"
"""Why a record is set aside: whatever handled it raised an exception."""

Place = tuple[str, int]
"""(topic, offset) of a record."""
At = Place | str | None
"""A record; a piece of stored state, by the job's name of it; None: no single one of them."""


class Topics(NamedTuple):
    """The topics of a job, by what they are to it."""

    requests: str
    table: str
    state: tuple[str, ...]
    logs: tuple[str, ...] = ()
    logs_before: int = 0
    """So many offsets of a log before those that are to be handled are read first."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Those of which offsets are committed."""
        return (self.requests, self.table, *self.logs)

    @property
    def compacted(self) -> tuple[str, ...]:
        """What a partition is loaded from."""
        return (self.table, *self.state)


class Phase(Enum):
    """How far a partition is."""

    FOLLOWING = "following"
    """Another member's: what it writes is read, for the case that it goes."""
    LOADING = "loading"
    """Reading the compacted topics up to where they ended at the start."""
    CLAIMING = "claiming"
    """The next generation is written; what stands before it in the log still counts."""
    OWNED = "owned"


class Produced(Protocol):
    """One record to produce."""

    @property
    def topic(self) -> str:
        """Where to."""

    @property
    def partition(self) -> int | None:
        """None: any."""

    @property
    def key(self) -> bytes | None:
        """The record's."""

    @property
    def value(self) -> bytes | None:
        """None: a tombstone."""

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The record's."""

    @property
    def timestamp_ms(self) -> int | None:
        """None: the producer's time."""


class Refused(NamedTuple):
    """A record that Kafka does not take, however often it is written."""

    topic: str
    partition: int
    value: bytes | None
    error: str


class Outputs(NamedTuple):
    """What one step of a partition leads to, in the order in which it must become durable."""

    state: Sequence[Produced]
    """First."""
    rest: Sequence[Produced]
    """What promises `state`, or rests on it."""


class LogBounds(NamedTuple):
    """Of one log, as of a time after a partition's claim came back."""

    start: int
    """The offset from which it is to be handled: up to there a predecessor did, or retention has removed all."""
    log_start: int
    """Where it begins."""
    end: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets that the next records of a partition's inputs will get, as of a time after its claim came back."""

    requests: int
    table: int
    logs: Mapping[str, LogBounds] = field(default_factory=dict)


@dataclass(slots=True)
class PendingRequests:
    """Requests that wait until the table, and logs, have been read as far as they went when they came."""

    barriers: Mapping[str, int]
    """By topic."""
    requests: list[tuple[int, Any]] = field(default_factory=list)
    """(offset, request)."""
    seen_waiting_s: float | None = None
    """When a step found first that they wait, or that the reader had come further since."""
    seen_at: int = 0
    """How far the topics that they wait for were read then."""


class Unread:
    """Records of one partition that wait for its turn, in order."""

    def __init__(self) -> None:
        self.records: deque[Record | UnreadableOffsets] = deque()
        self.size_bytes = 0
        """Of their values."""
        self.held_back = False
        """There are so many that the readers leave the others in Kafka."""

    def add(self, record: Record | UnreadableOffsets) -> None:
        """One more, or what nobody can read in front of the next one."""
        self.records.append(record)
        self.size_bytes += _size_bytes(record)

    def remove_first(self) -> None:
        """The first one is read."""
        self.size_bytes -= _size_bytes(self.records.popleft())


def _size_bytes(record: Record | UnreadableOffsets) -> int:
    return len(record.value or b"") if isinstance(record, Record) else 0


class JobPartition(ABC):
    """One partition on its way to being served: what `Run` needs to know of it, and what the job does with it.

    It begins while another member serves it (FOLLOWING); what is read then has no outputs. With `load` it is this
    member's to take over. What the predecessor may not have finished stands at or above the offset of the table that it
    committed, which is known at the assignment only: from there on the table is read once more.
    """

    def __init__(self, number: int, topics: Topics) -> None:
        self.number = number
        self.topics = topics
        self.phase = Phase.FOLLOWING
        self.warm = False
        """It was followed before it was assigned."""
        self.takeover: Takeover | None = None
        """From where it is handled on; None: it is not this member's."""
        self.requests_position: int | None = None
        """The next offset of the requests topic; None: nothing read yet."""
        self.pending: deque[PendingRequests] = deque()
        self.held_back = False
        """So many requests are pending that the reader leaves the others in Kafka."""
        self.turn: Spent = never
        """Whether its present turn is over: what is left then waits for the next one."""
        self.unread = Unread()
        """Records that were handed on, and that no turn has come to so far."""
        self.reading = False
        """What comes of the compacted topics is of this assignment, not of an earlier one."""
        self.requests_reading = True
        """What comes of the requests topic is of this load, not of an earlier one."""
        self.logs_from: Mapping[str, int] = {}
        """By log, the offset from which it was to be read."""
        self.logs_reading = False
        """What comes of the logs is of this assignment, not of an earlier one."""
        self.positions: dict[str, int] = {}
        """By compacted topic, and by log once it is read, the offset up to which it has been read."""
        self.behind: set[str] = set(topics.compacted)
        """The compacted topics of which the reader has not been at the end so far."""
        self._ends: dict[str, int] = {}
        """By compacted topic that is not read so far: the offset up to which it is, before a generation is claimed."""

    def can_load_on(self, starts: Mapping[str, int], ends: Mapping[str, int], takeover: Takeover) -> bool:
        """Whether what was followed is worth something: else all is to be loaded from the beginning."""
        return takeover.table_committed is not None and all(
            starts[topic] <= self.positions.get(topic, -1) <= ends[topic] for topic in self.topics.compacted
        )

    def load(self, starts: Mapping[str, int], ends: Mapping[str, int], takeover: Takeover) -> dict[str, int]:
        """It is assigned to this member: read on up to `ends`, then claim.

        Returns, by topic, the offset from which it is to be read: where it starts, or how far it was followed.
        """
        self.phase = Phase.LOADING
        self.reading = self.logs_reading = False
        self.warm = bool(self.positions)
        self.takeover = takeover
        self.on_load(takeover)
        begin = {topic: self.positions.get(topic, start) for topic, start in starts.items()}
        table, committed = self.topics.table, takeover.table_committed
        if self.warm and committed is not None:
            begin[table] = max(starts[table], min(begin[table], committed))
        self._ends = {topic: end for topic, end in ends.items() if end > begin[topic]}
        return begin

    @property
    def loaded(self) -> bool:
        """Everything that was there at the start has been read: time to claim."""
        return self.phase is Phase.LOADING and not self._ends

    @property
    def requests_start(self) -> int:
        """From where the requests are handled."""
        return 0 if self.takeover is None else self.takeover.requests_start

    @property
    def requests_read(self) -> int:
        """The next offset of the requests topic that is to be read."""
        return self.requests_start if self.requests_position is None else self.requests_position

    @property
    def requests_handled(self) -> int:
        """The requests topic has been handled up to this offset: what waits for its barrier has not.

        Nor has one whose outcome is not stored.
        """
        handled, not_stored = self.requests_tried, self.first_not_stored
        return handled if not_stored is None else min(handled, not_stored)

    @property
    def requests_tried(self) -> int:
        """The same, but what is not stored yet counts as handled, too."""
        waiting = next(iter(self.pending), None)
        return self.requests_read if waiting is None else waiting.requests[0][0]

    @property
    def requests_pending(self) -> int:
        """How many requests wait for the table."""
        return sum(len(batch.requests) for batch in self.pending)

    def note_progress(self, topic: str, position: int) -> None:
        """A compacted topic, or a log, has been read up to this offset."""
        self.positions[topic] = position
        end = self._ends.get(topic)
        if end is not None and position >= end:
            del self._ends[topic]

    # ---- loading and claiming ------------------------------------------------------------------------------------

    @abstractmethod
    def on_load(self, takeover: Takeover) -> None:
        """The load begins."""

    @property
    @abstractmethod
    def requests_topic_changed(self) -> bool:
        """The offsets of requests that predecessors committed are of a topic that is no more."""

    @abstractmethod
    def claim(self) -> Produced:
        """The record that claims the next generation. Raises NewerFormat."""

    @property
    @abstractmethod
    def claimed(self) -> bool:
        """The claim has come back from the log, and with it everything that stands before it."""

    @property
    @abstractmethod
    def must_claim_again(self) -> bool:
        """Another member's claim came first. False once it is owned: `Run` does not ask then."""

    @abstractmethod
    def own(self, now_ms: int, ends: Ends) -> None:
        """Everything is loaded and claimed: build the state and take over."""

    @property
    @abstractmethod
    def about(self) -> dict[str, object]:
        """What the log says of a partition that was taken over."""

    # ---- inputs --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def at(self) -> At:
        """What is being handled. Should that raise, this is what to set aside."""

    @property
    @abstractmethod
    def position(self) -> int:
        """The next offset of the table."""

    @property
    @abstractmethod
    def table_done(self) -> int:
        """Up to which offset of the table nothing is left to be done: what may be committed."""

    @property
    def first_not_stored(self) -> int | None:
        """The first request that was handled, and whose outcome no step so far makes durable; None: there is none.

        It is handled again by whoever takes the partition over.
        """
        return None

    @abstractmethod
    def on_record(self, record: Record, now_ms: int) -> None:
        """One record of a compacted topic, or of a log.

        Raises TakenOver, NewerFormat, or what a handler raises over it. What comes of a log first may lie before the
        offset from which it is to be handled (`Topics.logs_before`).
        """

    def prepare(self, record: Record) -> bool:
        """Whether `on_record` may be called with it now: what it takes long to find out is found out.

        False: `turn` is over before that, and it is asked again in the next one. Nothing of it has been handled then.
        """
        return True

    @abstractmethod
    def on_end(self, topic: str, offset: int) -> None:
        """The reader is at the end of this topic's partition: of a compacted one, or of a log."""

    @abstractmethod
    def skip(self, record: Record, reason: str) -> None:
        """One record that is set aside: it counts as read, and as nothing else."""

    @abstractmethod
    def on_unreadable(self, gap: UnreadableOffsets) -> None:
        """Offsets that nobody can read, of any of its topics: they count as read, and as nothing else."""

    @abstractmethod
    def request_of(self, record: Record, now_ms: int) -> Any | None:
        """What a record of the requests topic says; None: it is none, and set aside."""

    @abstractmethod
    def needs_barrier(self, request: Any) -> bool:
        """Whether its answer promises what stands last in the table."""

    def needs_log(self, request: Any) -> str | None:
        """The log that its answer promises to have been read to its end; None: none."""
        return None

    def times_of(self, request: Any) -> Sequence[tuple[str, int]]:
        """The times of logs (topic, Unix ms) that it says, and that are to be offsets before it is handled."""
        return ()

    def at_offsets(self, request: Any, offsets: Sequence[int]) -> Any:
        """The same request, with these offsets in the place of `times_of`."""
        return request

    # ---- logs: for a job that has any ----------------------------------------------------------------------------

    def log_done(self, topic: str) -> int:
        """Up to which offset of a log nothing is left to be done: what may be committed."""
        return self.positions.get(topic, 0)

    def on_log_start(self, topic: str, log_start: int) -> None:  # noqa: B027
        """A log begins there by now. It is told now and then."""

    def wanted_blocks(self) -> Sequence[tuple[str, int]]:
        """What lies behind and is to be read: (topic, offset), longest waited for first. Asked often."""
        return ()

    def on_block(self, block: Block, now_ms: int) -> None:  # noqa: B027
        """What was read of that; it is not as much as the log has. Until then it stays wanted."""

    # ---- requests ------------------------------------------------------------------------------------------------

    @abstractmethod
    def on_requests(self, requests: Sequence[tuple[int, Any]], now_ms: int) -> int:
        """A batch of (offset, request), in order; the table has been read as far as it went when they came.

        Returns how many of them are handled: at least one, and all but where `turn` is over. The others come again.
        """

    # ---- time, outputs -------------------------------------------------------------------------------------------

    @abstractmethod
    def flush(self, now_ms: int) -> None:
        """Do what was put off until now, for as long as `turn` lasts."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """When `flush` has something to do (Unix time); None: never, as things are."""

    @abstractmethod
    def on_tick(self, now_ms: int) -> None:
        """About a second has passed."""

    @abstractmethod
    def take_step(self, now_ms: int) -> Outputs:
        """All outputs since the last step."""

    @abstractmethod
    def take_counts(self) -> dict[str, int]:
        """Events since the last time, by name."""


class Job(Protocol):
    """What makes the partitions of one run."""

    @property
    def topics(self) -> Topics:
        """The job's topics."""

    @property
    def partitions(self) -> int:
        """How many there are."""

    @property
    def marks(self) -> Mapping[str, str]:
        """By topic, what offsets are committed with: its id, and behind EPOCH_MARK an epoch, if it has any.

        Offsets of another topic under its name do not count.
        """

    @property
    def puts_off(self) -> bool:
        """Whether partitions put anything off (`next_due_ms`)."""

    def partition(self, number: int) -> JobPartition:
        """A partition that another member owns, of which nothing is known yet."""

    def owner_of(self, refused: Refused) -> int | None:
        """The partition whose step a record was of that Kafka does not take; None: it is lost, and that is all."""
