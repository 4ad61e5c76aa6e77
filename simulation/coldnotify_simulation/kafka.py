"""Kafka as the simulation knows it: topics of partitions with offsets, committed offsets, and nothing else."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from coldnotify_schemas.matcher_state import ENDED_BY_HEADER, GENERATION_KEY, RegistrationsRecord, is_wills_key
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.job import EPOCH_MARK

TOPICS = TopicNames()

PARTITIONS = 2
"""Partitions of the co-partitioned topics: one for each group, so that a record can be misplaced."""
INBOXES = 2

Headers = tuple[tuple[str, bytes], ...]


class LogEntry(NamedTuple):
    """One record of a partition."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class PartitionLog:
    """Records in the order of their offsets; there may be gaps."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.start = 0
        self.end = 0
        self.open_at: int | None = None
        """The offset at which an open transaction begins: consumers get nothing from there on."""
        self.unreadable: set[int] = set()
        """Offsets of records that no reader can read."""

    @property
    def stable_end(self) -> int:
        """Up to where it can be read."""
        return self.end if self.open_at is None else min(self.end, self.open_at)

    def open_transaction(self) -> None:
        """Begins a transaction: consumers get nothing from here on, although it is acknowledged."""
        if self.open_at is None:
            self.open_at = self.end

    def end_transaction(self) -> None:
        """Commits the transaction: its marker takes an offset."""
        if self.open_at is not None:
            self.open_at = None
            self.end += 1

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """The record's offset."""
        self.entries.append(LogEntry(self.end, timestamp_ms, key, value, headers))
        self.end += 1
        return self.end - 1

    def append_unreadable(self) -> int:
        """The offset of a record that Kafka has taken, and that no reader can read."""
        self.unreadable.add(self.end)
        self.end += 1
        return self.end - 1

    def gap_from(self, offset: int) -> tuple[int, int] | None:
        """Returns the first unreadable gap from `offset` on: its first offset, and the first above it."""
        start = min((one for one in self.unreadable if one >= offset), default=None)
        if start is None:
            return None
        behind = start + 1
        while behind in self.unreadable:
            behind += 1
        return start, behind

    def read(self, offset: int, records_max: int) -> list[LogEntry]:
        """Returns entries from `offset` on."""
        entries = self.entries
        if not entries or entries[-1].offset < offset:
            return []
        first = bisect_left(entries, offset, key=lambda entry: entry.offset)
        return entries[first : first + records_max]

    def truncate(self, end: int) -> None:
        """Loses everything from `end` on: a disk that lied, a restored backup."""
        self.entries = [entry for entry in self.entries if entry.offset < end]
        self.unreadable = {offset for offset in self.unreadable if offset < end}
        self.end = min(self.end, end)
        self.start = min(self.start, self.end)

    def remove(self, offset: int) -> None:
        """Lose one record."""
        self.entries = [entry for entry in self.entries if entry.offset != offset]

    def remove_below(self, offset: int) -> None:
        """Retention removes everything below."""
        self.start = max(self.start, min(offset, self.end))
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]

    def at_time(self, timestamp_ms: int) -> int:
        """Returns the offset of the first record of this time or later; the log's end if there is none."""
        return next((entry.offset for entry in self.entries if entry.timestamp_ms >= timestamp_ms), self.end)

    def expire(self) -> None:
        """Retention removes everything."""
        self.entries, self.start = [], self.end

    def compact(
        self,
        spared: Callable[[bytes], bool] = lambda _key: False,
        null_stays: Callable[[LogEntry], bool] = lambda _entry: False,
        young_from: int | None = None,
    ) -> None:
        """Keep the last record of each key, and no null but those that stay; all records of `spared` keys, and all from
        the offset `young_from` on.

        Kafka's cleaner stops where an open transaction begins.
        """
        end = self.stable_end if young_from is None else min(self.stable_end, young_from)
        last = {entry.key: entry.offset for entry in self.entries if entry.offset < end}

        def stays(entry: LogEntry) -> bool:
            if entry.offset >= end or (entry.key is not None and spared(entry.key)):
                return True
            return last[entry.key] == entry.offset and (entry.value is not None or null_stays(entry))

        self.entries = [entry for entry in self.entries if stays(entry)]


