"""Records of descriptions as they come: in force, outdone, malformed, in a wrong partition; and all that once more."""

from typing import Any

import pytest
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.objects.description_store import StoredDescription
from coldnotify_schemas.descriptions import KEY_PREFIX, Description
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import MOVED_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, PARTITIONS, PREFIX, EngineBench
from coldnotify_testkit.queries import PATIENT
from hypothesis import given
from hypothesis import strategies as st

TOPICS = TopicNames()

KEY = f"{KEY_PREFIX}{PREFIX}lamp".encode()
RED, BLUE = b'{"description":{"colour":"red"}}', b'{"description":{"colour":"blue"}}'
NONE = b'{"description":null}'
STRAY_GROUP = next(f"stray-{i}" for i in range(100) if partition_of("d", f"stray-{i}", PARTITIONS) != PARTITION)
STRAY_HOME = partition_of("d", STRAY_GROUP, PARTITIONS)
STRAY_KEY = f"{KEY_PREFIX}d/{STRAY_GROUP}/lamp".encode()
RECORDS = st.lists(st.tuples(st.sampled_from([RED, BLUE, NONE, b"{}", None]), st.integers(1, 6)), max_size=10)


def describe(
    bench: EngineBench, value: bytes | None, timestamp_ms: int, key: bytes = KEY, *, moved: bool = False
) -> int:
    headers = ((MOVED_HEADER, b"3@9"),) if moved else ()
    return bench.log.append(TOPICS.objects, key, value, timestamp_ms=timestamp_ms, headers=headers).offset


def described(bench: EngineBench) -> StoredDescription | None:
    return bench.engine.state.descriptions.of(f"{DOMAIN}/{GROUP}", "lamp")


def in_force(bench: EngineBench) -> tuple[Description | None, int] | None:
    found = described(bench)
    return None if found is None else (found.description, found.version)


def of_description(bench: EngineBench) -> list[tuple[bytes | None, int]]:
    """The records of the description, in the order of the log."""
    return [(record.value, record.timestamp_ms) for record in bench.log.records[TOPICS.objects] if record.key == KEY]


def reasons(bench: EngineBench) -> list[str]:
    return [dict(write.headers)[REASON_HEADER].decode() for write in bench.log.rejected]


def test_a_description_is_held_and_nothing_is_written() -> None:
    bench = EngineBench()
    describe(bench, RED, 5)
    bench.settle()
    assert in_force(bench) == ({"colour": "red"}, 5)
    assert (reasons(bench), of_description(bench)) == ([], [(RED, 5)])
    assert len(bench.engine.state.objects) == 0
    assert bench.engine.state.position == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "record: is null"),
        (b"x", "record: is not JSON"),
        (b'{"version":3}', "record: "),
        (b'{"description":{"a b":1}}', "description: 'a b' is not a key"),
    ],
)
def test_what_is_no_description_is_rejected_and_the_one_in_force_written_again(
    value: bytes | None, reason: str
) -> None:
    bench = EngineBench()
    describe(bench, RED, 5)
    describe(bench, value, 9)
    bench.settle()
    assert in_force(bench) == ({"colour": "red"}, 5)
    assert [said.startswith(reason) for said in reasons(bench)] == [True]
    assert of_description(bench) == [(RED, 5), (value, 9), (RED, 5)]


def test_an_outdone_one_is_written_over_with_the_timestamp_of_the_one_in_force() -> None:
    bench = EngineBench()
    describe(bench, NONE, 9)
    describe(bench, RED, 5)
    bench.settle()
    assert reasons(bench) == []
    assert of_description(bench) == [(NONE, 9), (RED, 5), (NONE, 9)]
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert in_force(bench) == (None, 9)


@pytest.mark.parametrize("key", [b"describe:", b"describe:a/b", b"describe:a b/c/d", b"describe:\xff/a/b"])
def test_a_key_of_nothing_is_rejected(key: bytes) -> None:
    bench = EngineBench()
    describe(bench, RED, 5, key)
    bench.settle()
    assert len(reasons(bench)) == 1
    bench.engine.intake.skip_object(key, 0)
    assert len(bench.engine.state.descriptions) == 0


