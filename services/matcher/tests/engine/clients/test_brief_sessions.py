"""Wakes that change nothing: their records are not written at once, and nothing rests on that."""

import msgspec
import pytest
from coldnotify_matcher.engine.clients.brief_sessions import WAITS_MS
from coldnotify_matcher.engine.upkeep.upkeep import STORE_CURSORS_EVERY_MS
from coldnotify_schemas.matcher_state import SessionRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import OTHER_GATEWAY, PREFIX, EngineBench, fan_outs, pages

TOPICS = TopicNames()


def record_of(bench: EngineBench) -> SessionRecord:
    return msgspec.json.decode(bench.latest(TOPICS.sessions)[f"{PREFIX}client-1"], type=SessionRecord)


@pytest.fixture
def asleep() -> EngineBench:
    """client-1 was here, has version 1 of object a, and has left."""
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a")
    bench.leave(complete=0)
    bench.settle()
    bench.told.clear()
    assert not record_of(bench).online
    return bench


def test_a_wake_that_changes_nothing_writes_nothing(asleep: EngineBench) -> None:
    asleep.open(["a"], session=2, cursor=0)
    assert asleep.settle().state == []
    asleep.leave(session=2, complete=0)
    assert asleep.settle().state == []
    assert asleep.committed[0] == len(asleep.log.requests)


def test_when_it_was_seen_last_is_stored_all_the_same(asleep: EngineBench) -> None:
    asleep.now_ms += STORE_CURSORS_EVERY_MS
    woken_ms = asleep.now_ms
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.leave(session=2, complete=0)
    asleep.settle()
    asleep.tick(1)
    assert record_of(asleep).last_seen == woken_ms
    assert not record_of(asleep).online


def test_until_its_record_is_written_its_open_counts_as_not_handled(asleep: EngineBench) -> None:
    opened_at = len(asleep.log.requests)
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    assert asleep.committed[0] == opened_at
    asleep.tick(WAITS_MS - 1)
    assert asleep.committed[0] == opened_at
    asleep.tick(1)
    assert record_of(asleep).online
    assert record_of(asleep).session == 2
    assert asleep.committed[0] == len(asleep.log.requests)


def test_a_successor_knows_the_session_although_nothing_is_written_of_it(asleep: EngineBench) -> None:
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.load()
    asleep.told.clear()
    asleep.version("a", 2)
    assert [(name, version, sessions) for name, version, _, sessions in fan_outs(asleep.items())] == [("a", 2, [2])]


def test_what_was_published_before_the_successor_came_is_in_the_page_that_it_answers_with(asleep: EngineBench) -> None:
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.version("a", 2)
    asleep.settle()
    asleep.told.clear()
    asleep.load()
    (page,) = pages(asleep.items())
    assert [newest.version for newest in page.newest] == [2]


def test_a_wake_that_brings_something_is_written_when_it_ends(asleep: EngineBench) -> None:
    asleep.version("a", 2)
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.leave(session=2, complete=1)
    assert [write.topic for write in asleep.settle().state] == [TOPICS.sessions]
    assert record_of(asleep).cursor == 1


def test_one_that_ends_before_it_has_applied_what_it_was_told_is_written_too(asleep: EngineBench) -> None:
    asleep.version("a", 2)
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.leave(session=2)
    assert [write.topic for write in asleep.settle().state] == [TOPICS.sessions]


def test_an_open_that_changes_registrations_is_written_at_once(asleep: EngineBench) -> None:
    asleep.open(["a", "b"], register=["b"], session=2, cursor=0)
    assert {write.topic for write in asleep.settle().state} == {TOPICS.registrations, TOPICS.sessions}
    assert asleep.committed[0] == len(asleep.log.requests)


def test_who_was_online_in_what_is_stored_is_written_at_once(asleep: EngineBench) -> None:
    """Else a session that another one has displaced would be online again after a crash."""
    asleep.open(["a"], session=2, cursor=0)
    asleep.settle()
    asleep.tick(WAITS_MS)
    assert record_of(asleep).session == 2
    asleep.open(["a"], session=3, gateway=OTHER_GATEWAY, cursor=0)
    asleep.settle()
    assert record_of(asleep).session == 3


def test_the_first_of_those_that_wait_is_what_the_commit_stops_at() -> None:
    bench = EngineBench()
    for number in (1, 2):
        bench.opened("a", client=f"client-{number}", session=number)
        bench.leave(client=f"client-{number}", session=number)
    bench.settle()
    first = len(bench.log.requests)
    bench.open(["a"], client="client-1", session=3)
    bench.open(["a"], client="client-2", session=4)
    bench.settle()
    assert bench.engine.state.brief.first_offset == first
    bench.leave(client="client-1", session=3)
    bench.settle()
    assert bench.engine.state.brief.first_offset == first + 1
    bench.leave(client="client-2", session=4)
    bench.settle()
    assert bench.engine.state.brief.first_offset is None
