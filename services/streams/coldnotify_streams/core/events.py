"""What a run is told: records that were read, partitions that come and go, readers that fail, refused commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Where = tuple[str, int]
"""(topic, partition)."""
Offsets = Mapping[Where, int]


class Now(NamedTuple):
    """The time of a step."""

    s: float
    """Monotonic."""
    ms: int
    """Unix time."""


class Record(NamedTuple):
    """What a job needs of one message."""

    topic: str
    partition: int
    offset: int
    end: bool
    """No record: the reader is at the end of the partition, which is `offset`."""
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = -1
    said: Any = None
    """What the job's `read_headers` has made of its headers; None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """From where a partition is handled on. It is one value, so that nobody can forget a part of it."""

    requests_start: int
    """The offset from which requests are handled."""
    requests_committed: bool
    """Whether any were handled by then."""
    table_committed: int | None
    """The offset up to which a predecessor handled the table; None: nobody did."""
    table_in_epoch: bool
    """Whether that was in today's epoch: only then it says what was done for those who are there today."""
    requests_known: bool = False
    """This run has handled requests of the present topic already."""
    logs_committed: Mapping[str, int] = field(default_factory=dict)
    """By log, the offset up to which a predecessor handled it; a log that was made anew since is not in here."""
    aside: frozenset[str] = frozenset()
    """What of the stored state is set aside, by the job's names: it is loaded as if it were not there."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """This member is to serve a partition."""

    partition: int
    takeover: Takeover


@dataclass(frozen=True, eq=False)
class Revoked:
    """Partitions go to another member: each such event is answered with one `Release`."""

    partitions: tuple[int, ...]
    lost: bool
    """They are gone already: a commit would come too late."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records, and ends of partitions, in order."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class UnreadableOffsets:
    """Offsets of a topic's partition that nobody can read, ever: what stands there is handed on by no reader."""

    topic: str
    partition: int
    start: int
    next: int
    """The first offset behind them."""
    reason: str


@dataclass(frozen=True, slots=True)
class Began:
    """All that was read before is of an earlier assignment of this partition's compacted topics, if there was one."""

    partition: int


@dataclass(frozen=True, slots=True)
class LogsBegan:
    """All that was read before of this partition's logs is of an earlier assignment, if there was one."""

    partition: int
    offsets: Mapping[str, int]
    """By topic, as `ReadLogs` said them."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """What was read of this partition's requests before is handled again: they come once more from where it says."""

    partition: int


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a log that lies behind, as `ReadBlock` asked for it."""

    topic: str
    partition: int
    start: int
    """As it was asked for."""
    next: int
    """It was read up to this offset; at least `start`, where the log begins later."""
    log_start: int
    """Where the log begins by now: retention has removed what is below."""
    records: Sequence[Record]
    unreadable: bool = False
    """Kafka could not read anything from `start` up to `next`, and never will."""
    read_s: float = 0.0
    """How long its reader was busy with it."""


@dataclass(frozen=True, slots=True)
class LogStarts:
    """Where logs begin by now."""

    starts: Offsets


@dataclass(frozen=True, slots=True)
class Failed:
    """A reader cannot go on."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A commit was refused."""

    reason: str
    fenced: bool
    """The group goes on without this member."""


Event = (
    Assigned
    | Revoked
    | Records
    | UnreadableOffsets
    | Began
    | LogsBegan
    | Rewound
    | Block
    | LogStarts
    | Failed
    | NotCommitted
)
