"""The events that a run receives: records, assigned and revoked partitions, failed readers, refused commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Where = tuple[str, int]
"""(topic, partition)."""
Offsets = Mapping[Where, int]


class Now(NamedTuple):
    """The time of a step."""

    s: float
    """By a clock that never goes back and counts sleep (`steady_s`)."""
    ms: int
    """Unix time."""


class JobRecord(NamedTuple):
    """The fields of one message that a job needs."""

    topic: str
    partition: int
    offset: int
    end: bool
    """True if this is not a record: the reader is at the end of the partition, which is `offset`."""
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = -1
    said: Any = None
    """The result of the job's `read_headers`; None if the record has no headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The offsets from which a partition is handled. One value, so that no part of it can be forgotten."""

    requests_start: int
    """The offset from which requests are handled."""
    requests_committed: bool
    """True if a predecessor had handled and committed requests."""
    table_committed: int | None
    """The offset up to which a predecessor handled the table; None if none did."""
    table_in_epoch: bool
    """True if that commit belongs to the current epoch: only then it says what was done for the clients of today."""
    requests_known: bool = False
    """True if this run has already handled requests of the present topic."""
    logs_committed: Mapping[str, int] = field(default_factory=dict)
    """The offset up to which a predecessor handled each log; a log that was recreated since is missing."""
    aside: frozenset[str] = frozenset()
    """Parts of the stored state that are set aside, by the job's names: the load ignores them."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group assigns a partition to this member."""

    partition: int
    takeover: Takeover


@dataclass(frozen=True, eq=False)
class PartitionsRevoked:
    """Partitions go to another member: each such event is answered with one `Release`."""

    partitions: tuple[int, ...]
    lost: bool
    """True if they are lost already: a commit would come too late."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records, and ends of partitions, in order."""

    records: Sequence[JobRecord]


@dataclass(frozen=True, slots=True)
class UnreadableOffsets:
    """Offsets of a topic's partition that can never be read: no reader returns records for them."""

    topic: str
    partition: int
    start: int
    next: int
    """The first offset above them."""
    reason: str


@dataclass(frozen=True, slots=True)
class Began:
    """Everything read before belongs to an earlier assignment of this partition's compacted topics,
    if there was one.
    """

    partition: int


@dataclass(frozen=True, slots=True)
class LogsBegan:
    """Everything read before of this partition's logs belongs to an earlier assignment, if there was one."""

    partition: int
    offsets: Mapping[str, int]
    """Offsets by topic, as passed in `ReadLogs`."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """The requests of this partition are read again, from the offset passed in `Rewind`: earlier ones are handled
    again.
    """

    partition: int


@dataclass(frozen=True, slots=True)
class LogBlock:
    """An older part of a log, as `ReadBlock` requested it."""

    topic: str
    partition: int
    start: int
    """The requested offset."""
    next: int
    """The offset up to which it was read; at least `start`, or the log's first offset if that is higher."""
    log_start: int
    """The log's first offset by now: retention has removed everything below."""
    records: Sequence[JobRecord]
    unreadable: bool = False
    """True if Kafka could not read anything from `start` up to `next`, and never will."""
    read_s: float = 0.0
    """How many seconds the reader needed."""


@dataclass(frozen=True, slots=True)
class LogStarts:
    """The first offsets of logs by now."""

    starts: Offsets


@dataclass(frozen=True, slots=True)
class EndsSeen:
    """The answer to `LookAtEnds`: the offsets that next records would have got at a time after `at_s`."""

    at_s: float
    """By the clock of `Now.s`; taken before Kafka was asked."""
    ends: Offsets
    """Without the places for which Kafka gave no answer that counts."""


@dataclass(frozen=True, slots=True)
class ReaderFailed:
    """A reader cannot go on."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A commit was refused."""

    reason: str
    fenced: bool
    """True if the group continues without this member."""


Event = (
    Assigned
    | PartitionsRevoked
    | Records
    | UnreadableOffsets
    | Began
    | LogsBegan
    | Rewound
    | LogBlock
    | LogStarts
    | EndsSeen
    | ReaderFailed
    | NotCommitted
)