@PATIENT
@given(RECORDS, st.integers(0, 10), st.booleans())
def test_live_and_rebuilt_are_the_same(records: list[tuple[Any, int]], split: int, compacted: bool) -> None:
    at_once, reloaded = EngineBench(), EngineBench()
    for number, (value, timestamp_ms) in enumerate(records):
        for bench in (at_once, reloaded):
            describe(bench, value, timestamp_ms)
            bench.settle()
        if number == split:
            if compacted:
                reloaded.log.compact(TOPICS.objects)
            reloaded.load()
    reloaded.load()
    assert in_force(reloaded) == in_force(at_once)
    assert reasons(reloaded) == reasons(at_once)
    assert of_description(reloaded)[-1:] == of_description(at_once)[-1:]
    at_once.log.compact(TOPICS.objects)
    at_once.load()
    assert in_force(at_once) == in_force(reloaded)


def test_what_a_predecessor_did_not_commit_is_rejected_by_who_loads_it() -> None:
    bench = EngineBench()
    describe(bench, RED, 5)
    bench.settle()
    describe(bench, b"{}", 9)
    step = bench.load()
    assert [write.topic for write in step.state] == [TOPICS.rejected, TOPICS.objects]
    assert in_force(bench) == ({"colour": "red"}, 5)
    bench.log.rejected.clear()
    bench.load()
    assert reasons(bench) == []


def test_what_a_standby_has_read_it_may_read_again() -> None:
    bench = EngineBench()
    for value in (RED, BLUE):
        describe(bench, value, 5)
    engine = Engine(PARTITION, PARTITIONS, bench.cluster.epoch)
    bench.partition.engine = engine
    engine.loading.start(1 << 63)
    records = bench.log.records[TOPICS.objects]
    for record in records:
        bench.partition.on_record(record, bench.now_ms)
    engine.loading.start(0)
    for record in records[:1]:
        bench.partition.on_record(record, bench.now_ms)
    engine.finish_load(1, 4, bench.now_ms, objects_committed=0)
    assert in_force(bench) == ({"colour": "blue"}, 5)


def test_a_stray_is_moved_with_its_timestamp_then_tombstoned() -> None:
    bench = EngineBench()
    describe(bench, RED, 7, STRAY_KEY)
    step = bench.settle()
    (move,) = step.state
    assert (move.partition, move.key, move.value, move.timestamp_ms) == (STRAY_HOME, STRAY_KEY, RED, 7)
    assert move.headers == ((MOVED_HEADER, f"{PARTITION}@0".encode()),)
    (tombstone,) = step.tombstones
    assert (tombstone.partition, tombstone.key, tombstone.value) == (PARTITION, STRAY_KEY, None)
    assert reasons(bench) == []
    assert len(bench.engine.state.descriptions) == 0


@pytest.mark.parametrize(("value", "moved", "reason"), [(b"{}", False, "record: "), (RED, True, "key: belongs to")])
def test_a_stray_that_cannot_be_moved_is_rejected(value: bytes, moved: bool, reason: str) -> None:
    bench = EngineBench()
    describe(bench, value, 7, STRAY_KEY, moved=moved)
    bench.settle()
    assert bench.log.elsewhere == []
    assert [said.startswith(reason) for said in reasons(bench)] == [True]


@pytest.mark.parametrize("live", [True, False])
def test_behind_a_record_that_is_set_aside_the_description_is_written_again(live: bool) -> None:
    bench = EngineBench()
    describe(bench, RED, 5)
    bench.settle()
    offset = describe(bench, BLUE, 9)
    if live:
        bench.engine.intake.skip_object(KEY, offset)
    else:
        engine = Engine(PARTITION, PARTITIONS, bench.cluster.epoch)
        engine.loading.start(0)
        for record in bench.log.records[TOPICS.objects][:1]:
            bench.partition.engine = engine
            bench.partition.on_record(record, bench.now_ms)
        engine.intake.skip_object(KEY, offset)
        engine.finish_load(1, 4, bench.now_ms, objects_committed=0)
    (write,) = bench.engine.take_step(bench.now_ms).state
    assert (write.key, write.value, write.timestamp_ms) == (KEY, RED, 5)
