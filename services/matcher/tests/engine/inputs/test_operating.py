"""What operators ask about a client: what is told and kept, in which order, and a crash between any two records."""

from typing import Any

import pytest
from coldnotify_matcher.engine.inputs.operating import Operated
from coldnotify_schemas import wire_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest
from coldnotify_schemas.internal_pb2 import Disconnect, Forget, ForgetShare, Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    DOMAIN,
    GATEWAY,
    GROUP,
    PREFIX,
    EngineBench,
    closed,
    fan_outs,
    opened,
    pages,
    versions,
)
from coldnotify_testkit.shares_bench import CHANNEL, HASH, SHARE, SharesBench

TOPICS = TopicNames()

NAMES = [f"o{i}" for i in range(100)]
"""Two buckets."""
STATE_TOPICS = (TOPICS.registrations, TOPICS.sessions)


def stored(bench: EngineBench, client: str = "client-1") -> set[str]:
    """Keys of the records that compaction leaves of a client."""
    key = PREFIX + client
    return {k for topic in STATE_TOPICS for k in bench.latest(topic) if k == key or k.startswith(key + "/")}


def test_a_session_ends_with_the_operators_words_and_its_client_may_come_back() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a")
    bench.opened("a", client="client-2", session=2)

    offset = bench.operator(disconnect=Disconnect(reason="maintenance"))

    (item,) = bench.items()
    assert (item.closed.session, item.closed.code, item.closed.reason) == (1, CloseCode.DISCONNECTED, "maintenance")
    assert bench.engine.operating.outcome(offset) == Operated(offset, known=True, online=True, registered=1)
    assert bench.engine.operating.outcome(offset + 1) is None
    assert bench.engine.state.counts["disconnected"] == 1
    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert client.session is None
    assert client.registered == 1
    bench.version("a", 2)
    assert fan_outs(bench.items()) == [("a", 2, 1, [2])]
    bench.open(["a"], session=3, cursor=0)
    assert [versions(page.newest) for page in pages(bench.items())] == [[("a", 2)]]


def test_of_who_is_not_there_nothing_is_told_and_it_is_said_that_it_was_not() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.leave()
    bench.settle()

    away = bench.operator(disconnect=Disconnect())
    nobody = bench.operator("nobody", forget=Forget())

    assert bench.items() == []
    assert bench.engine.operating.outcome(away) == Operated(away, known=True, online=False, registered=1)
    assert bench.engine.operating.outcome(nobody) == Operated(nobody, known=False, online=False, registered=0)


def test_who_is_online_is_forgotten_with_its_session_and_registers_anew_when_it_comes_back() -> None:
    bench = EngineBench()
    bench.version("o1", 1)
    bench.opened(*NAMES)
    assert len(stored(bench)) == 3

    offset = bench.operator(forget=Forget(reason="sold"))

    assert closed(bench.items()) == [(1, CloseCode.DISCONNECTED)]
    assert bench.engine.operating.outcome(offset) == Operated(offset, known=True, online=True, registered=100)
    assert stored(bench) == set()
    assert bench.engine.state.clients == {}
    assert set(bench.engine.state.objects) == {f"{PREFIX}o1"}, "the others were never published, and nobody wants them"
    assert bench.engine.state.counts["forgotten_by_operators"] == 1
    assert "forgotten" not in bench.engine.state.counts
    bench.version("o1", 2)
    assert fan_outs(bench.items()) == []

    bench.open(NAMES, session=2, cursor=0)
    (answer,) = opened(bench.items())
    assert not answer.in_sync, "so its client sends its whole set"
    bench.sync(0, *NAMES, last=True, session=2)
    items = bench.items()
    assert [one.digest for one in opened(items)] == [digest(NAMES)]
    assert ("o1", 2) in [one for page in pages(items) for one in versions(page.newest)]
    assert len(stored(bench)) == 3


def test_who_is_away_is_forgotten_and_who_only_looked_too() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.leave()
    bench.open([], client="idle", session=2)
    bench.settle()

    bench.operator(forget=Forget())
    bench.operator("idle", forget=Forget())

    assert closed(bench.items()) == [(2, CloseCode.DISCONNECTED)]
    assert stored(bench) == set()
    assert bench.engine.state.clients == {}


def test_what_the_session_still_asks_is_refused_and_its_number_does_not_come_back() -> None:
    bench = EngineBench()
    bench.open(["a"], session=1)
    bench.items()  # not in sync, so in no index

    bench.operator(forget=Forget())
    bench.register("b")
    bench.acks({1: 5})
    assert closed(bench.items()) == [(1, CloseCode.DISCONNECTED), (1, CloseCode.UNKNOWN_SESSION)]

    bench.open(["a"], session=1, again=True)  # its gateway has missed both
    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert bench.engine.state.clients == {}


