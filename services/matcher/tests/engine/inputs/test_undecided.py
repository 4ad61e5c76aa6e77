"""A log with conditional records means the same to each owner, whatever compaction has removed before it loads.

Publishers write while an owner reads and decides; owners die, before or behind their decisions, or write these when
another one has taken over; the log is compacted up to any place that is old.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.inputs.intake import Intake
from coldnotify_matcher.engine.inputs.undecided import Undecided
from coldnotify_matcher.engine.objects.condition_rule import ConditionRule
from coldnotify_matcher.engine.objects.history import PUBLISHED, REFUSED, REPEATED, UNDECIDABLE
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.writing.repairs import Repairs
from coldnotify_matcher.record_headers import HeadedObjectRecord, read_headers
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.decisions import DECIDED_HEADER, Decided
from coldnotify_schemas.records import ConditionalRecord, parse_objects_record
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import EPOCH, PARTITION, PARTITIONS, PREFIX

TOPICS = TopicNames()
KEY = f"{PREFIX}lamp".encode()
NOW_MS = 1_700_000_000_000
OLD_CYCLES = 4
"""An owner has decided a record, and read that back, after so many steps."""
Headers = tuple[tuple[str, bytes], ...]
Newest = tuple[int, bytes, bool]
"""(version, payload, true if it is there)."""
NOTHING: Newest = (-1, b"", False)


class Written(NamedTuple):
    """One record, and the newest version as of then."""

    record: HeadedObjectRecord
    newest: Newest


class Log:
    """A partition with one object, and what each of its conditional records is."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        """The records that compaction has left."""
        self.end = 0
        self.newest = NOTHING
        self.outcomes: dict[int, tuple[str, int]] = {}
        """By offset: outcome and version."""
        self.by_id: dict[str, tuple[str, int]] = {}
        self.compacted_to = 0

    def append(self, value: bytes | None, timestamp_ms: int = 7, headers: Headers = ()) -> int:
        offset, said = self.end, read_headers(headers)
        record = HeadedObjectRecord(KEY, value, offset, timestamp_ms, *said)
        self.end += 1
        if value is not None and not said.decided and not said.since:
            self._take(value, offset, timestamp_ms, by_arrival=said.arrival is not None)
        self.records.append(Written(record, self.newest))
        return offset

    def _take(self, value: bytes, offset: int, timestamp_ms: int, *, by_arrival: bool) -> None:
        said = parse_objects_record(value)
        newest, payload, there = self.newest
        next_ = timestamp_ms if newest < 0 else newest + 1 if newest < 10**12 else max(newest + 1, timestamp_ms)
        if not isinstance(said, ConditionalRecord):
            version = next_ if by_arrival and said.version is None else said.version_at(timestamp_ms)
            if version >= newest:
                self.newest = version, said.payload_bytes, not said.deleted
            return
        if said.id in self.by_id:
            first = self.by_id[said.id]
            self.outcomes[offset] = first if first[0] == PUBLISHED else (first[0], newest)
            return
        version = next_ if said.version is None else said.version
        same = (payload, there) == (said.payload_bytes, not said.deleted) or not (there or not said.deleted)
        if said.if_changed and same:
            outcome = REPEATED, newest
        elif version > newest and (said.if_changed or (not there if said.if_absent else newest == said.if_version)):
            outcome = PUBLISHED, version
            self.newest = version, said.payload_bytes, not said.deleted
        else:
            outcome = REFUSED, newest
        self.outcomes[offset] = outcome
        if said.id is not None:
            self.by_id[said.id] = outcome

    def compact(self, up_to: int) -> None:
        """Keep the last record below `up_to`, and all from there on."""
        old = [one for one in self.records if one.record.offset < up_to]
        self.records = old[-1:] + [one for one in self.records if one.record.offset >= up_to]
        self.compacted_to = max(self.compacted_to, up_to)


class Owner:
    """The engine that has the partition. It has loaded the log."""

    def __init__(self, log: Log, generation: int) -> None:
        self.log = log
        self.engine = Engine(PARTITION, PARTITIONS, EPOCH)
        self.engine.loading.start(log.end)
        self.read_to(log.end)
        self.engine.finish_load(generation, 1, NOW_MS, objects_committed=log.end)
        assert self.newest() == log.newest

    def step(self) -> list[tuple[bytes | None, Headers]]:
        """Reads up to the end. Returns what is to be written then."""
        self.read_to(self.log.end)
        return [(one.value, one.headers) for one in self.engine.take_step(NOW_MS).state if one.topic == TOPICS.objects]

    def read_to(self, end: int) -> None:
        state = self.engine.state
        for one in self.log.records:
            if state.position <= one.record.offset < end:
                self.engine.on_object(one.record, NOW_MS)
                if state.live:
                    assert self.newest() == one.newest
        for offset, (outcome, version) in self.log.outcomes.items():
            taken = self.engine.history.outcome(offset)
            if taken is not None and offset >= self.log.compacted_to:
                # Behind a compaction a loser's newest version may not be known any more, nor who has published with an
                # id.
                gone = outcome != PUBLISHED and self.log.compacted_to
                said = REFUSED if gone and taken.outcome == UNDECIDABLE else taken.outcome
                assert (said, version if gone else taken.version) == (outcome, version), offset

    def newest(self) -> Newest:
        obj = self.engine.state.objects.get(KEY.decode())
        return NOTHING if obj is None or obj.version < 0 else (obj.version, obj.payload, obj.there)


def publish(log: Log, random: Random, number: int, kinds: str) -> None:
    kind = random.choice(kinds)
    newest = log.newest[0]
    payload = b'"%d"' % number if random.random() < 0.8 else log.newest[1] or b'"same"'
    fields = [b'"payload":%b' % payload]
    now_ms = NOW_MS + number // 3 + random.choice([0, 0, 5, -5])
    # Of one version with two contents nothing is promised.
    version = newest + random.choice([-3 if newest >= 3 else 1, 1, 2])
    if kind == "a":
        log.append(b'{"payload":%b}' % payload, now_ms, (arrival_header(),))
        return
    if kind == "n":
        log.append(b'{"version":%d,"payload":%b}' % (version, payload))
        return
    if kind == "d":
        log.append(b'{"version":%d,"deleted":true}' % (newest + 1))
        return
    if kind == "x":
        log.append(None, now_ms)
        return
    if kind == "v":
        fields.append(b'"if_version":%d' % max(newest + random.choice([-1, 0, 0, 0, 1]), 0))
    elif kind == "0":
        fields.append(b'"if_absent":true')
    elif kind == "c":
        fields.append(b'"if_changed":true')
    if random.random() < 0.3:
        fields.append(b'"version":%d' % version)
    if random.random() < 0.5:
        # An id is repeated while all of its records are in the log.
        before = random.randint(max(log.compacted_to, log.end - 4), log.end)
        fields.append(b'"id":"%d"' % before if before not in log.outcomes else b'"id":"%d"' % log.end)
    log.append(b"{%b}" % b",".join(fields), now_ms)


@pytest.mark.parametrize("kinds", ["v", "vvn", "vvva", "vcn0d", "vvvcan0dx"])
@pytest.mark.parametrize("first", ["numbered", "time", "nothing"])
def test_each_owner_reads_the_same(kinds: str, first: str) -> None:
    for seed in range(6):
        play(Random(f"{kinds} {first} {seed}"), kinds, first)


def play(random: Random, kinds: str, first: str) -> None:
    log = Log()
    if first == "numbered":
        log.append(b'{"version":100,"payload":"first"}')
    elif first == "time":
        log.append(b'{"payload":"first"}', NOW_MS + random.choice([0, 20]))
    owner, generation = Owner(log, 1), 1
    ends, late = [0], list[tuple[bytes | None, Headers]]()
    busy = random.choice([1, 3])
    for number in range(0, 600, 10):
        for one in range(random.randint(0, busy)):
            publish(log, random, number + one, kinds)
        writes = owner.step()
        for one in range(random.randint(0, busy)):
            publish(log, random, number + 5 + one, kinds)
        for value, headers in late:  # a former owner has not heard yet that it is none any more
            log.append(value, NOW_MS + number, headers)
        late = []
        if random.random() < 0.1:
            ends = [ends[0]]  # nothing becomes old meanwhile
            if random.random() < 0.5:
                late = writes
            generation += 1
            owner = Owner(log, generation)
            continue
        for value, headers in writes:
            log.append(value, NOW_MS + number, headers)
        ends.append(log.end)
        if len(ends) > OLD_CYCLES:
            old = ends[-OLD_CYCLES - 1]
            ends[0] = old
            if random.random() < 0.5:
                log.compact(random.randint(max(0, old - 8), old))
            Owner(log, generation + 1)


def play_many(seeds: int) -> None:
    for seed in range(seeds):
        play(Random(f"slip {seed}"), "vvvcan0dx", "numbered")


def _counts_by_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("coldnotify_matcher.engine.inputs.undecided.WAITING_MAX", -1)


def _losers_leave_nothing(patch: pytest.MonkeyPatch) -> None:
    write = Repairs.decide

    def decide(self: Repairs, obj: Obj, decided: Decided) -> None:
        if decided.is_version:
            write(self, obj, decided)

    patch.setattr(Repairs, "decide", decide)


def _repeats_are_decided_again(patch: pytest.MonkeyPatch) -> None:
    rule = ConditionRule.decide

    def decide(self: ConditionRule, obj: Obj, said: ConditionalRecord, record: ObjectRecord) -> Decided:
        return rule(self, obj, msgspec.structs.replace(said, id=None), record)

    patch.setattr(ConditionRule, "decide", decide)


def _nothing_is_decided_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Intake, "decide_rest", lambda _self, _now_ms: None)


def _others_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Undecided, "__contains__", lambda _self, _key: False)


@pytest.mark.parametrize(
    "slip",
    [
        _counts_by_itself,
        _losers_leave_nothing,
        _repeats_are_decided_again,
        _nothing_is_decided_at_the_end,
        _others_do_not_wait,
    ],
)
def test_a_slip_is_found(monkeypatch: pytest.MonkeyPatch, slip: Callable[[pytest.MonkeyPatch], None]) -> None:
    slip(monkeypatch)
    with pytest.raises(AssertionError):
        play_many(60)


def test_a_winner_stays_one_when_compaction_has_removed_the_version_that_it_names() -> None:
    log = Log()
    log.append(b'{"version":5}')
    owner = Owner(log, 1)
    log.append(b'{"if_version":5,"version":6,"id":"a"}')

    (written,) = owner.step()

    value, headers = written
    assert value == b'{"version":6,"incarnation":0}'
    assert (DECIDED_HEADER, b"%08x/1 won 6 0" % EPOCH) in headers
    assert owner.engine.history.outcome(1) is None  # until that is durable
    log.append(value, NOW_MS, headers)
    owner.step()
    assert owner.engine.history.outcome(1) is not None
    log.compact(2)
    assert Owner(log, 2).newest() == log.newest == (6, b"", True)


def test_a_loser_leaves_what_was_in_force() -> None:
    log = Log()
    log.append(b'{"version":5}')
    owner = Owner(log, 1)
    log.append(b'{"if_version":4,"version":9}')
    ((value, headers),) = owner.step()
    assert value == b'{"version":5,"incarnation":0}'
    log.append(value, NOW_MS, headers)
    log.compact(3)
    assert Owner(log, 2).newest() == (5, b"", True)


def test_a_null_is_written_if_nothing_is_in_force() -> None:
    log = Log()
    owner = Owner(log, 1)
    log.append(b'{"if_version":4,"version":9}')
    ((value, headers),) = owner.step()
    assert value is None
    log.append(value, NOW_MS, headers)
    assert owner.step() == []
    assert owner.engine.history.rejections(KEY.decode()) == []
    assert KEY.decode() not in owner.engine.state.objects
    assert owner.engine.history.outcome(0) is not None


def test_the_undecided_are_decided_at_the_end_in_order() -> None:
    log = Log()
    log.append(b'{"version":5}')
    for said in (b'{"if_version":5}', b'{"if_version":5}', b'{"if_version":6}'):
        log.append(said)
    owner = Owner(log, 1)
    assert owner.newest()[0] == 7
    ((value, headers),) = owner.step()
    assert value == b'{"version":7,"incarnation":0}'
    words_said = [text for name, text in headers if name == DECIDED_HEADER]
    assert words_said == [b"%08x/%b" % (EPOCH, words) for words in (b"1 won 6 0", b"2 lost", b"3 won 7 0")]


def test_a_record_that_says_otherwise_than_the_first_is_passed_over() -> None:
    log = Log()
    log.append(b'{"version":5}')
    owner = Owner(log, 1)
    log.append(b'{"if_version":4,"version":9}')
    ((value, headers),) = owner.step()
    log.append(value, NOW_MS, headers)
    log.append(b'{"version":9,"incarnation":0}', NOW_MS, ((DECIDED_HEADER, b"%08x/1 won 9 0" % EPOCH),))
    log.newest = (5, b"", True)
    owner.step()
    assert owner.newest()[0] == Owner(log, 2).newest()[0] == 5


@pytest.mark.parametrize("loads", [False, True])
def test_a_repeat_of_what_was_decided_in_a_lost_topic_is_not_refused(loads: bool) -> None:
    log = Log()
    owner = Owner(log, 1)
    log.newest = (16, b"", True)
    log.append(b'{"version":16,"incarnation":0}', NOW_MS, ((DECIDED_HEADER, b"%08x/290 won 16 0" % (EPOCH + 1)),))
    if loads:
        owner = Owner(log, 2)
    log.append(b'{"if_version":15,"version":16,"id":"a"}')
    log.append(b'{"if_version":17,"id":"b"}')
    ((_, headers),) = owner.step()
    words_said = [text for name, text in headers if name == DECIDED_HEADER]
    assert words_said == [b"%08x/%b" % (EPOCH, words) for words in (b"1 unknown", b"2 lost")]


def test_those_that_wait_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_matcher.engine.inputs.undecided.WAITING_MAX", 3)
    log = Log()
    for _ in range(9):
        log.append(b'{"if_changed":true}')
    engine = Engine(PARTITION, PARTITIONS, EPOCH)
    engine.loading.start(0)
    for one in log.records:
        engine.on_object(one.record, NOW_MS)
        assert engine.intake._undecided._waiting <= 4


def test_a_stray_with_a_condition_is_rejected_and_not_moved() -> None:
    engine = Engine((PARTITION + 1) % PARTITIONS, PARTITIONS, EPOCH)
    engine.loading.start(0)
    engine.finish_load(1, 1, NOW_MS, objects_committed=0)
    engine.on_object(HeadedObjectRecord(KEY, b'{"if_absent":true}', 0, 7, *read_headers(())), NOW_MS)
    (written,) = engine.take_step(NOW_MS).state
    assert written.topic == TOPICS.rejected
    assert written.headers[0][1].startswith(b"if_absent: the key belongs to partition")
