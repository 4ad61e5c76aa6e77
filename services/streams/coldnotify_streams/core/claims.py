"""Claims that Kafka did not take: each is written again, as it is, after a while. Pure.

Nothing of such a claim came back, so nothing has to be loaded anew. What Kafka refuses today (a limit that is too low,
a time that is too far ahead) it may take once the topic's limit, or the clock, has been set right.
"""

from collections.abc import Iterable, Mapping

from coldnotify_streams.core.actions import Say
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.job import Job, JobPartition, Phase, Refused

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 10.0
"""A claim costs one record. Whoever has set right what was wrong does not wait for long."""


class Claims:
    """Those of one run."""

    def __init__(self, job: Job, agenda: Agenda) -> None:
        self.refused: dict[int, float] = {}
        """By partition whose last claim was refused: when it is written again (monotonic)."""
        self._job = job
        self._agenda = agenda
        self._retry_s: dict[int, float] = {}
        """By partition whose claims were refused: the pause before the next one."""

    def due(self, partitions: Mapping[int, JobPartition]) -> list[JobPartition]:
        """Those of which the next generation is to be claimed now, among these, by number."""
        for number in self.refused.keys() - partitions.keys():
            self.forget(number)
        return [p for p in partitions.values() if p.loaded or p.must_claim_again or self._is_due(p)]

    def _is_due(self, partition: JobPartition) -> bool:
        at_s = self.refused.get(partition.number)
        return at_s is not None and partition.phase is Phase.CLAIMING and at_s <= self._agenda.now.s

    def on_answer(self, claimed: Iterable[JobPartition], answer: Iterable[Refused]) -> None:
        """What Kafka said to these claims. Says in the log which it does not take."""
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
        """This partition's claim was taken, or it is claimed no more."""
        self.refused.pop(number, None)
        self._retry_s.pop(number, None)
