"""The actions that a run yields.

The shell answers a `Question` where it is asked: it sends the answer into the step, or throws the error. It executes
all other actions in order, without an answer.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from coldnotify_streams.core.events import PartitionsRevoked, Where
from coldnotify_streams.core.job import JobPartition, JobProduced


class Offset(NamedTuple):
    """The offset to commit for one partition of an input."""

    topic: str
    partition: int
    offset: int
    mark: str


# ---- questions


@dataclass(frozen=True, slots=True)
class AskBounds:
    """Asks where these partitions begin, and how far they can be read. Answer: ({place: offset}, {place: offset})."""

    places: Sequence[Where]


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Asks where these partitions end. Answer: {place: offset}."""

    places: Sequence[Where]
    uncommitted: bool
    """The offset that the next record will get, which may be above an open transaction."""


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """Hands these records to the producer, in order. Answer: None. Any error thrown, except Failure, is the records'
    fault.
    """

    records: Sequence[JobProduced]


@dataclass(frozen=True, slots=True)
class Flush:
    """Wait until all that was written is durable. Answer: what Kafka does not take, as a list of Refused."""


@dataclass(frozen=True, slots=True)
class TakeFollowed:
    """Takes a small batch of records that were read for the standby. Answer: an Event, or None if nothing was read."""


@dataclass(frozen=True, slots=True)
class AskTimes:
    """Asks for the first offsets whose records have these times (Unix ms) or later ones. Answer: one offset for each
    time; the log's end if no record is so late.
    """

    times: Sequence[tuple[Where, int]]


Question = AskBounds | AskEnds | WriteRecords | Flush | TakeFollowed | AskTimes

# ---- to the readers


@dataclass(frozen=True, slots=True)
class Read:
    """Reads the compacted topics of a partition from these offsets (by topic), after putting `Began`."""

    partition: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """Also reads the logs of a partition from these offsets (by topic), after putting `LogsBegan`.

    The logs are read beside the compacted topics and fill a separate queue, so a log that grows by a million records
    does not delay the table.
    """

    partition: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """Reads what one read returns of an older part of a log, from this offset, and puts it as a `Block`."""

    topic: str
    partition: int
    start: int


@dataclass(frozen=True, slots=True)
class LookAtEnds:
    """Asks, beside the run, where these partitions end, and puts the answer as `EndsSeen`: always one, and soon."""

    places: Sequence[Where]


@dataclass(frozen=True, slots=True)
class Drop:
    """Read the compacted topics and the logs of a partition no more."""

    partition: int


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Leaves further records of the compacted topics and logs of a partition in Kafka for now."""

    partition: int


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Read them on."""

    partition: int


@dataclass(frozen=True, slots=True)
class Serve:
    """Hands on the requests of a partition from now on."""

    partition: int
    from_beginning: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Leaves further requests of a partition in Kafka until it is served again."""

    partition: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """Pauses the requests of a partition. Once it is served, reads them from this offset, after putting `Rewound`."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Commits soon, for the partitions that this member still owns by then; puts `NotCommitted` if Kafka refuses."""

    offsets: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class Release:
    """All work of revoked partitions is done or dropped: commits these offsets, and releases the partitions."""

    revoked: PartitionsRevoked
    offsets: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class Follow:
    """Reads the compacted topics of another member's partition from their beginning, for the standby, after putting
    `Began`.
    """

    partition: int


@dataclass(frozen=True, slots=True)
class Unfollow:
    """Read them no more."""

    partition: int


# ---- to whoever looks on


@dataclass(frozen=True, slots=True)
class Say:
    """One line for the log."""

    level: str
    words: str
    about: Mapping[str, object] = field(default_factory=dict)
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class TakenIn:
    """Everything read so far has been handled; it is not durable yet."""


@dataclass(frozen=True, slots=True)
class Durable:
    """Everything that these partitions have handled is durable."""

    partitions: Sequence[JobPartition]


@dataclass(frozen=True, slots=True)
class TookOver:
    """A partition is served from now on."""

    partition: JobPartition
    since_s: float
    """The time of the assignment (monotonic)."""


@dataclass(frozen=True, slots=True)
class LoadsAnew:
    """A partition that had failed is being reloaded."""

    partition: int


@dataclass(frozen=True, slots=True)
class LookedAtPartitions:
    """The partitions were checked: these are served. `tick`: a second has passed since the last tick."""

    owned: Sequence[JobPartition]
    waiting: int
    """Partitions that cannot be served, and are retried after a while."""
    tick: bool


Action = (
    Question
    | Read
    | ReadLogs
    | ReadBlock
    | LookAtEnds
    | Drop
    | HoldBack
    | ReadOn
    | Serve
    | Pause
    | Rewind
    | Commit
    | Release
    | Follow
    | Unfollow
    | Say
    | TakenIn
    | Durable
    | TookOver
    | LoadsAnew
    | LookedAtPartitions
)

R = TypeVar("R")
Doing = Generator[Action, Any, R]
"""Yields actions, is sent answers, returns R."""
