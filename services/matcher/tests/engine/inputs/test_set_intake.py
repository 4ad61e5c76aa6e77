"""A log with sets means the same to each owner: a set is done as a whole or not at all, whatever dies in between.

Publishers write sets, conditions and plain versions of the same objects while an owner reads and decides. Owners die
between the records that they write behind a set, or write these when another one has taken over; the log is compacted,
each key by itself, up to any place that is old.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from coldnotify_matcher.engine import Engine, Intervals, Rules
from coldnotify_matcher.engine.inputs.set_intake import SetIntake
from coldnotify_matcher.engine.objects.condition_rule import verdict_of
from coldnotify_matcher.engine.objects.history import PUBLISHED, REFUSED, UNDECIDABLE
from coldnotify_matcher.engine.objects.set_rule import SetRule
from coldnotify_matcher.engine.writing.outbox import EngineOutbox
from coldnotify_matcher.engine.writing.repairs import Repairs
from coldnotify_matcher.record_headers import HeadedObjectRecord, read_headers
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.atomic_sets import DecidedSet, parse_set, set_key
from coldnotify_schemas.decisions import ConditionVerdict
from coldnotify_schemas.records import ConditionalRecord, parse_objects_record
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    DOMAIN,
    EPOCH,
    GROUP,
    PARTITION,
    PARTITIONS,
    PREFIX,
    EngineBench,
    fan_outs,
    pages,
    versions,
)

TOPICS = TopicNames()
NAMES = ("a", "b", "c")
NOW_MS = 1_700_000_000_000
OLD_CYCLES = 4
"""An owner has decided a record, and read that back, after so many steps."""
Headers = tuple[tuple[str, bytes], ...]
Write = tuple[bytes | None, bytes | None, Headers]
"""(key, value, headers)."""
Newest = dict[str, tuple[int, bytes, bool]]
"""By object: (version, payload, true if it is there)."""
NOTHING = (-1, b"", False)


def published_set(bench: EngineBench, id_: str, value: bytes) -> int:
    return bench.log.append(TOPICS.objects, set_key(DOMAIN, GROUP, id_).encode(), value).offset


def outcome_of(bench: EngineBench, offset: int) -> tuple[str, list[tuple[str, int, str]]]:
    taken = bench.engine.history.outcome(offset)
    assert taken is not None
    return taken.outcome, [(one.object, one.version, one.reason) for one in taken.members]


def test_all_members_are_published_at_one_offset() -> None:
    bench = EngineBench()
    bench.opened("a", "b", "c")
    bench.version("a", 5)
    bench.items()
    offset = published_set(
        bench, "1", b'{"set":[{"object":"a","if_version":5,"payload":1},{"object":"b","version":7},{"object":"x"}]}'
    )
    items = bench.items()
    assert [one[:3] for one in fan_outs(items)] == [("a", 6, offset), ("b", 7, offset)]
    told = [item.fan_out.newest for item in items if item.WhichOneof("item") == "fan_out"]
    # With the last one of its own, whatever others are told, a client has all.
    assert [(one.behind, one.more) for one in told] == [(1, True), (0, False)]
    assert outcome_of(bench, offset) == (PUBLISHED, [("a", 6, ""), ("b", 7, ""), ("x", 1, "")])
    latest = bench.latest(TOPICS.objects)
    assert set_key(DOMAIN, GROUP, "1") not in latest
    assert latest[f"{PREFIX}a"] == b'{"version":6,"payload":1,"incarnation":0}'


def test_a_single_member_is_conflated_as_any_publish() -> None:
    bench = EngineBench(rules=Rules(conflation=Intervals({DOMAIN: 100})))
    bench.opened("a")
    bench.items()
    for version in range(1, 6):
        published_set(bench, str(version), b'{"set":[{"object":"a","version":%d}]}' % version)
    assert [one[:2] for one in fan_outs(bench.items())] == [("a", 1)]
    bench.now_ms += 100
    bench.engine.flush(bench.now_ms)
    assert [one[:2] for one in fan_outs(bench.items())] == [("a", 5)]


def test_none_is_published_if_one_member_does_not_hold() -> None:
    bench = EngineBench()
    bench.opened("a", "b")
    bench.version("a", 5)
    bench.items()
    offset = published_set(bench, "1", b'{"set":[{"object":"b"},{"object":"a","if_version":4}]}')
    assert not bench.items()
    reason = "if_version: another version is the newest"
    assert outcome_of(bench, offset) == (REFUSED, [("b", -1, ""), ("a", 5, reason)])
    assert f"{PREFIX}b" not in bench.latest(TOPICS.objects)


def test_a_repeated_id_gets_the_first_outcome() -> None:
    bench = EngineBench()
    value = b'{"set":[{"object":"a","if_absent":true},{"object":"b"}]}'
    published_set(bench, "1", value)
    bench.settle()
    bench.version("a", 99)
    offset = published_set(bench, "1", value)
    bench.settle()
    assert outcome_of(bench, offset) == (PUBLISHED, [("a", 1, ""), ("b", 1, "")])
    assert [obj.version for obj in map(bench.engine.state.object_of, (f"{PREFIX}a", f"{PREFIX}b"))] == [99, 1]
    bench.load()
    offset = published_set(bench, "1", value)
    bench.settle()
    assert outcome_of(bench, offset)[0] == PUBLISHED


@pytest.mark.parametrize("lost", range(5))
def test_a_successor_completes_what_its_predecessor_has_begun(lost: int) -> None:
    bench = EngineBench()
    for session, names in enumerate((("a", "b", "c"), ("a", "c"), ("b",)), 1):
        bench.opened(*names, session=session, client=f"client-{session}")
    offset = published_set(bench, "1", b'{"set":[{"object":"a"},{"object":"b"},{"object":"c"}]}')
    step = bench.step()
    assert len(step.state) == 3
    assert len(step.tombstones) == 1
    bench.make_durable(step, writes_lost=lost, inboxes_lost=len(step.inboxes))
    bench.load()
    told = {
        (name, session) for name, _, at, sessions in fan_outs(bench.items()) for session in sessions if at == offset
    }
    assert told == {("a", 1), ("b", 1), ("c", 1), ("a", 2), ("c", 2), ("b", 3)}
    assert outcome_of(bench, offset)[0] == PUBLISHED
    assert len(bench.latest(TOPICS.objects)) == 3


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b'{"set":[]}', "set"),
        (b'{"set":[{"object":"a"},{"object":"a"}]}', "set[1].object"),
        (b'{"set":[{"version":1}]}', "set[0].object"),
        (b'{"set":[{"object":"a","version":-1}]}', "set[0].version"),
        (b'{"set":[{"object":"a"},{"object":"b","priority":"high"}]}', "set[1].priority"),
        (b'{"set":[{"object":"a","group":"other"}]}', "set[0].record"),
        (b'{"set":[{"object":"a","if_absent":true,"if_version":1}]}', "set[0].if_absent"),
        (b"nonsense", "set"),
    ],
)
def test_an_invalid_set_is_rejected_as_a_whole(value: bytes, field: str) -> None:
    bench = EngineBench()
    offset = published_set(bench, "1", value)
    bench.settle()
    taken = bench.engine.history.outcome(offset)
    assert taken is not None
    assert taken.reason.partition(": ")[0] == field
    assert not bench.engine.state.objects.get(f"{PREFIX}a")


def test_a_page_ends_between_offsets_and_never_within_one() -> None:
    bench = EngineBench()
    bench.opened("a", "b", "c", "d")
    bench.version("first", 1)
    bench.version("d", 1)
    payload = b'"' + b"x" * 700 + b'"'
    members = b",".join(b'{"object":"%b","payload":%b}' % (name, payload) for name in (b"a", b"b", b"c"))
    offset = published_set(bench, "1", b'{"set":[%b]}' % members)
    bench.items()
    bench.open(["a", "b", "c", "d"], cursor=0, session=2, page_bytes=1024)
    (first,) = pages(bench.items())
    assert (versions(first.newest), first.complete, first.last) == ([("d", 1)], offset - 1, False)
    bench.catch_up(first.complete, page=first.page, ask=first.ask, session=2, paging=first.paging, page_bytes=1024)
    (second,) = pages(bench.items())
    assert {name for name, _ in versions(second.newest)} == {"a", "b", "c"}
    assert [(one.behind, one.more) for one in second.newest] == [(1, True), (1, True), (0, False)]


def test_a_member_that_was_published_again_comes_with_its_set() -> None:
    bench = EngineBench()
    names = ["a", "b", "c", "big"]
    bench.opened(*names)
    bench.version("first", 1)
    first = published_set(bench, "1", b'{"set":[{"object":"a","version":1},{"object":"b","version":1}]}')
    bench.publish("big", b'{"version":1,"payload":"%b"}' % (b"x" * 2000))
    second = published_set(bench, "2", b'{"set":[{"object":"b","version":2},{"object":"c","version":1}]}')
    bench.publish("b", b'{"version":3}')
    bench.items()
    bench.load()
    told = {}
    for cursor in (first - 1, first, second):
        bench.open(names, cursor=cursor, session=cursor + 10, page_bytes=1024)
        (page,) = pages(bench.items())
        told[cursor] = sorted(versions(page.newest)), page.complete, page.newest[-1].behind
    # Both sets are one group, as they share an object: no page ends between them.
    assert told[first - 1][0] == [("a", 1), ("b", 3), ("big", 1), ("c", 1)]
    assert told[first - 1][1] >= second
    assert told[first][0] == [("b", 3), ("big", 1), ("c", 1)]
    assert told[second][0] == [("b", 3)]


def test_sets_that_share_objects_are_divided_where_they_fill_a_page() -> None:
    bench = EngineBench()
    names = [f"o{number:03}" for number in range(60)]
    bench.opened(*names)
    bench.version("first", 1)
    for number in range(len(names) - 1):
        members = b",".join(
            b'{"object":"%b","payload":"%b"}' % (one.encode(), b"x" * 2500) for one in names[number : number + 2]
        )
        published_set(bench, str(number), b'{"set":[%b]}' % members)
    bench.items()
    bench.open(names, cursor=0, session=2)
    (page,) = pages(bench.items())
    told, size = dict(versions(page.newest)), page.ByteSize()
    while not page.last:
        assert size < 80_000
        bench.catch_up(page.complete, page=page.page, ask=page.ask, session=2, paging=page.paging)
        (page,) = pages(bench.items())
        # Whoever stops here lacks what is above the cursor.
        assert all(
            bench.engine.state.object_of(f"{PREFIX}{name}").offset > page.complete
            for name in names
            if name not in told | dict(versions(page.newest))
        )
        told |= dict(versions(page.newest))
        size = page.ByteSize()
    assert told.keys() == set(names)


def set_of(names: list[str], payload: bytes) -> bytes:
    members = b",".join(b'{"object":"%b","payload":%b}' % (name.encode(), payload) for name in names)
    return b'{"set":[%b]}' % members


def test_pages_stay_small_where_one_object_is_in_every_set() -> None:
    bench = EngineBench()
    names = [f"{'a' * 200}{number:03}" for number in range(990)]
    bench.opened("hub", *names)
    bench.version("first", 1)
    for at in range(0, len(names), 99):
        published_set(bench, str(at), set_of(["hub", *names[at : at + 99]], b"1"))
    bench.items()
    bench.open(["hub", *names], cursor=0, session=2)
    (page,) = pages(bench.items())
    assert page.ByteSize() < 80_000


def test_each_page_moves_the_cursor_behind_what_it_tells() -> None:
    bench = EngineBench()
    names = [f"o{number:03}" for number in range(100)]
    bench.opened("late", *names)
    bench.version("first", 1)
    cursor = 0
    for turn in range(2):
        cursor = bench.engine.state.position - 1
        for at in range(0, len(names), 20):
            published_set(bench, f"{turn} {at}", set_of(names[at : at + 20], b'"%b"' % (b"x" * 2500)))
            bench.items()
    # Each object was in a set before the cursor, too, and not all of them fit into a page.
    published_set(bench, "last", set_of([names[0], "late"], b"1"))
    bench.items()
    bench.open(["late", *names], cursor=cursor, session=2)
    told = []
    while True:
        (page,) = pages(bench.items())
        assert page.ByteSize() < 80_000
        told += versions(page.newest)
        if page.last:
            break
        bench.catch_up(page.complete, page=page.page, ask=page.ask, session=2, paging=page.paging)
    assert len(told) == len({name for name, _ in told}) == 101


# --- logs as they are drawn


class Written(NamedTuple):
    record: HeadedObjectRecord
    newest: Newest


class Log:
    """A partition with a few objects, and what each of its sets is."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        """The records that compaction has left."""
        self.end = 0
        self.newest: Newest = dict.fromkeys(NAMES, NOTHING)
        self.outcomes: dict[int, str] = {}
        """By the offset of a set."""
        self.by_id: dict[bytes, str] = {}
        self.compacted_to = 0

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int = 7, headers: Headers = ()) -> None:
        said = read_headers(headers)
        record = HeadedObjectRecord(key, value, self.end, timestamp_ms, *said)
        if value is not None and key is not None and not (said.decided or said.decided_sets or said.since):
            if key.startswith(b"set:"):
                self._take_set(key, value, timestamp_ms)
            else:
                self._take(key.decode().removeprefix(PREFIX), value, timestamp_ms, arrives=said.arrival is not None)
        self.end += 1
        self.records.append(Written(record, dict(self.newest)))

    def _take_set(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        if key in self.by_id:
            self.outcomes[self.end] = self.by_id[key]
            return
        members = parse_set(value).members
        after = [self._after(self.newest[one.object], one.said, timestamp_ms) for one in members]
        if won := all(one is not None for one in after):
            self.newest |= {one.object: now for one, now in zip(members, after, strict=True) if now is not None}
        self.outcomes[self.end] = self.by_id[key] = PUBLISHED if won else REFUSED

    def _take(self, name: str, value: bytes, timestamp_ms: int, *, arrives: bool) -> None:
        said = parse_objects_record(value)
        if isinstance(said, ConditionalRecord):
            self.newest[name] = self._after(self.newest[name], said, timestamp_ms) or self.newest[name]
            return
        newest = self.newest[name][0]
        next_ = timestamp_ms if newest < 0 else newest + 1
        version = next_ if arrives and said.version is None else said.version_at(timestamp_ms)
        if version >= newest:
            self.newest[name] = version, said.payload_bytes, not said.deleted

    @staticmethod
    def _after(
        newest: tuple[int, bytes, bool], said: ConditionalRecord, timestamp_ms: int
    ) -> tuple[int, bytes, bool] | None:
        version, payload, there = newest
        same = there and payload == said.payload_bytes
        if said.if_changed and there is not said.deleted and (same or not there):
            return newest
        next_ = said.version if said.version is not None else timestamp_ms if version < 0 else version + 1
        holds = next_ > version and (said.if_version is None or said.if_version == version)
        return (next_, said.payload_bytes, not said.deleted) if holds and not (said.if_absent and there) else None

    def compact(self, up_to: int) -> None:
        """Keep the last record of each key below `up_to`, and all from there on."""
        last = {one.record.key: one.record.offset for one in self.records if one.record.offset < up_to}
        self.records = [
            one for one in self.records if one.record.offset >= up_to or last[one.record.key] == one.record.offset
        ]
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

    def step(self) -> list[Write]:
        """Reads up to the end. Returns what is to be written then, in order."""
        self.read_to(self.log.end)
        step = self.engine.take_step(NOW_MS)
        return [
            (one.key, one.value, one.headers) for one in (*step.state, *step.tombstones) if one.topic == TOPICS.objects
        ]

    def read_to(self, end: int) -> None:
        state = self.engine.state
        for one in self.log.records:
            if state.position <= one.record.offset < end:
                self.engine.on_object(one.record, NOW_MS)
                if state.live:
                    assert self.newest() == one.newest
        for offset, outcome in self.log.outcomes.items():
            taken = self.engine.history.outcome(offset)
            if taken is not None and offset >= self.log.compacted_to:
                # Behind a compaction it is not known any more who has published with an ID.
                gone = self.log.compacted_to and taken.outcome == UNDECIDABLE
                assert (REFUSED if gone else taken.outcome) == outcome, offset

    def newest(self) -> Newest:
        found = {name: self.engine.state.objects.get(f"{PREFIX}{name}") for name in NAMES}
        return {
            name: NOTHING if obj is None or obj.version < 0 else (obj.version, obj.payload, obj.there)
            for name, obj in found.items()
        }


def member(log: Log, random: Random, name: str, number: int) -> bytes:
    newest, payload, _ = log.newest[name]
    fields = [b'"object":"%b"' % name.encode()]
    fields.append(b'"payload":%b' % (payload if payload and random.random() < 0.2 else b"%d" % number))
    kind = random.choice("vvvn0c")
    if kind == "v":
        fields.append(b'"if_version":%d' % max(newest + random.choice([-1, 0, 0, 0, 0, 0]), 0))
    elif kind == "0":
        fields.append(b'"if_absent":true')
    elif kind == "c":
        fields.append(b'"if_changed":true')
    if random.random() < 0.4:
        fields.append(b'"version":%d' % max(newest + random.choice([0, 1, 1, 2, 5]), 0))
    if random.random() < 0.1:
        fields.append(b'"deleted":true')
    return b"{%b}" % b",".join(fields)


def publish(log: Log, random: Random, number: int) -> None:
    name = random.choice(NAMES)
    key, newest = f"{PREFIX}{name}".encode(), log.newest[name][0]
    kind = random.choice("sssnavx")
    if kind == "s":
        names = random.sample(NAMES, random.randint(1, len(NAMES)))
        # An ID is repeated while all of its records are in the log.
        before = random.randint(max(log.compacted_to, log.end - 6), log.end)
        id_ = before if random.random() < 0.3 else log.end
        value = b'{"set":[%b]}' % b",".join(member(log, random, one, number) for one in names)
        log.append(set_key(DOMAIN, GROUP, str(id_)).encode(), value)
    elif kind == "n":
        log.append(key, b'{"version":%d,"payload":%d}' % (newest + 1 + random.choice([0, 0, 3]), number))
    elif kind == "a":
        log.append(key, b'{"payload":%d}' % number, NOW_MS // 10**6, (arrival_header(),))
    elif kind == "v":
        log.append(key, b'{"if_version":%d,"payload":%d}' % (max(newest + random.choice([-1, 0, 0]), 0), number))
    else:
        log.append(key, b'{"deleted":true,"version":%d}' % (newest + 1))


def play(random: Random) -> None:
    log = Log()
    for name in random.sample(NAMES, random.randint(0, len(NAMES))):
        log.append(f"{PREFIX}{name}".encode(), b'{"version":100,"payload":"first"}')
    owner, generation = Owner(log, 1), 1
    ends, late = [0], list[Write]()
    busy = random.choice([1, 3])
    for number in range(0, 400, 10):
        for one in range(random.randint(0, busy)):
            publish(log, random, number + one)
        writes = owner.step()
        for one in range(random.randint(0, busy)):
            publish(log, random, number + 5 + one)
        for key, value, headers in late:  # a former owner has not heard yet that it is none any more
            log.append(key, value, headers=headers)
        late = []
        if random.random() < 0.25:
            ends = [ends[0]]  # nothing becomes old meanwhile
            done = random.randint(0, len(writes))
            for key, value, headers in writes[:done]:
                log.append(key, value, headers=headers)
            if random.random() < 0.5:
                late = writes[done:]
            generation += 1
            owner = Owner(log, generation)
            continue
        for key, value, headers in writes:
            log.append(key, value, headers=headers)
        ends.append(log.end)
        if len(ends) > OLD_CYCLES:
            old = ends[-OLD_CYCLES - 1]
            ends[0] = old
            if random.random() < 0.5:
                log.compact(random.randint(max(0, old - 8), old))
            Owner(log, generation + 1)


def play_many(seeds: int) -> None:
    for seed in range(seeds):
        play(Random(f"slip {seed}"))


@pytest.mark.parametrize("seed", range(8))
def test_each_owner_reads_the_same(seed: int) -> None:
    for part in range(8):
        play(Random(f"sets {seed} {part}"))


# --- slips


def _decides_member_by_member(patch: pytest.MonkeyPatch) -> None:
    def decide(self: SetRule, key: str, objects: list, said: object, record: object) -> DecidedSet:  # type: ignore[type-arg]
        members = zip(objects, said.members, strict=True)  # type: ignore[attr-defined]
        alone = [verdict_of(obj, one.said, record) for obj, one in members]  # type: ignore[arg-type]
        pairs = tuple((max(one.version, 0), one.incarnation) for one in alone)
        return DecidedSet(record.offset, ConditionVerdict.WON, pairs)  # type: ignore[attr-defined]

    patch.setattr(SetRule, "decide", decide)


def _null_comes_first(patch: pytest.MonkeyPatch) -> None:
    write = EngineOutbox.write

    def write_last(self: EngineOutbox, record: object) -> None:
        write(self, record)  # type: ignore[arg-type]
        self._step.state.insert(0, self._step.state.pop())

    patch.setattr(EngineOutbox, "write_last", write_last)


def _successor_leaves_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SetIntake, "finish_load", lambda self: None)


def _counts_without_its_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SetIntake, "note_decided", lambda self, headers, offset: ([], []))


def _last_word_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SetRule, "agrees", lambda self, decided: True)
    patch.setattr(SetRule, "decide", _forgetful(SetRule.decide))


def _forgetful(decide: Callable[..., DecidedSet]) -> Callable[..., DecidedSet]:
    def forget(self: SetRule, key: str, *rest: object) -> DecidedSet:
        self._by_key.pop(key, None)
        return decide(self, key, *rest)

    return forget


def _says_no_versions(patch: pytest.MonkeyPatch) -> None:
    write = Repairs.decide_set

    def decide_set(self: Repairs, key: str, objects: list, decided: DecidedSet) -> None:  # type: ignore[type-arg]
        write(self, key, objects if len(objects) == 1 else objects[:-1], decided)

    patch.setattr(Repairs, "decide_set", decide_set)


@pytest.mark.parametrize(
    "slip",
    [
        _decides_member_by_member,
        _null_comes_first,
        _successor_leaves_it,
        _counts_without_its_record,
        _last_word_counts,
        _says_no_versions,
    ],
)
def test_slips_are_found(slip: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        slip(patch)
        with pytest.raises(AssertionError):
            play_many(300)
