"""The interface of a stateful job: `Job` creates partitions, and `JobPartition` holds the state of one.

A job has two or more inputs. *Requests* are divided among members by a consumer group, and the member that gets a
partition's requests owns its state; they are handled from the group's committed offset. The *table* is compacted,
loaded from its beginning, and then followed. *Logs* are not compacted: they are read from the group's committed offset,
and their older parts, *blocks*, are read beside that when the job wants them. The job's own *state* topics are
compacted, too. All these topics have the same number of partitions.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from coldnotify_streams.core.events import JobRecord, LogBlock, Takeover, UnreadableOffsets
from coldnotify_streams.core.partition_turns import Spent, never

EPOCH_MARK = "/"
"""Between a topic's id and an epoch, in what offsets are committed with (`Job.marks`)."""
NOT_UNDERSTOOD = "not_understood"
"""A record is set aside for this reason if its parser rejects it."""
RAISED = "raised"
"""A record is set aside for this reason if handling it raised an exception."""

Place = tuple[str, int]
"""(topic, offset) of a record."""
At = Place | str | None
"""A record, or a part of the stored state by the job's name; None if no single one is known."""


class JobTopics(NamedTuple):
    """The topics of a job, by their purpose."""

    requests: str
    table: str
    state: tuple[str, ...]
    logs: tuple[str, ...] = ()
    logs_before: int = 0
    """How many offsets of a log to read before the first one to handle."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Topics whose offsets are committed."""
        return (self.requests, self.table, *self.logs)

    @property
    def compacted(self) -> tuple[str, ...]:
        """Topics from which a partition is loaded."""
        return (self.table, *self.state)


class OwningPhase(Enum):
    """The stages from following a partition to owning it."""

    FOLLOWING = "following"
    """Another member owns it. What that member writes is read, in case it goes away."""
    LOADING = "loading"
    """Reading the compacted topics up to where they ended at the start."""
    CLAIMING = "claiming"
    """The next generation is written; records that precede it in the log still count."""
    OWNED = "owned"


class JobProduced(Protocol):
    """One record to produce."""

    @property
    def topic(self) -> str:
        """The topic to write to."""

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
        """The record's timestamp; None: the producer chooses it."""


class RecordRefused(NamedTuple):
    """A record that Kafka refuses, however often it is written."""

    topic: str
    partition: int
    value: bytes | None
    error: str


class Outputs(NamedTuple):
    """The output of one step of a partition, in the order in which it must become durable."""

    state: Sequence[JobProduced]
    """First."""
    rest: Sequence[JobProduced]
    """Records that promise `state`, or depend on it."""


class LogBounds(NamedTuple):
    """The offsets of one log, at a time after the partition's claim came back."""

    start: int
    """The offset at which handling begins: a predecessor handled what is below, or retention removed it."""
    log_start: int
    """The log's first offset."""
    end: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets that the next records of a partition's inputs will get, as of a time after its claim came back."""

    requests: int
    table: int
    logs: Mapping[str, LogBounds] = field(default_factory=dict)


@dataclass(slots=True)
class PendingRequests:
    """Requests that wait until the table and logs have been read up to where they ended when the requests arrived."""

    barriers: Mapping[str, int]
    """The offset that must be read first, by topic."""
    requests: list[tuple[int, Any]] = field(default_factory=list)
    """(offset, request)."""
    seen_waiting_s: float | None = None
    """When a step first found these requests waiting, or found that the reader had progressed."""
    seen_at: int = 0
    """How far the topics with barriers were read at that time."""


class Unread:
    """Records of one partition that wait for its turn, in order."""

    def __init__(self) -> None:
        self.records: deque[JobRecord | UnreadableOffsets] = deque()
        self.size_bytes = 0
        """Total size of the records' values."""
        self.held_back = False
        """True if so much is unread that the readers leave further records in Kafka."""

    def add(self, record: JobRecord | UnreadableOffsets) -> None:
        """Adds a record, or the unreadable offsets before the next one."""
        self.records.append(record)
        self.size_bytes += _size_bytes(record)

    def remove_first(self) -> None:
        """The first one is read."""
        self.size_bytes -= _size_bytes(self.records.popleft())


def _size_bytes(record: JobRecord | UnreadableOffsets) -> int:
    return len(record.value or b"") if isinstance(record, JobRecord) else 0


