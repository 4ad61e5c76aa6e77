"""Decides which partitions are reloaded, when, and without which records, after one has raised. Pure.

A fault of a partition ends only its current load: its state is dropped, its noted offsets stay, and it is reloaded
without the record that is to blame (faults.py). A partition that another member has claimed, or that has a record of a
later release, waits longer. Failure, which ends the run, is no partition's fault.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from types import TracebackType

from coldnotify_streams.core.actions import Drop, Pause, Say
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.commits import Commits
from coldnotify_streams.core.events import JobRecord, Takeover
from coldnotify_streams.core.faults import Faults
from coldnotify_streams.core.job import Job, JobPartition, Place, RecordRefused
from coldnotify_streams.errors import NewerFormat, RunFailure, TakenOver


@dataclass(frozen=True, slots=True)
class WaitingReload:
    """A partition of this member that waits to be reloaded."""

    takeover: Takeover
    due_s: float


@dataclass(slots=True)
class _Guarded:
    """The context manager that `Reloads.fault_of` returns. A step enters four of them; a generator would take 1.6 us
    instead of 0.5.
    """

    reloads: "Reloads"
    partition: JobPartition
    single: Place | None

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None, /) -> bool:
        """Returns true if the exception was the partition's fault."""
        if not isinstance(error, Exception) or isinstance(error, RunFailure):
            return False
        self.reloads.on_raised(self.partition, error, self.single)
        return True


class Reloads:
    """Those of one run."""

    def __init__(
        self,
        job: Job,
        partitions: dict[int, JobPartition],
        commits: Commits,
        agenda: Agenda,
        *,
        taken_over_retry_s: float,
        newer_retry_s: float,
    ) -> None:
        """`partitions` are those of the run; one that fails is removed. run.Limits explains the `..._retry_s`."""
        self.waiting: dict[int, WaitingReload] = {}
        """Partitions that cannot be served and are retried."""
        self.faults: dict[int, Faults] = {}
        """The faults of each partition that had any in this run."""
        self._job = job
        self._topics = job.topics
        self._partitions = partitions
        self._commits = commits
        self._agenda = agenda
        self._taken_over_retry_s = taken_over_retry_s
        self._newer_retry_s = newer_retry_s

    @property
    def careful(self) -> set[int]:
        """The partitions whose records must each be a step of their own."""
        return {number for number, faults in self.faults.items() if faults.careful and number in self._partitions}

    def is_careful(self, number: int) -> bool:
        """Returns true if this partition's records must each be a step of their own."""
        return number in self.faults and self.faults[number].careful

    def due(self, assigned: Container[int]) -> dict[int, Takeover]:
        """Returns the partitions whose wait is over and that the group still assigns to this member."""
        now_s = self._agenda.now.s
        return {n: one.takeover for n, one in self.waiting.items() if one.due_s <= now_s and n in assigned}

    def forget(self, number: int) -> None:
        """Forgets this partition, which is given up."""
        self.waiting.pop(number, None)
        self.faults.pop(number, None)

    def fault_of(self, partition: JobPartition, single: Place | None = None) -> _Guarded:
        """Returns a context that treats exceptions, except those that end the run, as faults of this partition.

        `single`: the only record that is handled in the context.
        """
        return _Guarded(self, partition, single)

    def on_raised(self, partition: JobPartition, error: Exception, single: Place | None) -> None:
        """Handles an exception that was raised over this partition, in `fault_of`."""
        at = partition.at
        request = at if isinstance(at, tuple) and at[0] == self._topics.requests else None
        self.on_fault(partition, error, sure=single or request)

    def on_fault(self, partition: JobPartition, error: Exception, *, sure: Place | None) -> None:
        """Has the partition reloaded without the record that is to blame."""
        number = partition.number
        if self._partitions.get(number) is not partition:
            return  # it is already
        if isinstance(error, TakenOver):
            wait_s = self._taken_over_retry_s
            about = {"partition": number, "reason": str(error), "again_in_s": wait_s}
            self._agenda.do(Say("warning", "partition dropped", about))
        elif isinstance(error, NewerFormat):
            wait_s = self._newer_retry_s
            about = {"partition": number, "reason": str(error), "retry_in_s": wait_s}
            self._agenda.do(Say("error", "partition not served", about))
        else:
            faults = self.faults.setdefault(number, Faults())
            suspect, positions, now_s = partition.at, _positions(partition), self._agenda.now.s
            wait_s = faults.note(error, sure=sure, suspect=suspect, positions=positions, now_s=now_s)
            about = {"partition": number, "at": sure or suspect, "in_s": wait_s}
            self._agenda.do(Say("error", "partition is loaded anew", about, error))
        del self._partitions[number]
        self._agenda.do(Drop(number), Pause(number))
        self.waiting[number] = WaitingReload(self._takeover_again(partition), self._agenda.now.s + wait_s)

    def _takeover_again(self, partition: JobPartition) -> Takeover:
        """Returns the offsets at which to resume a partition that this run has served, or has tried to serve."""
        number, before = partition.number, partition.takeover
        assert before is not None
        noted = {topic: self._commits.noted(topic, number) for topic in self._topics.inputs}
        requests, table = noted[self._topics.requests], noted[self._topics.table]
        faults = self.faults.get(number)
        logs = {topic: offset for topic in self._topics.logs if (offset := noted[topic]) is not None}
        requests_again = 0 if partition.requests_topic_changed else partition.requests_start
        return replace(
            before,
            requests_start=requests_again if requests is None else requests,
            requests_committed=before.requests_committed or requests is not None,
            table_committed=before.table_committed if table is None else table,
            table_in_epoch=before.table_in_epoch or table is not None,
            # Offsets that this run has noted are of the topic as it is, whatever a claim says that a stranger has made.
            requests_known=requests is not None,
            logs_committed={**before.logs_committed, **logs},
            aside=frozenset(() if faults is None else faults.stored),
        )

    def on_refused(self, refused: RecordRefused, by: JobPartition | None, single: Place | None) -> None:
        """Handles Kafka's refusal of a record of a step. `single`: the only record that the step handled.

        `by`: the partition whose step it was. Its record may be for another partition: a moved record must not be
        removed there.
        """
        number = self._job.owner_of(refused)
        partition = None if number is None else by or self._partitions.get(number)
        if partition is None:
            about = {"topic": refused.topic, "error": refused.error}
            self._agenda.do(Say("error", "a record is lost that Kafka does not take", about))
            return
        error = ValueError(f"{refused.topic} does not take a record: {refused.error}")
        self.on_fault(partition, error, sure=single)

    def is_set_aside(self, partition: JobPartition, record: JobRecord) -> bool:
        """Returns true if the partition skips this record, which then counts as read."""
        faults = self.faults.get(partition.number)
        reason = None if faults is None else faults.records.get((record.topic, record.offset))
        if reason is None:
            return False
        if record.topic == self._topics.requests:
            partition.requests_position = record.offset + 1
        partition.skip(record, reason)
        return True

    def reached(self, partition: JobPartition) -> None:
        """Notes that all the partition has handled is durable. Some requests that it has read may still wait."""
        if self.faults and partition.number in self.faults:
            handled = {**_positions(partition), self._topics.requests: partition.requests_tried}
            self.faults[partition.number].reached(handled)


def _positions(partition: JobPartition) -> dict[str, int]:
    """Returns the offsets up to which the inputs have been or are being handled, by topic."""
    topics = partition.topics
    logs = {topic: partition.positions[topic] for topic in topics.logs if topic in partition.positions}
    return {topics.requests: partition.requests_read, topics.table: partition.position, **logs}
