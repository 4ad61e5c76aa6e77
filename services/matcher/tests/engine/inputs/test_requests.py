"""Requests: sessions opened, displaced, left; registrations; acknowledgements and Beats.

Stands for: requests, opening, registration_requests, name_registering, query_registering
Stands for: stream_requests, opened_answers, sessions
"""

from typing import Any

import msgspec
import pytest
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.telling.paging import PAGE_BYTES_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.matcher_state import SessionRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    EPOCH,
    GATEWAY,
    OTHER_GATEWAY,
    PREFIX,
    EngineBench,
    answered,
    closed,
    fan_outs,
    kinds,
    opened,
    pages,
    versions,
)

TOPICS = TopicNames()

BIG = b'{"version":1,"payload":"' + b"x" * 4000 + b'"}'
"""16 of these fill a page."""


def record_of(bench: EngineBench, client: str = "client-1") -> SessionRecord:
    return msgspec.json.decode(bench.latest(TOPICS.sessions)[PREFIX + client], type=SessionRecord)


def test_an_open_applies_unregister_then_register() -> None:
    bench = EngineBench()
    bench.opened("a", "b")
    bench.open(["b", "c"], register=["c"], unregister=["a", "c"], session=2)

    (told,) = [one for one in opened(bench.items()) if one.session == 2]

    assert told.in_sync
    assert told.digest == digest(["b", "c"])
    assert not told.HasField("epoch")


@pytest.mark.parametrize(
    ("cursor", "epoch", "told_epoch"),
    [(None, EPOCH, None), (0, EPOCH + 1, EPOCH), (0, None, EPOCH), (5, EPOCH, EPOCH), (2**64 - 1, EPOCH, EPOCH)],
)
def test_a_cursor_of_another_epoch_or_above_the_position_counts_as_none(
    cursor: int | None, epoch: int | None, told_epoch: int | None
) -> None:
    bench = EngineBench()
    bench.version("a", 3)
    bench.opened("a")
    bench.open(["a"], cursor=cursor, epoch=epoch, session=2)

    items = [item for item in bench.items() if item.WhichOneof("item") != "closed"]

    assert versions(pages(items)[0].newest) == [("a", 3)]
    (told,) = opened(items)
    assert (told.epoch if told.HasField("epoch") else None) == told_epoch


def big_partition(bench: EngineBench, objects: int) -> list[str]:
    names = [f"big-{i:02}" for i in range(objects)]
    for name in names:
        bench.publish(name, BIG)
    return names


def test_a_registration_is_answered_and_told_of_publishes_from_then_on() -> None:
    bench = EngineBench()
    bench.version("b", 1)
    bench.opened("a")
    bench.register("b", "never", request=9)

    (answer,) = answered(bench.items())

    assert (answer.request, answer.unregistered, answer.digest) == (9, False, digest(["a", "b", "never"]))
    assert versions(answer.newest) == [("b", 1), ("never", None)]
    assert all(newest.answer for newest in answer.newest)
    bench.version("never", 1)
    assert fan_outs(bench.items()) == [("never", 1, 1, [1])]


def test_an_answer_that_does_not_fit_goes_on_in_records_of_no_request() -> None:
    bench = EngineBench()
    names = big_partition(bench, 40)
    bench.opened()
    bench.register(*names, request=9)

    answers = answered(bench.items())

    assert [answer.request for answer in answers] == [9, 0, 0]
    assert [name for answer in answers for name, _ in versions(answer.newest)] == names
    assert all(answer.ByteSize() < PAGE_BYTES_MAX + 2 * len(BIG) for answer in answers)


def test_unregistered_is_told_of_no_publish_any_more() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", "b")
    bench.unregister("a", "never", request=4)

    (answer,) = answered(bench.items())

    assert (answer.request, answer.unregistered, answer.digest) == (4, True, digest(["b"]))
    bench.version("a", 2)
    assert bench.items() == []


