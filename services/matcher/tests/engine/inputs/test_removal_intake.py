"""Nulls as they are read: which remove, behind which the version in force is written again, and that this ends.

Stands for: removal_intake
"""

import json
from typing import Any

import pytest
from coldnotify_matcher.engine import RetentionRules, Rules
from coldnotify_matcher.engine.objects.objects import UNKNOWN
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import REASON_HEADER
from coldnotify_schemas.removals import REMOVES_HEADER, removes_header
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, PARTITION, PARTITIONS, PREFIX, EngineBench
from coldnotify_testkit.queries import PATIENT
from hypothesis import given
from hypothesis import strategies as st

TOPICS = TopicNames()

KEY = f"{PREFIX}o".encode()
OF_DESCRIPTION = KEY_PREFIX.encode() + KEY
RED, BLUE = (b'{"description":{"colour":"%s"}}' % colour for colour in (b"red", b"blue"))
AFTER_MS = 30 * 86_400_000


def null(bench: EngineBench, header: bytes | None, key: bytes = KEY) -> None:
    headers = () if header is None else ((REMOVES_HEADER, header),)
    bench.log.append(TOPICS.objects, key, None, headers=headers)


def newest(bench: EngineBench) -> tuple[int, int] | None:
    """(incarnation, version) of the object, as the engine has it."""
    obj = bench.engine.state.objects.get(KEY.decode())
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def description(bench: EngineBench) -> Any:
    found = bench.engine.state.descriptions.of(f"{DOMAIN}/{GROUP}", "o")
    return None if found is None else found.description


def last(bench: EngineBench, key: bytes = KEY) -> Any:
    """What compaction would leave under a key."""
    value = bench.latest(TOPICS.objects).get(key.decode())
    return None if value is None else json.loads(value)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("header", "removed"),
    [
        (b"1/5", True),
        (b"1/6", True),
        (b"2/0", True),
        (b"1/4", False),
        (b"0/9", False),
        (None, False),
        (b"nonsense", False),
        (b"1/5@%08x/0" % EPOCH, True),
        (b"1/5@%08x/0" % (EPOCH + 1), False),
    ],
)
def test_before_a_newer_one_or_without_the_header_it_is_no_removal(
    header: bytes | None, removed: bool, loaded: bool
) -> None:
    bench = EngineBench()
    bench.publish("o", b'{"version":5,"incarnation":1}')
    null(bench, header)
    bench.load() if loaded else bench.settle()

    assert newest(bench) == (None if removed else (1, 5))
    assert last(bench) == (None if removed else {"version": 5, "incarnation": 1})
    expected = [] if header is not None and header != b"nonsense" else ["record: is null"]
    reasons = [dict(write.headers)[REASON_HEADER].decode()[:15] for write in bench.log.rejected]
    assert reasons == expected
    assert loaded or bench.engine.state.counts.get("nulls_void", 0) == (not removed)
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert newest(bench) == (None if removed else (1, 5))


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("between", [b'{"version":5}', b'{"version":4}', b'{"version":6}'])
def test_what_was_published_since_its_owner_looked_stays_be_it_a_repeat(between: bytes, loaded: bool) -> None:
    bench = EngineBench()
    bench.version("o", 5)
    bench.publish("o", between)
    null(bench, b"0/5@%08x/0" % EPOCH)
    bench.load() if loaded else bench.settle()

    version = 6 if b"6" in between else 5
    assert newest(bench) == (0, version)
    assert last(bench) == {"version": version, "incarnation": 0}


def test_a_null_of_a_matcher_that_is_none_any_more_removes_nothing_that_was_published_anew() -> None:
    bench = EngineBench()
    bench.version("o", 5)
    header = b"0/5@%08x/0" % EPOCH
    null(bench, header)
    bench.version("o", 5)
    null(bench, header)
    bench.settle()
    assert newest(bench) == (0, 5)
    assert last(bench) == {"version": 5, "incarnation": 0}


def test_a_second_one_finds_nothing_and_is_not_rejected() -> None:
    bench = EngineBench()
    bench.version("o", 5)
    null(bench, b"0/5")
    null(bench, b"0/5")
    bench.settle()
    assert (newest(bench), len(bench.engine.state.objects), bench.log.rejected) == (None, 0, [])
    assert not bench.step()


def test_who_begins_the_versions_of_a_removed_object_over_may() -> None:
    bench = EngineBench()
    bench.publish("o", b'{"version":5,"incarnation":1}')
    null(bench, b"1/5")
    bench.publish("o", b'{"version":0,"incarnation":2}')
    bench.settle()
    assert newest(bench) == (2, 0)


