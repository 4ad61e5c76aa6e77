"""Claims that Kafka refused: each is written again, unchanged, after a pause. Pure.

Such a claim never came back from the log, so nothing has to be reloaded. Kafka may accept later what it refuses today
(because of a low limit, or a time too far ahead), once the topic's limit or the clock has been corrected.
"""

from collections.abc import Iterable, Mapping

from coldnotify_streams.core.actions import Say
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.job import Job, JobPartition, RecordRefused
from coldnotify_streams.core.partition_progress import OwningPhase

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 10.0
"""A claim costs one record, and an operator who has corrected the cause should not have to wait long."""


class Claims:
    """Those of one run."""

    def __init__(self, job: Job, agenda: Agenda) -> None:
        self.refused: dict[int, float] = {}
        """When to write the refused claim again (monotonic), by partition."""
        self._job = job
        self._agenda = agenda
        self._retry_s: dict[int, float] = {}
        """The pause before the next attempt, by partition with refused claims."""

    def due(self, partitions: Mapping[int, JobPartition]) -> list[JobPartition]:
        """Returns those of these partitions that must claim their next generation now."""
        for number in self.refused.keys() - partitions.keys():
            self.forget(number)
        return [p for p in partitions.values() if p.loaded or p.must_claim_again or self._is_due(p)]

    def _is_due(self, partition: JobPartition) -> bool:
        at_s = self.refused.get(partition.number)
        return at_s is not None and partition.phase is OwningPhase.CLAIMING and at_s <= self._agenda.now.s

    def on_answer(self, claimed: Iterable[JobPartition], answer: Iterable[RecordRefused]) -> None:
        """Notes Kafka's answer to these claims, and logs the refused ones."""
        gone = {number: one.error for one in answer if (number := self._job.owner_of(one)) is not None}
        wait_s = 0.0
        for partition in claimed:
            number = partition.number
            if number not in gone:
                self.forget(number)
                continue
            wait_s = self._retry_s.get(number, RETRY_FIRST_S)
            self._retry_s[number] = min(2 * wait_s, RETRY_MAX_S)
            self.refused[number] = self._agenda.now.s + wait_s
        if gone:
            about = {"partitions": sorted(gone), "error": next(iter(gone.values())), "again_in_s": wait_s}
            self._agenda.do(Say("error", "Kafka does not take claims: partitions are not served", about))

    def forget(self, number: int) -> None:
        """Forgets this partition: its claim was accepted, or it is no longer claimed."""
        self.refused.pop(number, None)
        self._retry_s.pop(number, None)
