"""Records of a partition's state that no matcher wrote, or a later release: survived, set aside, overwritten.

Stands for: stored_state, records_aside
"""

import pytest
from coldnotify_matcher.engine import ProducedRecord
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX, generation_max
from coldnotify_schemas.records import PLACE_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.errors import NewerFormat
from coldnotify_testkit.engine_bench import CLUSTER, PARTITION
from coldnotify_testkit.partition_bench import ENDS, KEY, bucket, claim, own, partition, record, session, written_claim

TOPICS = TopicNames()


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        (TOPICS.sessions, b"\xff", b"x"),
        (TOPICS.sessions, b"a/b", b"x"),
        (TOPICS.sessions, b"a/b/c/d", session()),
        (TOPICS.registrations, b"a/b/c", bucket("a")),
        (TOPICS.registrations, b"a/b/c/x", bucket("a")),
        (TOPICS.registrations, b"a/b/c/01", bucket("a")),
        (TOPICS.registrations, b"a/b/c/99999999999999999999", bucket("a")),
        (TOPICS.registrations, "a/b/c/\u0661".encode(), bucket("a")),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_key_that_is_none_is_tombstoned_once(topic: str, key: bytes, value: object, when: str) -> None:
    one = partition()
    if when == "after":
        own(one)
    one.on_record(record(topic, key, value), 0)
    if when == "before":
        assert one.take_repairs() == [], "not while it is not ours"
        own(one)

    aside, tombstone = one.take_repairs()
    assert (aside.topic, aside.key) == (TOPICS.rejected, key)
    assert dict(aside.headers)[PLACE_HEADER] == f"{topic}/{PARTITION}@0".encode()
    assert tombstone == ProducedRecord(topic, PARTITION, key, None)
    one.on_record(record(topic, key, None), 0)
    assert one.take_repairs() == []
    assert one.engine.state.clients == {}


STRANGE_VALUES = [
    (TOPICS.sessions, b""),
    (TOPICS.sessions, b"\xff"),
    (TOPICS.sessions, b"[" * 10000),
    (TOPICS.sessions, session(gateway="x")),
    (TOPICS.sessions, session(gateway="+" + "1" * 15)),
    (TOPICS.sessions, session(session=-1)),
    (TOPICS.sessions, session(session=1 << 32)),
    (TOPICS.sessions, session(cursor=1 << 63)),
    (TOPICS.sessions, session(cursor=ENDS.table)),
    (TOPICS.sessions, session(cursor=-2)),
    (TOPICS.sessions, session(applied=ENDS.requests)),
    (TOPICS.sessions, session(applied=-2)),
    (TOPICS.sessions, session(inbox=CLUSTER.inboxes)),
    (TOPICS.sessions, session(last_seen=1 << 62)),
    (TOPICS.sessions, session(last_seen=-1)),
    (TOPICS.sessions, session(generation=(1 << 64) - 1)),
    (TOPICS.sessions, session(generation=generation_max(0) + 1)),
    (TOPICS.sessions, session(generation=-1)),
    (TOPICS.sessions, session() | {"format": 0}),
    (TOPICS.sessions, b'{"format":1,"generation":1e400}'),
    (TOPICS.sessions, b'{"format":1,"generation":%s}' % (b"9" * 5000)),
    (TOPICS.registrations, b"{}"),
    (TOPICS.registrations, bucket("")),
    (TOPICS.registrations, bucket("x" * 256)),
    (TOPICS.registrations, bucket("a") | {"applied": "x"}),
    (TOPICS.registrations, bucket("a", applied=1 << 62)),
    (TOPICS.registrations, bucket("a", generation=(1 << 64) - 1)),
    (TOPICS.registrations, bucket(*(str(n) for n in range(BUCKET_OBJECTS_MAX + 1)))),
]


@pytest.mark.parametrize(("topic", "value"), STRANGE_VALUES)
def test_a_value_that_is_none_is_survived_and_overwritten(topic: str, value: object) -> None:
    one = partition()
    key = KEY if topic == TOPICS.sessions else f"{KEY}/0"
    one.on_record(record(topic, key, value), 0)
    own(one)

    writes = one.engine.take_step(0).state
    (aside,) = one.take_repairs()

    assert [(write.topic, write.key, write.value) for write in writes] == [(topic, key.encode(), None)]
    assert (aside.topic, aside.key) == (TOPICS.rejected, key.encode())
    assert one.engine.state.counts[f"set_aside:{topic}:not_understood"] == 1


@pytest.mark.parametrize("generation", [(1 << 64) - 1, generation_max(0) + 1])
def test_a_claim_that_nobody_can_have_made_is_outdone_by_ours(generation: int) -> None:
    one = partition()
    one.on_record(record(TOPICS.sessions, "@generation", claim(generation, "b")), 0)
    own(one)

    assert one.engine.state.generation == 1
    assert [write.topic for write in one.take_repairs()] == [TOPICS.rejected], "our claim stands behind it already"


def test_above_the_highest_claim_that_is_believed_there_is_room_as_time_goes_on() -> None:
    now_ms = 1_800_000_000_000
    one = partition()
    one.on_record(record(TOPICS.sessions, "@generation", claim(generation_max(now_ms), "b")), now_ms)
    claimed = one.claim().value

    assert written_claim(claimed) == generation_max(now_ms) + 1 <= generation_max(now_ms + 100)
    one.on_record(record(TOPICS.sessions, "@generation", claimed, 1), now_ms + 100)
    assert one.claimed


def test_an_offset_of_an_earlier_requests_topic_may_be_any() -> None:
    one = partition()
    one.on_record(record(TOPICS.sessions, "@generation", claim(3, "b", requests_topic_id="another")), 0)
    one.on_record(record(TOPICS.sessions, KEY, session(3, applied=ENDS.requests + 5), 1), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", generation=3, applied=1 << 40), 1), 0)
    own(one)

    assert [obj.name for obj in one.engine.state.clients[KEY].objects()] == ["a"]
    assert one.take_repairs() == []


def test_a_strange_value_that_was_overwritten_while_loading_is_left_alone() -> None:
    one = partition()
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", b"nonsense"), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a"), 1), 0)
    own(one)

    assert [obj.name for obj in one.engine.state.clients[KEY].objects()] == ["a"]
    assert one.engine.take_step(0).state == []


def test_a_record_of_a_later_release_is_refused() -> None:
    one = partition()
    one.on_record(record(TOPICS.sessions, KEY, session() | {"format": 4}), 0)
    with pytest.raises(NewerFormat, match="format 4"):
        one.claim()
    one.on_record(record(TOPICS.sessions, KEY, None, 1), 0)
    assert own(one).engine.state.clients == {}
    with pytest.raises(NewerFormat, match="format 4"):
        one.on_record(record(TOPICS.sessions, KEY, session() | {"format": 4}, 2), 0)


def test_a_record_of_a_later_release_behind_the_load_is_refused_before_the_claim_is_back_too() -> None:
    one = partition()
    one.claim()
    with pytest.raises(NewerFormat, match="format 4"):
        one.on_record(record(TOPICS.sessions, KEY, session() | {"format": 4}), 0)
    assert not one.claimed


def test_records_without_a_key_are_nobodys() -> None:
    one = partition()
    one.on_record(JobRecord(TOPICS.sessions, PARTITION, 0, end=False, value=b"x"), 0)

    assert own(one).take_repairs() == []