def test_one_in_a_wrong_partition_or_under_no_key_removes_nothing() -> None:
    group = next(f"g{i}" for i in range(100) if partition_of(DOMAIN, f"g{i}", PARTITIONS) != PARTITION)
    bench = EngineBench()
    null(bench, b"0/5", f"{DOMAIN}/{group}/o".encode())
    null(bench, b"0/5", f"{KEY_PREFIX}{DOMAIN}/{group}/o".encode())
    null(bench, b"0/5", b"nonsense")
    bench.settle()
    assert len(bench.log.rejected) == 1
    assert len(bench.engine.state.objects) == 0


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("header", "removed"),
    [(b"0/7", True), (b"0/8", True), (b"0/6", False), (b"0/7@%08x/0" % EPOCH, False), (None, False)],
)
def test_a_description_goes_by_its_timestamp(header: bytes | None, removed: bool, loaded: bool) -> None:
    bench = EngineBench()
    bench.describe("o", RED, timestamp_ms=7)
    bench.describe("o", BLUE, timestamp_ms=6)
    null(bench, header, OF_DESCRIPTION)
    bench.load() if loaded else bench.settle()

    assert description(bench) == (None if removed else {"colour": "red"})
    assert last(bench, OF_DESCRIPTION) == (None if removed else {"description": {"colour": "red"}})
    assert bool(bench.engine.state.descriptions.groups()) is not removed


def test_it_ends_a_null_that_removes_nothing_is_followed_by_one_record_and_the_time_begins_anew() -> None:
    bench = EngineBench(rules=Rules(retention=RetentionRules({DOMAIN: AFTER_MS})))
    bench.publish("o", b'{"version":5}', timestamp_ms=bench.now_ms)
    bench.settle()
    bench.now_ms += AFTER_MS
    bench.engine.on_tick(bench.now_ms)
    step = bench.engine.take_step(bench.now_ms)
    bench.publish("o", b'{"version":5}', timestamp_ms=bench.now_ms)
    bench.make_durable(step)
    for _ in range(20):
        bench.tick(1000)
    values = [record.value for record in bench.log.records[TOPICS.objects]]
    assert values == [b'{"version":5}', b'{"version":5}', None, b'{"version":5,"incarnation":0}']
    bench.tick(AFTER_MS - 19_001)
    assert newest(bench) == (0, 5)
    bench.tick(1)
    assert newest(bench) is None
    assert len(bench.log.records[TOPICS.objects]) == 5


HEADERS = st.one_of(
    st.none(),
    st.just(b"nonsense"),
    st.builds(lambda i, v: b"%d/%d" % (i, v), st.integers(0, 2), st.integers(0, 4)),
    st.builds(lambda i, v, to: removes_header(i, v, EPOCH, to)[1], *(st.integers(0, top) for top in (2, 4, 9))),
)
RECORDS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 4), st.sampled_from([None, 0, 1, 2])),
        st.tuples(st.just("describe"), st.sampled_from([RED, BLUE]), st.integers(0, 4)),
        st.tuples(st.just("null"), HEADERS, st.booleans()),
        st.tuples(st.just("tick"), st.integers(0, 2), st.none()),
    ),
    max_size=12,
)


@PATIENT
@given(RECORDS, st.integers(0, 12), st.booleans(), st.booleans())
def test_live_and_rebuilt_are_the_same_and_it_comes_to_rest(
    records: list[tuple[str, Any, Any]], split: int, compacted: bool, together: bool
) -> None:
    """`together`: what a reader finds behind a pause, instead of one record at a time. `Bench.settle` sees an end."""
    rules = Rules(retention=RetentionRules({DOMAIN: 2000}))
    benches = [EngineBench(rules=rules) for _ in range(2)]
    reloaded = benches[1]
    for number, (kind, what, more) in enumerate(records):
        for bench in benches:
            if kind == "publish":
                incarnation = b"" if more is None else b',"incarnation":%d' % more
                bench.publish("o", b'{"version":%d%s}' % (what, incarnation), timestamp_ms=bench.now_ms)
            elif kind == "describe":
                bench.describe("o", what, timestamp_ms=more)
            elif kind == "null":
                null(bench, what, OF_DESCRIPTION if more else KEY)
            else:
                bench.tick(what * 1000)
            if not together:
                bench.settle()
        if number == split:
            reloaded.settle()
            if compacted:
                reloaded.log.compact(TOPICS.objects)
            reloaded.load()
    for bench in benches:
        bench.settle()
        before = newest(bench), description(bench)
        bench.load()
        assert (newest(bench), description(bench)) == before
        bench.log.compact(TOPICS.objects)
        bench.load()
        assert (newest(bench), description(bench)) == before
        bench.tick(10_000)
        bench.tick(10_000)
        assert (newest(bench), description(bench), len(bench.engine.state.objects)) == (None, None, 0)
        assert bench.latest(TOPICS.objects) == {}