@dataclass(slots=True)
class SimulatedTopic:
    """One topic, until it is deleted."""

    name: str
    id: str
    partitions: list[PartitionLog]


SIZES = {
    TOPICS.objects: PARTITIONS,
    TOPICS.requests: PARTITIONS,
    TOPICS.registrations: PARTITIONS,
    TOPICS.sessions: PARTITIONS,
    TOPICS.notifications: INBOXES,
    TOPICS.rejected: 1,
    TOPICS.channels_1d: PARTITIONS,
    TOPICS.channels_state: PARTITIONS,
    TOPICS.shares: PARTITIONS,
}
"""Number of partitions of each topic. All domains have one log for their channels, the default."""


class Kafka:
    """All topics. `on_append(topic, partition, entry)` is called for each record."""

    def __init__(self, on_append: Callable[[str, int, LogEntry], None]) -> None:
        self._on_append = on_append
        self._made = 0
        self.ahead_ms = 0
        """How far its clock is ahead of the true time."""
        self.stamps = True
        """It stamps inbox records with its own time, as topics.yaml wants it."""
        self.ahead_max_ms: int | None = None
        """It rejects records whose timestamps are further ahead of its own clock (`message.timestamp.after.max.ms`)."""
        self.closed: set[str] = set()
        """Topics that take no record, because of what somebody has set them to."""
        self.topics: dict[str, SimulatedTopic] = {}
        self.committed: dict[tuple[str, int], tuple[int, str]] = {}
        """Committed offsets of the matchers' group, each with a mark. They outlive their topic: a committer may not
        know that it is gone.
        """
        for name in SIZES:
            self.recreate(name)

    def recreate(self, name: str) -> None:
        """Deletes the topic, and creates it again: empty, with another id."""
        self._made += name != TOPICS.shares  # so that the others have the ids that they had without it
        self.topics[name] = SimulatedTopic(name, f"{name}#{self._made}", [PartitionLog() for _ in range(SIZES[name])])

    def committed_offset(self, topic: str, partition: int) -> tuple[int, str]:
        """Returns the committed offset of the present topic, or -1 if none, and its mark."""
        offset, mark = self.committed.get((topic, partition), (-1, ""))
        return (offset if mark.partition(EPOCH_MARK)[0] == self.topics[topic].id else -1), mark

    def log(self, topic: str, partition: int) -> PartitionLog:
        """One partition of a topic."""
        return self.topics[topic].partitions[partition]

    def append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> int:
        """The record's offset."""
        log = self.log(topic, partition)
        offset = log.append(timestamp_ms, key, value, tuple(headers))
        self._on_append(topic, partition, log.entries[-1])
        return offset


class _Order(msgspec.Struct):
    generation: int
    applied: int = -1


_order = msgspec.json.Decoder(_Order)
_registrations = msgspec.json.Decoder(RegistrationsRecord)


def state_order(value: bytes) -> tuple[int, int]:
    """(generation, applied) of a record of registrations or sessions: the higher one wins."""
    order = _order.decode(value)
    return order.generation, order.applied


def merged_registrations(log: PartitionLog) -> dict[str, RegistrationsRecord]:
    """Returns the winning record of each bucket in a partition of registrations, which has wills, too."""
    winners = {key: value for key, value in merged_state(log).items() if not is_wills_key(key)}
    return {key: _registrations.decode(value) for key, value in winners.items()}


def merged_state(log: PartitionLog) -> dict[str, bytes]:
    """Returns the winning value of each client's key in a partition of registrations or sessions.

    A null ends what precedes it and what an earlier generation writes later, but nothing of a later generation.
    """
    winners: dict[str, bytes] = {}
    ended: dict[str, int] = {}
    for entry in log.entries:
        if entry.key is None or entry.key == GENERATION_KEY.encode():
            continue
        key = entry.key.decode()
        if entry.value is None:
            by = int(dict(entry.headers).get(ENDED_BY_HEADER, b"0"))
            if key in winners and 0 < by < state_order(winners[key])[0]:
                continue
            winners.pop(key, None)
            ended[key] = max(by, ended.get(key, 0)) if by else 0
        elif state_order(entry.value)[0] < ended.get(key, 0):
            continue
        elif key not in winners or state_order(entry.value) >= state_order(winners[key]):
            winners[key] = entry.value
    return winners
