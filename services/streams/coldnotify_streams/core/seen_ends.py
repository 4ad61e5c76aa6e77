"""Asks once a second, beside the run, where the inputs of partitions end: so a partition can prove how fresh it is.

A partition that has read up to an end has read everything that was acknowledged before that end was asked for. It
keeps the ends with their times, and tells whom it serves the time since the newest one that it has reached.
"""

from collections.abc import Mapping

from coldnotify_streams.core.actions import LookAtEnds
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.barriers import position_in
from coldnotify_streams.core.events import EndsSeen, Where
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.core.partition_progress import JobTopics, OwningPhase
from coldnotify_streams.errors import RunFailure


class SeenEnds:
    """The questions of one run about ends."""

    def __init__(self, topics: JobTopics, partitions: Mapping[int, JobPartition], agenda: Agenda) -> None:
        """`partitions` are those of the run, which changes them."""
        self._requests = topics.requests
        self._inputs = (topics.table, *topics.logs)
        self._partitions = partitions
        self._agenda = agenda
        self._asked: dict[Where, int] | None = None
        """For each place of the question that is not answered yet, how far it was read when it was asked."""

    def on_tick(self) -> None:
        """Asks about the partitions that are served and want to know, unless the last question is unanswered."""
        if self._asked is not None:
            return
        places = {
            (topic, partition.number): position_in(partition, topic)
            for partition in self._partitions.values()
            if partition.phase is OwningPhase.OWNED and partition.wants_ends
            for topic in self._inputs
        }
        for partition in self._partitions.values():
            if partition.phase is OwningPhase.OWNED and partition.wants_ends_of_requests:
                places[self._requests, partition.number] = partition.requests_read
        if places:
            self._asked = places
            self._agenda.do(LookAtEnds(tuple(places)))

    def on_seen(self, seen: EndsSeen) -> None:
        """Hands on the answer. Raises RunFailure if a log ends below what was read of it before it was asked for."""
        asked, self._asked = self._asked or {}, None
        for (topic, number), end in seen.ends.items():
            if end < asked.get((topic, number), 0):
                raise RunFailure(f"the topic {topic} ends below what was read of it: it was made anew")
            partition = self._partitions.get(number)
            if partition is not None and partition.phase is OwningPhase.OWNED:
                partition.on_end_seen(topic, seen.at_s, end)