def test_what_comes_in_one_batch_is_decided_by_its_order() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"])
    bench.operator(forget=Forget())
    bench.open(["b"], session=2, register=["b"])
    items = bench.items()

    assert closed(items) == [(1, CloseCode.DISCONNECTED)]
    assert [one.session for one in opened(items)] == [1, 2]
    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert [obj.name for obj in client.objects()] == ["b"]
    assert client.session is not None
    bench.load()
    assert [obj.name for obj in bench.engine.state.clients[f"{PREFIX}client-1"].objects()] == ["b"]


def test_nothing_is_left_of_who_comes_back_at_once_and_leaves_before_it_says_its_set() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.operator(forget=Forget())
    bench.open(["a"], session=2)
    bench.settle()
    bench.leave(session=2)
    bench.settle()

    assert stored(bench) == set()


@pytest.mark.parametrize("writes_lost", range(7))
def test_a_successor_that_handles_all_once_more_comes_to_the_same(writes_lost: int) -> None:
    """It forgets whom its predecessor had forgotten in part, and not who has come back since."""
    bench = EngineBench()
    bench.open(NAMES, register=NAMES)
    before = bench.step()
    bench.make_durable(before)  # nothing is committed from here on
    bench.operator(forget=Forget())
    bench.open(["b"], session=2, client="client-2", register=["b"])
    step = bench.step()
    bench.make_durable(step, writes_lost=writes_lost, inboxes_lost=len(step.inboxes))

    bench.load()

    assert stored(bench) == set()
    assert set(bench.engine.state.clients) == {f"{PREFIX}client-2"}

    bench.open(["b"], session=3, register=["b"])
    bench.make_durable(bench.step())
    bench.load()

    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert [obj.name for obj in client.objects()] == ["b"], "it has come back behind that"
    assert f"{PREFIX}client-1" in stored(bench)


@pytest.mark.parametrize("body", [{"forget": Forget()}, {"disconnect": Disconnect()}], ids=["forget", "disconnect"])
def test_a_session_that_was_opened_behind_it_is_let_be(body: dict[str, Any]) -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"])
    bench.operator(**body)
    bench.open(["a"], session=2, register=["a"])
    bench.make_durable(bench.step())
    bench.told[GATEWAY].take()

    bench.load()

    client = bench.engine.state.clients[f"{PREFIX}client-1"]
    assert client.session is not None
    assert client.session.number == 2
    assert client.registered == 1
    assert (2, CloseCode.DISCONNECTED) not in closed(bench.told[GATEWAY].items)


def forget_share(bench: SharesBench, share: str = SHARE) -> tuple[int, Operated]:
    """An operator has a share forgotten: the request's offset, and the outcome."""
    said = ForgetShare(share=share, channel=CHANNEL)
    bench.requests.append(Request(format=1, domain=DOMAIN, group=GROUP, forget_share=said))
    bench.settle()
    offset = len(bench.requests) - 1
    done = bench.engine.operating.outcome(offset)
    assert done is not None
    return offset, done


def leave(bench: SharesBench, client: str, session: int) -> None:
    """A member is one no more."""
    bench.request(session, client, unregister=wire_pb2.Unregister(request=1, interests=[HASH]))
    bench.settle()


def test_a_share_is_forgotten_once_it_has_no_members() -> None:
    bench = SharesBench()
    bench.begin("b", session=1)
    bench.begin("a", session=2)
    _, refused = forget_share(bench)
    assert (refused.known, refused.members, refused.registered) == (True, ("a", "b"), 2)
    assert not forget_share(bench, "another")[1].known
    assert bench.stored[TOPICS.shares]
    leave(bench, "b", 1)
    leave(bench, "a", 2)
    _, done = forget_share(bench)
    assert (done.known, done.members) == (True, ())
    assert not bench.stored[TOPICS.shares], "its record is a null"
    assert not forget_share(bench)[1].known


def test_a_share_that_was_made_later_stays_when_a_request_is_handled_again() -> None:
    bench = SharesBench()
    bench.begin("a", session=1)
    leave(bench, "a", 1)
    offset, done = forget_share(bench)
    assert done.known
    bench.begin("a", session=2)
    leave(bench, "a", 2)
    bench.engine.operating.on_request(offset, "", bench.requests[offset])
    bench.settle()
    assert not bench.engine.operating.done[-1].known
    assert bench.stored[TOPICS.shares]
