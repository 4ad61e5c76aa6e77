"""A partition on its way to being owned: loaded to where its topics ended, its state merged; what it has handled."""

import json

import pytest
from coldnotify_matcher.record_headers import HeadersReader
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.matcher_state import GENERATIONS_ALWAYS_BELIEVED, ended_by_header
from coldnotify_schemas.records import PLACE_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import UnreadableOffsets
from coldnotify_streams.core.partition_progress import OwningPhase, PendingRequests
from coldnotify_streams.errors import TakenOver
from coldnotify_testkit.engine_bench import GATEWAY
from coldnotify_testkit.partition_bench import ENDS, KEY, bucket, handled_on, own, partition, record, session, written

TOPICS = TopicNames()
headers_of = HeadersReader(TOPICS)


def test_it_is_loaded_once_all_topics_are_read_to_where_they_ended() -> None:
    one = partition(objects=1, registrations=2, sessions=3)
    loaded = []
    one.on_end(TOPICS.objects, 1)
    loaded.append(one.loaded)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a"), 1), 0)
    loaded.append(one.loaded)
    one.on_record(record(TOPICS.sessions, KEY, session(), 1), 0)
    loaded.append(one.loaded)
    one.on_end(TOPICS.sessions, 3)  # the last records are compacted away
    loaded.append(one.loaded)

    assert loaded == [False, False, False, True]
    assert one.phase is OwningPhase.LOADING


@pytest.mark.parametrize("topic", [TOPICS.objects, TOPICS.registrations, TOPICS.sessions])
def test_what_nobody_can_read_is_loaded_past_and_told_once_the_partition_is_owned(topic: str) -> None:
    one = partition(objects=3, registrations=3, sessions=3)
    for other in {TOPICS.objects, TOPICS.registrations, TOPICS.sessions} - {topic}:
        one.on_end(other, 3)
    loaded = [one.loaded]
    one.on_unreadable(UnreadableOffsets(topic, 0, 1, 3, "cannot be read: broken"))
    assert [*loaded, one.loaded] == [False, True]
    (told,) = [write for write in own(one).take_step(0).state if write.topic == TOPICS.rejected]
    assert (told.key, told.value) == (None, None)
    headers = dict(told.headers)
    assert headers[PLACE_HEADER] == f"{topic}/{one.number}@1".encode()
    assert headers[REASON_HEADER] == b"2 offsets from here: cannot be read: broken"


def test_objects_that_nobody_can_read_are_not_told_again_by_who_loads_them_once_more() -> None:
    one = partition(objects=3)
    one.on_load(handled_on(table_committed=3))
    one.on_unreadable(UnreadableOffsets(TOPICS.objects, 0, 1, 3, "cannot be read: broken"))
    assert [write for write in own(one).take_step(0).state if write.topic == TOPICS.rejected] == []
    assert one.position == 3


@pytest.mark.parametrize("loaded", [True, False])
def test_an_object_whose_headers_nobody_can_read_is_rejected_and_the_version_before_stands_behind_it(
    loaded: bool,
) -> None:
    key = f"{KEY.rpartition('/')[0]}/x"
    one = partition(objects=2)
    good = record(TOPICS.objects, key, {"version": 5}, 0)
    bad = record(TOPICS.objects, key, {"version": 9}, 1)._replace(said=headers_of(TOPICS.objects, None))
    if not loaded:
        one.on_record(good, 0)
        one.on_record(bad, 0)
    else:
        one.on_end(TOPICS.objects, 0)
    own(one)
    if loaded:
        one.on_record(good, 0)
        one.on_record(bad, 0)
    assert one.engine.state.objects[key].version == 5
    state = one.take_step(0).state
    (rejected,) = [write for write in state if write.topic == TOPICS.rejected]
    assert dict(rejected.headers)[REASON_HEADER] == b"headers: a name is not UTF-8"
    (again,) = [write for write in state if write.topic == TOPICS.objects]
    assert again.key == key.encode()
    assert json.loads(again.value or b"")["version"] == 5


def test_empty_topics_are_loaded_at_once() -> None:
    assert partition().loaded


@pytest.mark.parametrize(
    ("records", "wins"),
    [
        ([(1, 5, "a"), (1, 4, "b")], "a"),
        ([(1, 4, "a"), (1, 5, "b")], "b"),
        ([(2, 0, "a"), (1, 9, "b")], "a"),
        ([(1, 9, "a"), (2, 0, "b")], "b"),
        ([(1, 5, "a"), (1, 5, "b")], "b"),
    ],
)
def test_state_merges_by_generation_and_applied_never_by_position(
    records: list[tuple[int, int, str]], wins: str
) -> None:
    one = partition()
    for offset, (generation, applied, name) in enumerate(records):
        value = bucket(name, generation=generation, applied=applied)
        one.on_record(record(TOPICS.registrations, f"{KEY}/0", value, offset), 0)
        seen = session(generation, applied, session=ord(name))
        one.on_record(record(TOPICS.sessions, KEY, seen, offset), 0)

    client = own(one).engine.state.clients[KEY]

    assert [obj.name for obj in client.objects()] == [wins]
    assert client.session is not None
    assert client.session.number == ord(wins)


