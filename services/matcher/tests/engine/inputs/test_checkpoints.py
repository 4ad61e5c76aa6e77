"""A log with records by arrival means the same to each owner, whatever compaction has removed before it loads.

Publishers write while an owner reads and answers; owners die; the log is compacted up to any place that is old.
"""

from random import Random
from typing import NamedTuple

import msgspec
import pytest
from coldnotify_checker.histories import Record
from coldnotify_checker.topic_contents import merge
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.record_headers import HeadedObjectRecord, read_headers
from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER, arrival_header
from coldnotify_schemas.records import parse_public_record, since_header
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import EPOCH, PARTITION, PARTITIONS, PREFIX

TOPICS = TopicNames()
KEY = f"{PREFIX}lamp".encode()
NOW_MS = 1_700_000_000_000
OLD_CYCLES = 4
"""An owner has answered a record, and its own answers, after so many steps."""
Newest = tuple[int, int, bytes]
"""(incarnation, version, payload)."""


class Written(NamedTuple):
    """One record, and the newest version as of then."""

    record: HeadedObjectRecord
    newest: Newest


class Log:
    """A partition with one object."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        """What compaction has left."""
        self.end = 0
        self.newest: Newest = (0, -1, b"")

    def append(self, value: bytes | None, timestamp_ms: int, headers: tuple[tuple[str, bytes], ...]) -> None:
        said = read_headers(headers)
        record = HeadedObjectRecord(
            KEY, value, self.end, timestamp_ms, said.moved, said.traceparent, said.since, said.removes, said.urgent,
            said.arrival,
        )  # fmt: skip
        self.end += 1
        if value is not None:
            self._take(value, timestamp_ms, said.arrival)
        self.records.append(Written(record, self.newest))

    def _take(self, value: bytes, timestamp_ms: int, arrival: bytes | None) -> None:
        said = parse_public_record(value)
        incarnation, newest, _ = self.newest
        version = timestamp_ms if said.version is None else said.version
        if arrival is not None and said.version is None and newest >= 0:
            version = newest + 1 if newest < 10**12 else max(newest + 1, timestamp_ms)
        one = incarnation if said.incarnation is None else said.incarnation, version, said.payload_bytes
        if one[:2] >= self.newest[:2]:
            self.newest = one

    def compact(self, up_to: int) -> None:
        """Keep the last record below `up_to`, and all from there on."""
        old = [one for one in self.records if one.record.offset < up_to]
        self.records = old[-1:] + [one for one in self.records if one.record.offset >= up_to]


class Owner:
    """The engine that has the partition. It has loaded the log."""

    def __init__(self, log: Log, generation: int) -> None:
        self.log = log
        self.engine = Engine(PARTITION, PARTITIONS, EPOCH)
        self.engine.loading.start(log.end)
        self._read(log.end)
        self.engine.finish_load(generation, 1, NOW_MS, objects_committed=log.end)

    def read(self) -> list[tuple[bytes | None, tuple[tuple[str, bytes], ...]]]:
        """Reads up to the end. Returns what is to be written then."""
        self._read(self.log.end)
        return [(one.value, one.headers) for one in self.engine.take_step(NOW_MS).state if one.topic == TOPICS.objects]

    def _read(self, end: int) -> None:
        state = self.engine.state
        for one in self.log.records:
            if state.position <= one.record.offset < end:
                self.engine.on_object(one.record, NOW_MS)
                if state.live:
                    assert self.newest() == one.newest
        assert self.newest() == self.log.newest

    def newest(self) -> Newest:
        obj = self.engine.state.objects.get(KEY.decode())
        return (0, -1, b"") if obj is None else (obj.incarnation, obj.version, obj.payload)


def publish(log: Log, random: Random, number: int, kinds: str) -> None:
    kind = random.choice(kinds)
    payload = b'"%d"' % number
    newest = log.newest[1]
    now_ms = NOW_MS + number // 3 + random.choice([0, 0, 5, -5])
    if kind == "a":
        log.append(b'{"payload":%s}' % payload, now_ms, (arrival_header(),))
    elif kind == "n":
        log.append(b'{"version":%d,"payload":%s}' % (max(newest + random.choice([-3, 0, 1, 1]), 0), payload), 7, ())
    elif kind == "l":
        log.append(b'{"version":%d,"payload":%s}' % (random.choice([3, now_ms - 9, now_ms]), payload), 7, ())
    elif kind == "i":
        said = log.newest[0] + random.choice([0, 1])
        log.append(b'{"version":%d,"incarnation":%d,"payload":%s}' % (number, said, payload), 7, ())
    elif kind == "x":
        log.append(None, now_ms, ())


@pytest.mark.parametrize("kinds", ["a", "aaan", "aaaaaan", "aaaanlx", "aaaanlix"])
@pytest.mark.parametrize("first", ["numbered", "time", "nothing"])
def test_each_owner_reads_the_same(kinds: str, first: str) -> None:
    for seed in range(6):
        random = Random(f"{kinds} {first} {seed}")
        play(random, kinds, first)


def play(random: Random, kinds: str, first: str) -> None:
    log = Log()
    if first == "numbered":
        log.append(b'{"version":100,"payload":"first"}', 7, ())
    elif first == "time":
        log.append(b'{"payload":"first"}', NOW_MS + random.choice([0, 20]), ())
    owner, generation = Owner(log, 1), 1
    ends = [0]
    busy = random.choice([1, 3])
    for number in range(0, 600, 10):
        for one in range(random.randint(0, busy)):
            publish(log, random, number + one, kinds)
        writes = owner.read()
        for one in range(random.randint(0, busy)):
            publish(log, random, number + 5 + one, kinds)
        if random.random() < 0.1:
            writes, ends = writes[: random.randint(0, 1)], [ends[0]]  # it dies: nothing becomes old meanwhile
            for write in writes:
                log.append(write[0], NOW_MS + number, write[1])
            generation += 1
            owner = Owner(log, generation)
            continue
        for write in writes:
            log.append(write[0], NOW_MS + number, write[1])
        ends.append(log.end)
        if len(ends) > OLD_CYCLES:
            old = ends[-OLD_CYCLES - 1]
            ends[0] = old
            if random.random() < 0.5:
                log.compact(random.randint(max(0, old - 8), old))
            Owner(log, generation + 1)
            assert checked(log) == log.newest[:2]


def checked(log: Log) -> tuple[int, int]:
    """Returns the newest version as the checker reads it of what is left."""
    events = [
        Record(
            topic=TOPICS.objects,
            partition=PARTITION,
            offset=one.record.offset,
            timestamp=one.record.timestamp_ms,
            key=KEY.decode(),
            value=None if one.record.value is None else msgspec.json.decode(one.record.value),
            arrival=None if one.record.arrival is None else one.record.arrival.decode(),
        )
        for one in log.records
    ]
    held = merge(events, TOPICS).newest.get(KEY.decode())
    return (0, -1) if held is None else held.key


def test_a_checkpoint_is_written_only_where_the_version_is_not_the_timestamp() -> None:
    log = Log()
    owner = Owner(log, 1)
    for number in range(3):
        log.append(b"{}", NOW_MS + number, (arrival_header(),))
        assert owner.read() == []
    log.append(b"{}", NOW_MS, (arrival_header(),))

    written = owner.read()

    value = b'{"version":%d,"incarnation":0}' % (NOW_MS + 3)
    assert written == [(value, (since_header(EPOCH, 3), (ARRIVAL_HEADER, b"%08x/3" % EPOCH)))]
    log.append(*written[0][:1], NOW_MS, written[0][1])
    assert owner.read() == []


def test_the_records_kept_behind_a_checkpoint_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_matcher.engine.inputs.checkpoints.UNREAD_MAX", 3)
    log = Log()
    for number in range(9):
        said = b'{"version":%d,"incarnation":0}' % number
        log.append(said, 7, (since_header(EPOCH, 0), (ARRIVAL_HEADER, b"%08x/0" % EPOCH)))

    engine = Engine(PARTITION, PARTITIONS, EPOCH)
    engine.loading.start(0)
    for one in log.records:
        engine.on_object(one.record, NOW_MS)
        assert sum(len(kept) for _, kept in engine.intake.checkpoints._behind.values()) <= 3