def test_a_new_session_displaces_the_old_one() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["a"], session=5, gateway=OTHER_GATEWAY)

    assert closed(bench.items()) == [(1, CloseCode.DISPLACED)]

    bench.told.clear()
    bench.version("a", 1)
    assert bench.items() == []
    assert fan_outs(bench.items(OTHER_GATEWAY)) == [("a", 1, 0, [5])]


def test_an_open_again_displaces_nobody() -> None:
    bench = EngineBench()
    bench.opened("a", session=1)
    bench.opened("a", session=5, gateway=OTHER_GATEWAY)
    bench.told.clear()
    bench.open(["a"], session=1, again=True)

    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]

    bench.version("a", 1)
    bench.settle()
    assert fan_outs(bench.told[OTHER_GATEWAY].items) == [("a", 1, 0, [5])]


def test_an_open_again_of_a_client_without_session_is_as_good_as_any() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"], again=True)

    assert opened(bench.items())[0].in_sync


def test_the_same_session_announced_again_stays_the_same() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["a"], again=True)

    items = bench.items()

    assert kinds(items) == ["opened", "page"]
    bench.version("a", 1)
    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]


@pytest.mark.parametrize("body", ["register", "unregister", "sync", "catch_up", "check_digest"])
def test_requests_of_an_unknown_session_are_dropped_and_it_is_told(body: str) -> None:
    bench = EngineBench()
    bench.opened("a")
    empty: dict[str, Any] = {body: {}}
    bench.request(99, **empty)

    assert closed(bench.items()) == [(99, CloseCode.UNKNOWN_SESSION)]


def test_a_leave_of_an_unknown_session_is_nothing() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.leave(session=99)
    bench.leave(session=1, client="client-99")

    assert bench.items() == []
    assert bench.engine.state.clients[f"{PREFIX}client-1"].session is not None


def test_a_leave_ends_the_session_with_what_its_client_acknowledged() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a")
    bench.leave(complete=0)
    bench.settle()
    bench.version("a", 2)

    assert fan_outs(bench.items()) == []
    record = record_of(bench)
    assert (record.online, record.cursor) == (False, 0)


def test_a_session_that_is_over_does_not_come_back_under_its_number() -> None:
    bench = EngineBench()
    bench.opened("a", "b", session=1)
    bench.opened("a", "b", session=2, gateway=OTHER_GATEWAY)
    bench.request(2, gateway=OTHER_GATEWAY, unregister={"request": 1, "objects": ["b"]})
    bench.request(2, gateway=OTHER_GATEWAY, leave={})
    bench.told.clear()
    bench.open(["a"], session=1, again=True)
    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]

    bench.version("b", 1)

    assert fan_outs(bench.items()) == []


def test_a_replayed_open_of_before_does_not_bring_a_session_back() -> None:
    bench = EngineBench()
    bench.opened("a", session=1)
    bench.register("b", session=1)
    bench.opened("a", "b", session=2)
    bench.committed = (0, 0)
    bench.told.clear()

    bench.load()

    items = bench.told[GATEWAY].take()
    assert set(closed(items)) == {(1, CloseCode.UNKNOWN_SESSION)}
    assert [told.session for told in opened(items)] == [2]
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert session.number == 2


def test_acks_are_clamped_and_never_go_down() -> None:
    bench = EngineBench()
    bench.opened("a")
    for version in (1, 2, 3):
        bench.version("a", version)
    bench.settle()
    client = bench.engine.state.clients[f"{PREFIX}client-1"]

    bench.acks({1: 1, 99: 2})
    bench.settle()
    assert client.cursor == 1
    bench.acks({1: 2**63})
    bench.settle()
    assert client.cursor == 2
    bench.acks({1: 0})
    bench.settle()
    assert client.cursor == 2