def test_a_lower_record_that_stands_last_is_written_over_once_the_partition_is_owned() -> None:
    one = partition(registrations=3, sessions=3)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", generation=2, applied=5), 0), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", "b", applied=9), 1), 0)
    one.on_record(record(TOPICS.sessions, KEY, session(2), 0), 0)
    one.on_end(TOPICS.registrations, 3)
    one.on_end(TOPICS.sessions, 3)
    own(one)

    (again,) = [w for w in one.engine.take_step(0).state if w.topic == TOPICS.registrations]
    assert written(again) == bucket("a", generation=3, applied=5) | {"objects": ["a"]}


def test_a_generation_that_gateways_are_beyond_is_claimed_over() -> None:
    one = own(partition())
    beat = Request(format=1, gateway=GATEWAY)
    beat.beat.generation = 7
    one.engine.on_requests([(0, beat)], 0)
    one.engine.on_tick(0)
    assert one.take_repairs() == []
    one.engine.on_tick(10_000)
    (higher,) = one.take_repairs()
    assert one.take_repairs() == []
    with pytest.raises(TakenOver):
        one.on_record(record(TOPICS.sessions, "@generation", higher.value, 1001), 0)

    again = partition(sessions=1)
    again.on_record(record(TOPICS.sessions, "@generation", higher.value, 0), 0)
    assert again.loaded
    assert written(again.claim())["generation"] == 8


def test_clients_are_counted_also_while_they_are_loaded() -> None:
    one = partition()
    assert one.clients == 0
    one.on_record(record(TOPICS.sessions, KEY, session()), 0)
    assert one.clients == 1
    assert own(one).clients == 1


def test_a_null_ends_what_stood_before_it() -> None:
    one = partition()
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a")), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", None, 1), 0)

    assert own(one).engine.state.clients == {}


def test_what_an_earlier_generation_writes_behind_a_null_is_ended_too_and_a_null_is_written_again() -> None:
    one = partition()
    null = record(TOPICS.registrations, f"{KEY}/0", None, 0, [ended_by_header(2)])
    one.on_record(null, 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", generation=1), 1), 0)

    assert own(one).engine.state.clients == {}
    (again,) = [w for w in one.engine.take_step(0).state if w.topic == TOPICS.registrations]
    assert (again.key, again.value, again.headers) == (f"{KEY}/0".encode(), None, (ended_by_header(3),))


def test_a_null_of_an_earlier_generation_ends_nothing_and_the_record_is_written_again() -> None:
    one = partition()
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a", generation=2)), 0)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", None, 1, [ended_by_header(1)]), 0)

    assert [obj.name for obj in own(one).engine.state.clients[KEY].objects()] == ["a"]
    (again,) = [w for w in one.engine.take_step(0).state if w.topic == TOPICS.registrations]
    assert written(again) == bucket(generation=3) | {"objects": ["a"]}


def test_a_null_of_a_generation_that_nobody_can_have_claimed_is_set_aside_and_ends_nothing() -> None:
    one = partition()
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a")), 0)
    forged = ended_by_header(GENERATIONS_ALWAYS_BELIEVED + 1)
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", None, 1, [forged]), 0)

    assert [obj.name for obj in own(one).engine.state.clients[KEY].objects()] == ["a"]
    assert TOPICS.registrations in {w.topic for w in one.engine.take_step(0).state}


def test_what_comes_between_claim_and_its_return_still_counts() -> None:
    one = partition()
    write = one.claim()
    one.on_record(record(TOPICS.registrations, f"{KEY}/0", bucket("a")), 0)
    one.on_record(record(TOPICS.sessions, "@generation", write.value, 1), 0)
    one.own(0, ENDS)

    assert [obj.name for obj in one.engine.state.clients[KEY].objects()] == ["a"]


def test_requests_count_as_handled_only_when_those_that_wait_are() -> None:
    one = partition()
    one.takeover = handled_on(requests_start=3)
    assert one.requests_handled == 3
    one.requests_position = 9
    assert one.requests_handled == 9
    one.pending.append(PendingRequests({TOPICS.objects: 100}, [(5, Request()), (6, Request())]))
    one.pending.append(PendingRequests({TOPICS.objects: 200}, [(8, Request())]))
    assert one.requests_handled == 5
    one.pending.popleft()
    assert one.requests_handled == 8
