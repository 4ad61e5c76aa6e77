"""The interface of a stateful job: `Job` creates partitions, and `JobPartition` holds the state of one.

A job has two or more inputs. *Requests* are divided among members by a consumer group, and the member that gets a
partition's requests owns its state; they are handled from the group's committed offset. The *table* is compacted,
loaded from its beginning, and then followed. *Logs* are not compacted: they are read from the group's committed offset,
and their older parts, *blocks*, are read beside that when the job wants them. The job's own *state* topics are
compacted, too. All these topics have the same number of partitions.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coldnotify_streams.core.events import JobRecord, LogBlock, UnreadableOffsets
from coldnotify_streams.core.partition_progress import JobTopics, PartitionProgress

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
    """The output of one step of a partition. First `state` becomes durable, then `seals`, then `rest`."""

    state: Sequence[JobProduced]
    rest: Sequence[JobProduced]
    """Records that promise `state` and `seals`, or depend on them."""
    seals: Sequence[JobProduced] = ()
    """State records that say that `state` is durable. Usually there are none."""


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


class JobPartition(PartitionProgress):
    """One partition: its progress, and its handlers, which the job implements."""

    # ---- loading and claiming ------------------------------------------------------------------------------------

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

    @property
    def waits(self) -> bool:
        """True if it handles no requests yet, though it is owned: a record of its state topics has to be read first."""
        return False

    # ---- ends: for a job that tells how fresh it is ----------------------------------------------------------------

    @property
    def wants_ends(self) -> bool:
        """True if it wants to be told, about once a second, where its table and logs end."""
        return False

    @property
    def wants_ends_of_requests(self) -> bool:
        """True if it wants to be told the same of its requests."""
        return False

    def on_end_seen(self, topic: str, at_s: float, end: int) -> None:
        """Notes that everything acknowledged before `at_s` (monotonic; see `now_s`) is below the offset `end`."""

    # ---- logs: for a job that has any ----------------------------------------------------------------------------

    def log_done(self, topic: str) -> int:
        """Returns the offset below which everything in a log is handled, and may be committed."""
        return self.positions.get(topic, 0)

    def on_log_start(self, topic: str, log_start: int) -> None:
        """Notes the first offset of a log, which retention raises. Called now and then."""

    def wanted_blocks(self) -> Sequence[tuple[str, int]]:
        """Returns the (topic, offset) of the blocks to read, the longest awaited first. Called often."""
        return ()

    def on_block(self, block: LogBlock, now_ms: int) -> None:
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