def test_acks_of_another_epoch_say_nothing_of_this_one() -> None:
    bench = EngineBench()
    bench.opened("a")
    for version in (1, 2):
        bench.version("a", version)
    bench.settle()
    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    bench.acks({1: 1}, epoch=EPOCH + 1)
    bench.settle()
    assert client.cursor == -1
    bench.acks({1: 1}, epoch=EPOCH)
    bench.settle()
    assert client.cursor == 1


def test_the_clients_own_cursor_is_the_truth_even_if_it_is_lower() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", cursor=0)
    bench.acks({1: 0})
    bench.open(["a"], session=2)

    page = pages(bench.items())[-1]

    assert versions(page.newest) == [("a", 1)]
    assert record_of(bench).cursor == -1


def test_what_a_session_was_sent_and_its_client_did_not_acknowledge_is_not_taken_for_applied() -> None:
    bench = EngineBench()
    for version in range(1, 6):
        bench.version("a", version)
    bench.opened("a", cursor=2)
    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert client.cursor == 2
    for acked, applied in ((3, 3), (None, NO_CURSOR)):
        said = internal_pb2.Open(
            digest=client.digest, epoch=EPOCH, cursor=4, ask=2, again=True, acked=acked, register=["a"]
        )
        bench.request(open=said)
        bench.settle()
        assert client.cursor == applied


def test_a_beat_is_agreed_when_count_and_checksum_are_the_matchers_too() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", session=3, client="client-3")
    bench.opened("a", session=4, client="client-4")

    def beat(*sessions: int) -> internal_pb2.BeatAnswer:
        bench.beat(*sessions)
        (item,) = bench.items()
        return item.beat

    agreed = beat(3, 4)
    assert (agreed.agreed, agreed.complete) == (True, 0)
    assert not beat(3).agreed
    assert not beat(3, 5).agreed
    assert not beat(3).HasField("complete"), "not true of a session that the matcher does not know"


def test_the_answer_to_a_beat_repeats_its_serial() -> None:
    bench = EngineBench()
    bench.beat(serial=7)
    bench.beat(serial=2**64 - 1)

    assert [item.beat.serial for item in bench.items()] == [7, 2**64 - 1]


def test_before_anything_was_published_there_is_no_position() -> None:
    bench = EngineBench()
    bench.beat()

    (item,) = bench.items()

    assert item.beat.agreed
    assert not item.beat.HasField("complete")


def test_the_same_requests_twice_are_the_same_state_once() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", "b")
    bench.register("c")
    bench.unregister("a")
    bench.open(["b", "c", "d"], session=2)
    bench.sync(0, "b", "c", "d", last=True, session=2)
    bench.acks({2: 0})
    bench.settle()
    before = {topic: bench.latest(topic) for topic in (TOPICS.registrations,)}
    bench.committed = (0, 0)
    bench.load()

    assert {topic: bench.latest(topic) for topic in (TOPICS.registrations,)} == before
    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert client.session is not None
    assert (client.session.number, client.cursor) == (2, 0)


def test_whether_an_object_is_there_is_said_of_the_logs_end() -> None:
    """Asked by a gateway whose client wants to publish it. Nothing is made of an object that is only asked for."""
    bench = EngineBench()
    bench.opened("only-wanted")
    bench.version("there", 1)
    bench.publish("deleted", b'{"version":1,"deleted":true}')
    for ask, name in enumerate(["there", "deleted", "only-wanted", "never"], start=1):
        bench.request(is_there=internal_pb2.IsThere(object=name, ask=ask))
    said = [item.there for item in bench.items() if item.HasField("there")]
    assert [(one.session, one.ask, one.there) for one in said] == [
        (1, 1, True),
        (1, 2, False),
        (1, 3, False),
        (1, 4, False),
    ]
    assert f"{PREFIX}never" not in bench.engine.state.objects
    (request,) = [one for one in bench.log.requests if one.is_there.object == "never"]
    assert bench.partition.needs_barrier(request)
