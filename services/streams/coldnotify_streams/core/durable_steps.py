"""Makes the outputs of partitions' steps durable: state first, then what promises it or depends on it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from coldnotify_streams.core.actions import Doing, Durable, Flush, WriteRecords
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.commits import Commits
from coldnotify_streams.core.job import JobPartition, JobProduced, Outputs, Place, RecordRefused
from coldnotify_streams.core.reloads import Reloads


@dataclass(frozen=True, slots=True)
class _Step:
    """One partition's outputs."""

    partition: JobPartition
    outputs: Outputs


class DurableSteps:
    """The steps of one run. A partition whose step fails is reloaded, and is not durable."""

    def __init__(self, partitions: dict[int, JobPartition], commits: Commits, reloads: Reloads, agenda: Agenda) -> None:
        """`partitions` are those of the run."""
        self._partitions = partitions
        self._commits = commits
        self._reloads = reloads
        self._agenda = agenda

    def make_durable(self, owned: list[JobPartition]) -> Doing[None]:
        """Takes their steps and writes them all: what they have handled may be committed then."""
        durable = yield from self.write(owned, None)
        for partition in durable:
            self._commits.note(partition)
            self._reloads.reached(partition)

    def write(self, owned: list[JobPartition], single: Place | None) -> Doing[list[JobPartition]]:
        """Returns those whose step is durable. `single`: the only record that the steps come from."""
        taken: list[_Step] = []
        for partition in owned:
            with self._reloads.fault_of(partition, single):
                taken.append(_Step(partition, partition.take_step(self._agenda.now.ms)))
        taken = yield from self._write_part(taken, attrgetter("outputs.state"), single)
        taken = yield from self._write_part(taken, attrgetter("outputs.seals"), single)
        taken = yield from self._write_part(taken, attrgetter("outputs.rest"), single)
        durable = [one.partition for one in taken]
        yield Durable(durable)
        return durable

    def _write_part(
        self, steps: list[_Step], part: Callable[[_Step], Sequence[JobProduced]], single: Place | None
    ) -> Doing[list[_Step]]:
        """Write one part of each step. Returns the steps whose part is durable."""
        if not any(part(step) for step in steps):
            return steps
        for step in steps:
            with self._reloads.fault_of(step.partition, single):
                yield from self._agenda.ask(WriteRecords(part(step)))
        refused: list[RecordRefused] = yield from self._agenda.ask(Flush())
        for one in refused:
            written = ((step.partition, record) for step in steps for record in part(step))
            by = next((partition for partition, record in written if _is_same(record, one)), None)
            self._reloads.on_refused(one, by, single)
        return [step for step in steps if self._partitions.get(step.partition.number) is step.partition]


def _is_same(record: JobProduced, refused: RecordRefused) -> bool:
    """Returns true if Kafka refused this record. A partition of None means that the producer chose it."""
    where = record.topic, refused.partition if record.partition is None else record.partition
    return where == (refused.topic, refused.partition) and record.value == refused.value