class JobPartition(ABC):
    """One partition from FOLLOWING to OWNED: its progress, which `Run` reads, and its handlers, which the job
    implements.

    It begins while another member serves it (FOLLOWING); records read then have no outputs. `load` makes it this
    member's to take over. Records that the predecessor may not have finished are at or above its committed offset of
    the table, which is known only at the assignment: from there, the table is read again.
    """

    def __init__(self, number: int, topics: JobTopics) -> None:
        self.number = number
        self.topics = topics
        self.phase = OwningPhase.FOLLOWING
        self.warm = False
        """True if it was followed before it was assigned."""
        self.takeover: Takeover | None = None
        """The offsets from which it is handled; None while it belongs to another member."""
        self.requests_position: int | None = None
        """The next offset of the requests topic; None: nothing read yet."""
        self.pending: deque[PendingRequests] = deque()
        self.held_back = False
        """True if so many requests are pending that the reader leaves the others in Kafka."""
        self.turn: Spent = never
        """Returns true when its current turn is over: remaining work waits for the next turn."""
        self.unread = Unread()
        """Records that were handed on and that no turn has reached yet."""
        self.reading = False
        """True if records of the compacted topics belong to this assignment, not to an earlier one."""
        self.requests_reading = True
        """True if records of the requests topic belong to this load, not to an earlier one."""
        self.logs_from: Mapping[str, int] = {}
        """The offset at which reading was to begin, by log."""
        self.logs_reading = False
        """True if records of the logs belong to this assignment, not to an earlier one."""
        self.positions: dict[str, int] = {}
        """The offset up to which each compacted topic has been read, and each log once reading it has begun."""
        self.behind: set[str] = set(topics.compacted)
        """The compacted topics whose end the reader has not reached yet."""
        self._ends: dict[str, int] = {}
        """For each compacted topic that is still being read: the offset to reach before a generation is claimed."""

    def can_load_on(self, starts: Mapping[str, int], ends: Mapping[str, int], takeover: Takeover) -> bool:
        """Returns true if the followed state can be used; else everything must be loaded from the beginning."""
        return takeover.table_committed is not None and all(
            starts[topic] <= self.positions.get(topic, -1) <= ends[topic] for topic in self.topics.compacted
        )

    def load(self, starts: Mapping[str, int], ends: Mapping[str, int], takeover: Takeover) -> dict[str, int]:
        """Begins the load of a partition that was assigned to this member: reads up to `ends`, then claims.

        Returns the offset from which to read each topic: where it starts, or how far it was followed.
        """
        self.phase = OwningPhase.LOADING
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
        """True once everything up to the ends has been read: time to claim."""
        return self.phase is OwningPhase.LOADING and not self._ends

    @property
    def requests_start(self) -> int:
        """The offset from which requests are handled."""
        return 0 if self.takeover is None else self.takeover.requests_start

    @property
    def requests_read(self) -> int:
        """The next offset of the requests topic to read."""
        return self.requests_start if self.requests_position is None else self.requests_position

    @property
    def requests_handled(self) -> int:
        """The offset below which all requests have been handled and their outcomes stored.

        Requests that wait for their barriers are not handled.
        """
        handled, not_stored = self.requests_tried, self.first_not_stored
        return handled if not_stored is None else min(handled, not_stored)

    @property
    def requests_tried(self) -> int:
        """The same offset, but handled requests count even if their outcomes are not stored yet."""
        waiting = next(iter(self.pending), None)
        return self.requests_read if waiting is None else waiting.requests[0][0]

    @property
    def requests_pending(self) -> int:
        """The number of requests that wait for their barriers."""
        return sum(len(batch.requests) for batch in self.pending)

    def note_progress(self, topic: str, position: int) -> None:
        """Notes that a compacted topic, or a log, has been read up to this offset."""
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
        """True if the offsets of requests that predecessors committed belong to a topic that no longer exists."""

    @abstractmethod
    def claim(self) -> JobProduced:
        """Returns the record that claims the next generation. Raises NewerFormat."""

    @property
    @abstractmethod
    def claimed(self) -> bool:
        """True once the claim has come back from the log, and with it everything that precedes it."""

    @property
    @abstractmethod
    def must_claim_again(self) -> bool:
        """True if another member's claim came first; false once it is owned, because `Run` does not ask then."""

    @abstractmethod
    def own(self, now_ms: int, ends: Ends) -> None:
        """Takes over, once everything is loaded and claimed: builds the state."""

    @property
    @abstractmethod
    def about(self) -> dict[str, object]:
        """Returns the fields that the log shows when the partition is taken over."""

    # ---- inputs --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def at(self) -> At:
        """The input that is being handled. It is set aside if handling it raises."""

    @property
    @abstractmethod
    def position(self) -> int:
        """The next offset of the table."""

    @property
    @abstractmethod
    def table_done(self) -> int:
        """The offset below which everything in the table is handled, and may be committed."""

    @property
    def first_not_stored(self) -> int | None:
        """The first handled request whose outcome no step so far makes durable; None if every outcome is durable.

        The next owner of the partition handles it again.
        """
        return None

    @abstractmethod
    def on_record(self, record: JobRecord, now_ms: int) -> None:
        """Handles a record of a compacted topic, or of a log.

        Raises TakenOver, NewerFormat, or the error of its handler. The first records of a log may be below the offset
        at which handling begins (`Topics.logs_before`).
        """

    def prepare(self, record: JobRecord) -> bool:
        """Prepares a record, in several turns if it takes long. Returns true once `on_record` may be called with it.

        False: `turn` ended first, and the next turn calls this again. Nothing of the record has been handled by then.
        """
        return True

    @abstractmethod
    def on_end(self, topic: str, offset: int) -> None:
        """Notes that the reader is at the end of this topic's partition, be it compacted or a log."""

    @abstractmethod
    def skip(self, record: JobRecord, reason: str) -> None:
        """Skips a record that is set aside: it counts as read, and as nothing else."""

    @abstractmethod
    def on_unreadable(self, gap: UnreadableOffsets) -> None:
        """Skips unreadable offsets of any of its topics: they count as read, and as nothing else."""

    @abstractmethod
    def request_of(self, record: JobRecord, now_ms: int) -> Any | None:
        """Returns the request in a record of the requests topic; None if it cannot be parsed, and is set aside."""

    @abstractmethod
    def needs_barrier(self, request: Any) -> bool:
        """Returns true if the answer to this request promises the newest records of the table."""

    def needs_log(self, request: Any) -> str | None:
        """Returns the log that the answer to this request promises to have been read to its end, or None."""
        return None

    def times_of(self, request: Any) -> Sequence[tuple[str, int]]:
        """Returns the times (topic, Unix ms) in a request that must be resolved to offsets of logs before it is
        handled.
        """
        return ()

    def at_offsets(self, request: Any, offsets: Sequence[int]) -> Any:
        """Returns the same request with these offsets in place of `times_of`."""
        return request

    # ---- logs: for a job that has any ----------------------------------------------------------------------------

    def log_done(self, topic: str) -> int:
        """Returns the offset below which everything in a log is handled, and may be committed."""
        return self.positions.get(topic, 0)

    def on_log_start(self, topic: str, log_start: int) -> None:  # noqa: B027
        """Notes the first offset of a log, which retention raises. Called now and then."""

    def wanted_blocks(self) -> Sequence[tuple[str, int]]:
        """Returns the (topic, offset) of the blocks to read, the longest awaited first. Called often."""
        return ()

    def on_block(self, block: LogBlock, now_ms: int) -> None:  # noqa: B027
        """Handles a block, which may hold less than the log has. The block stays wanted until then."""

    # ---- requests ------------------------------------------------------------------------------------------------

    @abstractmethod
    def on_requests(self, requests: Sequence[tuple[int, Any]], now_ms: int) -> int:
        """Handles (offset, request) pairs, in order; the table has been read as far as their barriers ask.

        Returns how many it has handled: at least one, and fewer than all only if `turn` is over. It gets the others
        again.
        """

    # ---- time, outputs -------------------------------------------------------------------------------------------

    @abstractmethod
    def flush(self, now_ms: int) -> None:
        """Does postponed work, until `turn` is over."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """Returns when `flush` next has something to do (Unix ms); None if nothing is postponed."""

    @abstractmethod
    def on_tick(self, now_ms: int) -> None:
        """Called about once a second."""

    @abstractmethod
    def take_step(self, now_ms: int) -> Outputs:
        """Returns all outputs since the last step."""

    @abstractmethod
    def take_counts(self) -> dict[str, int]:
        """Returns the number of events since the last call, by name."""


class Job(Protocol):
    """Creates the partitions of one run."""

    @property
    def topics(self) -> JobTopics:
        """The job's topics."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def marks(self) -> Mapping[str, str]:
        """The mark that is committed with the offsets, by topic: its id, then EPOCH_MARK and the epoch, if it has one.

        Offsets with another mark do not count: they belong to a former topic of the same name.
        """

    @property
    def puts_off(self) -> bool:
        """True if partitions postpone work (`next_due_ms`)."""

    def partition(self, number: int) -> JobPartition:
        """Creates the partition in its initial state, while another member owns it."""

    def owner_of(self, refused: RecordRefused) -> int | None:
        """Returns the partition whose step wrote a refused record; None: the record is lost, without other effects."""
