"""A takeover: what it says to everybody, and what it owes to sessions that it found."""

import msgspec
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.matcher_state import SessionRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    EPOCH,
    GATEWAY,
    INBOXES,
    PARTITION,
    PREFIX,
    EngineBench,
    closed,
    fan_outs,
    pages,
)

TOPICS = TopicNames()


def record_of(bench: EngineBench, client: str = "client-1") -> SessionRecord:
    return msgspec.json.decode(bench.latest(TOPICS.sessions)[PREFIX + client], type=SessionRecord)


def test_a_takeover_is_said_to_every_inbox() -> None:
    bench = EngineBench()
    bench.load()

    notices = bench.notices[-INBOXES:]

    assert all((n.gateway, n.number, n.generation, n.partition) == (0, 0, 2, PARTITION) for n in notices)
    assert not any(n.items for n in notices)


def test_what_the_predecessor_had_not_committed_is_fanned_out_by_the_offset_of_the_newest() -> None:
    bench = EngineBench()
    bench.opened("a", "b", "c")
    bench.version("c", 1)
    bench.settle()
    bench.told.clear()
    for name, version in (("b", 1), ("a", 1), ("b", 2)):
        bench.version(name, version)
    bench.step()  # and dies

    bench.load()

    assert fan_outs(bench.told[GATEWAY].items) == [("a", 1, 2, [1]), ("b", 2, 3, [1])]


def test_without_a_commit_sessions_are_caught_up_from_their_stored_cursors() -> None:
    bench = EngineBench()
    for name in ("a", "b"):
        bench.version(name, 1)
    bench.opened("a", "b", cursor=0)
    bench.acks({1: 0})
    bench.committed = (len(bench.log.requests), None)
    bench.told.clear()

    bench.load()

    assert fan_outs(bench.told[GATEWAY].items) == [("b", 1, 1, [1])]


def test_sessions_of_another_epoch_are_told_to_come_back() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", cursor=0)
    bench.told.clear()
    cluster = bench.cluster
    bench.cluster = type(cluster)(cluster.partitions, cluster.inboxes, "other", cluster.requests_topic_id, EPOCH + 1)

    bench.load()

    assert closed(bench.told[GATEWAY].take()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert not record_of(bench).online
    assert record_of(bench).cursor == -1


def test_registering_for_what_was_published_while_loading_and_after() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.version("a", 1)
    bench.load()
    bench.told.clear()
    bench.version("a", 2)

    assert fan_outs(bench.items()) == [("a", 2, 1, [1])]


def test_a_session_whose_open_is_handled_once_more_is_told_nothing_before() -> None:
    """Its gateway holds it for live. Told of a later version, it would pass over what its page has."""
    bench = EngineBench()
    bench.opened("a")
    bench.version("a", 1)
    first_open = len(bench.log.requests)
    bench.open(["a"], session=2, cursor=None)
    bench.make_durable(bench.step(), inboxes_lost=9)  # the state is durable, the page is not; and it dies
    bench.committed = first_open, bench.log.end(TOPICS.objects)
    bench.told.clear()

    bench.take_over()
    bench.version("a", 2)
    bench.read()

    step = bench.engine.take_step(bench.now_ms)
    assert fan_outs(item for _, record in step.inboxes for item in record.items) == []
    (page,) = pages(bench.items())
    assert [(one.name, one.version) for one in page.newest] == [("a", 2)]
