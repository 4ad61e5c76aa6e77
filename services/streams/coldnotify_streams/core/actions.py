"""What a run wants done.

A `Question` is answered where it is asked: the shell sends the answer into the step, or throws what went wrong. All
others are done in order, and have no answer.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from coldnotify_streams.core.events import Revoked, Where
from coldnotify_streams.core.job import JobPartition, Produced


class Offset(NamedTuple):
    """What is to be committed of one partition of an input."""

    topic: str
    partition: int
    offset: int
    mark: str


# ---- questions


@dataclass(frozen=True, slots=True)
class AskBounds:
    """Where these begin, and up to where they can be read. Answer: ({place: offset}, {place: offset})."""

    places: Sequence[Where]


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Where these end. Answer: {place: offset}."""

    places: Sequence[Where]
    uncommitted: bool
    """The offset that the next record will get, also behind a transaction that is still open."""


@dataclass(frozen=True, slots=True)
class Write:
    """Hand these to the producer, in order. Answer: None. What is thrown, but for Failure, is the records' fault."""

    records: Sequence[Produced]


@dataclass(frozen=True, slots=True)
class Flush:
    """Wait until all that was written is durable. Answer: what Kafka does not take, as a list of Refused."""


@dataclass(frozen=True, slots=True)
class TakeFollowed:
    """Take a small batch of what was read for the standby. Answer: an Event; None: there is none."""


@dataclass(frozen=True, slots=True)
class AskTimes:
    """From which offset on records are of a time (Unix ms) or later. Answer: as many offsets; of a log's end where
    nothing is so late."""

    times: Sequence[tuple[Where, int]]


Question = AskBounds | AskEnds | Write | Flush | TakeFollowed | AskTimes

# ---- to the readers


@dataclass(frozen=True, slots=True)
class Read:
    """Read the compacted topics of a partition, by topic from these offsets; say `Began` before."""

    partition: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """Read the logs of a partition, too, by topic from these offsets; say `LogsBegan` before.

    They are read beside the compacted topics, and fill a queue of their own: a log that grows by a million records
    does not hold up the table.
    """

    partition: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """Read a part of a log that lies behind, from this offset on: what can be read at once. Say `Block`."""

    topic: str
    partition: int
    start: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Read the compacted topics and the logs of a partition no more."""

    partition: int


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Leave what is further of the compacted topics and the logs of a partition in Kafka for now."""

    partition: int


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Read them on."""

    partition: int


@dataclass(frozen=True, slots=True)
class Serve:
    """Hand on the requests of a partition from now on."""

    partition: int
    from_beginning: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Leave the further requests of a partition in Kafka until it is served again."""

    partition: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """Pause the requests of a partition, begin at this offset once it is served; say `Rewound` before."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit soon, of the partitions that are still this member's by then; say `NotCommitted` where it is refused."""

    offsets: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class Release:
    """All work of partitions that are revoked is done or dropped: commit these, and let them go."""

    revoked: Revoked
    offsets: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class Follow:
    """Read the compacted topics of another's partition from their beginning, for the standby; say `Began` before."""

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
    """All that was read has been handled; it is not durable yet."""


@dataclass(frozen=True, slots=True)
class Durable:
    """What these partitions have handled is durable."""

    partitions: Sequence[JobPartition]


@dataclass(frozen=True, slots=True)
class TookOver:
    """A partition is served from now on."""

    partition: JobPartition
    since_s: float
    """When it was assigned (monotonic)."""


@dataclass(frozen=True, slots=True)
class LoadsAnew:
    """A partition that had failed is loaded once more."""

    partition: int


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at all partitions: these are served. `tick`: it is a second since the last tick."""

    owned: Sequence[JobPartition]
    waiting: int
    """Partitions that cannot be served, and are tried again after a while."""
    tick: bool


Action = (
    Question
    | Read
    | ReadLogs
    | ReadBlock
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
    | Looked
)

R = TypeVar("R")
Doing = Generator[Action, Any, R]
"""Yields actions, is sent answers, returns R."""
