"""The progress of one partition of a job: its phase, how far its topics are read, and the inputs that wait.

`Run` reads it, and hands out turns by it. The handlers of records and requests are in job.py.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from coldnotify_streams.core.events import JobRecord, Takeover, UnreadableOffsets
from coldnotify_streams.core.partition_turns import Spent, never


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


class PartitionProgress(ABC):
    """One partition from FOLLOWING to OWNED.

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
        self.now_s = 0.0
        """The time of the step (monotonic)."""
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

    def begin_turn(self, turn: Spent, now_s: float) -> None:
        """Begin a turn at a time (monotonic), which `turn` says to be over."""
        self.turn, self.now_s = turn, now_s

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

    @abstractmethod
    def on_load(self, takeover: Takeover) -> None:
        """The load begins."""

    @property
    def first_not_stored(self) -> int | None:
        """The first handled request whose outcome no step so far makes durable; None if every outcome is durable.

        The next owner of the partition handles it again.
        """
        return None
