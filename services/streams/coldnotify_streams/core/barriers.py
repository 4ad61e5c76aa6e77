"""Barriers: requests wait until the table and logs are read up to where they ended when the requests arrived. Pure.

The run asks the shell for these ends after the requests have arrived. Theory of operation: run.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coldnotify_streams.core.actions import AskEnds, AskTimes, Doing, Pause, Say, Serve
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.events import Offsets, Where
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.core.partition_progress import JobTopics, PendingRequests
from coldnotify_streams.errors import RunFailure

Requests = dict[int, list[tuple[int, Any]]]
"""(offset, request) pairs, by partition."""


class Barriers:
    """Those of one run."""

    def __init__(
        self,
        topics: JobTopics,
        partitions: Mapping[int, JobPartition],
        agenda: Agenda,
        *,
        timeout_s: float,
        pending_max: int,
    ) -> None:
        """`partitions` are those of the run, which changes them. run.Limits explains `timeout_s` and `pending_max`."""
        self._topics = topics
        self._partitions = partitions
        self._agenda = agenda
        self._timeout_s = timeout_s
        self._pending_max = pending_max

    def wait_for_inputs(self, requests: Requests) -> Doing[None]:
        """Parks these requests until the table, and the logs that they need, are read up to their present ends."""
        if self._topics.logs:
            yield from self._resolve_times(requests)
        table = self._topics.table
        need: list[Where] = []
        for number, batch in requests.items():
            partition = self._partitions[number]
            if any(map(partition.needs_barrier, _requests(batch))):
                need.append((table, number))
            if self._topics.logs:
                logs = set(map(partition.needs_log, _requests(batch)))
                need += [(log, number) for log in self._topics.logs if log in logs]
        # Also behind a transaction that is still open: what was acknowledged behind it is owed, too.
        ends: Offsets = {}
        if need:
            ends = yield from self._agenda.ask(AskEnds(need, uncommitted=True))
        barriers: dict[int, dict[str, int]] = {}
        for (topic, number), end in ends.items():
            if end < position_in(self._partitions[number], topic):
                # Answered from what was read of the old one, a wake would miss what the new one has by now.
                raise RunFailure(f"the topic {topic} ends below what was read of it: it was made anew")
            barriers.setdefault(number, {})[topic] = end
        for number, batch in requests.items():
            self._partitions[number].pending.append(PendingRequests(barriers.get(number, {}), batch))

    def _resolve_times(self, requests: Requests) -> Doing[None]:
        """Replaces the times of logs in requests by offsets."""
        asked = [
            (number, at, times)
            for number, batch in requests.items()
            for at, (_, request) in enumerate(batch)
            if (times := self._partitions[number].times_of(request))
        ]
        if not asked:
            return
        places = [((topic, number), ms) for number, _, times in asked for topic, ms in times]
        offsets: Iterator[int] = iter((yield from self._agenda.ask(AskTimes(places))))
        for number, at, times in asked:
            offset, request = requests[number][at]
            found = [next(offsets) for _ in times]
            requests[number][at] = offset, self._partitions[number].at_offsets(request, found)

    def look_at(self, partition: JobPartition) -> Doing[None]:
        """Checks a partition whose first requests still wait. Raises Failure if they would wait for ever."""
        waiting, now_s = partition.pending[0], self._agenda.now.s
        if waiting.seen_waiting_s is None:
            waiting.seen_waiting_s = now_s
            waiting.seen_at = _read_of(partition, waiting)
        if now_s - waiting.seen_waiting_s <= self._timeout_s:
            return
        read = _read_of(partition, waiting)
        if read <= waiting.seen_at:
            places = [(topic, partition.number) for topic in _behind(partition, waiting)]
            ends = yield from self._agenda.ask(AskEnds(places, uncommitted=False))
            for topic, number in ends:
                if position_in(partition, topic) < ends[topic, number]:
                    raise RunFailure(f"partition {number}: the topic {topic} is not read any further")
                words = f"requests wait for a transaction that is open on {topic}"
                self._agenda.do(Say("warning", words, {"partition": number}))
        waiting.seen_waiting_s, waiting.seen_at = now_s, read

    def bound(self, partition: JobPartition) -> None:
        """Holds the reader back while too many of its requests wait: further ones stay in Kafka."""
        waiting = partition.requests_pending
        if not partition.held_back and waiting > self._pending_max:
            partition.held_back = True
            about = {"partition": partition.number, "pending": waiting}
            words = f"requests held back, {' and '.join(_behind(partition, partition.pending[0]))} is behind"
            self._agenda.do(Pause(partition.number), Say("warning", words, about))
        elif partition.held_back and waiting <= self._pending_max // 2:
            partition.held_back = False
            self._agenda.do(Serve(partition.number, from_beginning=False))


def is_reached(partition: JobPartition, waiting: PendingRequests) -> bool:
    """Returns true if these requests can be handled now."""
    return all(position_in(partition, topic) >= end for topic, end in waiting.barriers.items())


def _behind(partition: JobPartition, waiting: PendingRequests) -> list[str]:
    return [topic for topic, end in waiting.barriers.items() if position_in(partition, topic) < end]


def _requests(batch: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    return (request for _, request in batch)


def position_in(partition: JobPartition, topic: str) -> int:
    """Returns the next offset of the table, or of a log."""
    return partition.position if topic == partition.topics.table else partition.positions.get(topic, 0)


def _read_of(partition: JobPartition, waiting: PendingRequests) -> int:
    return sum(position_in(partition, topic) for topic in waiting.barriers)
