"""The warm standby follows the partitions of other members, so that a takeover skips the load. Pure.

Followed partitions have no outputs, so nothing is committed, and an error costs only the load.
"""

from collections.abc import Iterable

from coldnotify_streams.core.actions import Action, Follow, Say, Unfollow
from coldnotify_streams.core.events import Began, Event, ReaderFailed, Records, UnreadableOffsets
from coldnotify_streams.core.job import Job, JobPartition

RETRY_AFTER_S = 30.0
"""How long until a failed reader is replaced. Meanwhile a takeover loads from the beginning."""


class FollowedPartitions:
    """The partitions that are followed, and how far."""

    def __init__(self, job: Job) -> None:
        self.partitions: dict[int, JobPartition] = {}
        self._job = job
        self._retry_at_s = 0.0
        self._not_followed: set[int] = set()
        """Partitions with records that cannot be handled: a takeover loads them from the beginning."""

    def follow(self, numbers: Iterable[int], now_s: float) -> list[Action]:
        """Also follows these partitions, from the beginning."""
        new = sorted(set(numbers) - self.partitions.keys() - self._not_followed)
        if not new or now_s < self._retry_at_s:
            return []
        for number in new:
            self.partitions[number] = self._job.partition(number)
        return [*(Follow(number) for number in new), Say("info", "following partitions of others", {"partitions": new})]

    def take(self, number: int) -> tuple[JobPartition | None, list[Action]]:
        """Stops following a partition and returns its state; None if it was not followed."""
        partition = self.partitions.pop(number, None)
        return partition, [] if partition is None else [Unfollow(number)]

    def on_event(self, event: Event, now_s: float, now_ms: int) -> list[Action]:
        """Take in one small batch."""
        if isinstance(event, Began):
            if event.partition in self.partitions:
                self.partitions[event.partition].reading = True
        elif isinstance(event, ReaderFailed):
            self.partitions.clear()
            self._retry_at_s = now_s + RETRY_AFTER_S
            about = {"reason": str(event.error), "retry_in_s": RETRY_AFTER_S}
            return [Say("warning", "nothing is followed for a while", about)]
        elif isinstance(event, Records):
            return self._on_records(event, now_ms)
        elif isinstance(event, UnreadableOffsets):
            partition = self.partitions.get(event.partition)
            if partition is not None and partition.reading:
                partition.on_unreadable(event)
        return []

    def _on_records(self, event: Records, now_ms: int) -> list[Action]:
        done: list[Action] = []
        for record in event.records:
            partition = self.partitions.get(record.partition)
            if partition is None or not partition.reading:
                continue  # taken over meanwhile, or of an earlier time
            if record.end:
                partition.on_end(record.topic, record.offset)
                continue
            try:
                partition.on_record(record, now_ms)
            except Exception as error:
                # A record that its owner has set aside, too. One of a later release may raise at the claim alone: it is
                # followed then. What is owned here goes on.
                about = {"partition": record.partition, "reason": repr(error)}
                self._not_followed.add(record.partition)
                done += [Say("warning", "partition not followed", about), *self.take(record.partition)[1]]
        return done
