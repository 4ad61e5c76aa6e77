"""What clients' applications have not taken: as a Hello says it, as requests make it, as frames change it, stored."""

import pytest
from coldnotify_matcher.engine import Rules, Step
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import digest
from coldnotify_schemas.interests import channel_hash, query_hash
from coldnotify_schemas.protocol import UNSETTLED_ERROR_BYTES_MAX
from coldnotify_testkit.engine_bench import EPOCH, GATEWAY, PREFIX, EngineBench, query_interest

pytestmark = pytest.mark.pure


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


def client(bench: EngineBench) -> RegisteredClient:
    return bench.engine.state.clients[f"{PREFIX}client-1"]


def said(bench: EngineBench) -> dict[str, tuple[bool, int, str]]:
    """By object's name or query's text."""
    return {
        getattr(one, "name", getattr(one, "text", "")): (unsettled.parked, unsettled.failures, unsettled.error)
        for one, unsettled in client(bench).unsettled.items()
    }


def hello(
    bench: EngineBench,
    *wanted: str,
    register: tuple[str, ...] = (),
    all_: bool = True,
    session: int = 1,
    again: bool = False,
) -> None:
    said = internal_pb2.Open(digest=digest(wanted), register=register, epoch=EPOCH, ask=1, all_unsettled=all_)
    said.again = said.never_opened = again
    bench.request(session, open=said)
    bench.settle()


def say(bench: EngineBench, *entries: wire_pb2.UnsettledEntry, session: int = 1, **more: object) -> None:
    bench.request(session, unsettled=wire_pb2.Unsettled(entries=entries, request=7, **more))  # type: ignore[arg-type]
    bench.settle()


def entry(name: str, **more: object) -> wire_pb2.UnsettledEntry:
    return wire_pb2.UnsettledEntry(name=name, **more)  # type: ignore[arg-type]


def test_what_a_hello_registers_is_pending_and_stays_so_through_a_takeover(bench: EngineBench) -> None:
    hello(bench, "a", "b", register=("a", "b"))
    assert said(bench) == {"a": (False, 0, ""), "b": (False, 0, "")}
    bench.load()
    assert said(bench) == {"a": (False, 0, ""), "b": (False, 0, "")}
    assert client(bench).tells_unsettled


def test_a_hello_that_says_all_settles_what_it_does_not_register(bench: EngineBench) -> None:
    hello(bench, "a", "b", register=("a", "b"))
    say(bench, entry("a", parked=True, failures=5, error="E: x"))
    hello(bench, "a", "b", register=("a",), session=2)
    assert said(bench) == {"a": (True, 5, "E: x")}, "it stays as it was said"
    hello(bench, "a", "b", session=3)
    assert said(bench) == {}
    bench.load()
    assert (said(bench), client(bench).tells_unsettled) == ({}, True)


def test_an_unchanged_wake_writes_no_registrations(bench: EngineBench) -> None:
    hello(bench, "a", register=("a",))
    say(bench, all=True)
    written = bench.log.end("coldnotify.registrations")
    hello(bench, "a", session=2)
    say(bench, all=True, session=2)
    assert bench.log.end("coldnotify.registrations") == written


def test_a_frame_is_answered_and_says_what_is_settled(bench: EngineBench) -> None:
    hello(bench, "a", "b", "c", register=("a", "b", "c"))
    bench.told[GATEWAY].take()
    say(bench, entry("b", failures=2, error="E: y", since_s=60), settled=["a", "nobody's"])
    (answer,) = [item.answered for item in bench.told[GATEWAY].take() if item.HasField("answered")]
    assert (answer.session, answer.request, answer.digest) == (1, 7, client(bench).digest)
    assert said(bench) == {"b": (False, 2, "E: y"), "c": (False, 0, "")}
    (since_ms,) = [one.since_ms for one in client(bench).unsettled.values() if one.failures]
    assert since_ms == bench.now_ms - 60_000
    say(bench, entry("c", parked=True), all=True)
    assert said(bench) == {"c": (True, 0, "")}


def test_a_registration_in_the_middle_of_a_session_is_pending_if_the_client_can_say_so(bench: EngineBench) -> None:
    hello(bench, all_=False)
    bench.register("a")
    bench.settle()
    assert (client(bench).tells_unsettled, said(bench)) == (False, {}), "a library of release 0.1.0"
    say(bench, all=True)
    bench.register("b")
    bench.settle()
    assert said(bench) == {"b": (False, 0, "")}


@pytest.mark.parametrize("again", [False, True])
def test_who_is_an_older_library_now_is_not_believed_any_more(bench: EngineBench, *, again: bool) -> None:
    """`again`: the first Open of its session was lost."""
    hello(bench, "a", register=("a",))
    bench.leave()
    hello(bench, "a", "b", register=("b",), all_=False, session=2, again=again)
    assert (client(bench).tells_unsettled, said(bench)) == (False, {})


def test_what_is_unregistered_is_unsettled_no_more(bench: EngineBench) -> None:
    hello(bench, "a", register=("a",))
    bench.unregister("a")
    bench.settle()
    assert said(bench) == {}


@pytest.mark.parametrize("failed", range(4))
def test_registrations_stay_settled_if_one_of_several_records_fails(failed: int) -> None:
    """A record is taken that was written behind one that Kafka does not take in time."""
    bench = EngineBench(rules=Rules(bucket_objects_max=1))
    hello(bench, "a", "b", "c", register=("a", "b", "c"))
    bench.request(1, unsettled=wire_pb2.Unsettled(all=True, request=7))
    bench.request(1, open=internal_pb2.Open(digest=digest(["a", "b", "c"]), epoch=EPOCH, ask=2, again=True))
    step = bench.step()
    bench.make_durable(Step(state=[one for at, one in enumerate(step.state) if at != failed]))
    bench.load()
    assert said(bench) == {}


def test_what_a_client_is_not_registered_for_is_left_out_and_errors_are_cut(bench: EngineBench) -> None:
    hello(bench, "a", register=("a",))
    stranger = wire_pb2.UnsettledEntry(hash=99, parked=True)
    say(bench, entry("b", parked=True), stranger, entry("a", error="ä" * 500))
    assert list(said(bench)) == ["a"]
    assert len(said(bench)["a"][2].encode()) == UNSETTLED_ERROR_BYTES_MAX


def test_queries_and_channels_are_said_by_their_hashes(bench: EngineBench) -> None:
    text = "has Room"
    query = query_interest(text)
    bench.request(
        1, open=internal_pb2.Open(digest=query_hash(text), interests=[query], epoch=EPOCH, ask=1, all_unsettled=True)
    )
    bench.settle()
    assert list(said(bench)) == [text]
    named = wire_pb2.UnsettledEntry(hash=query_hash(text), parked=True, members=["lamp"])
    say(bench, named, settled_hashes=[channel_hash("nothing")])
    bench.load()
    (unsettled,) = client(bench).unsettled.values()
    assert (unsettled.parked, unsettled.members) == (True, ("lamp",))
    assert (unsettled.concerns("lamp"), unsettled.concerns("door")) == (True, False)
    say(bench, settled_hashes=[query_hash(text)])
    assert said(bench) == {}


def test_a_request_that_comes_a_second_time_changes_nothing(bench: EngineBench) -> None:
    hello(bench, "a", register=("a",))
    say(bench, entry("a", parked=True))
    bench.committed = 0, None
    say(bench, all=True)
    bench.committed = 0, None  # all is handled once more, by a matcher that has loaded how it ended
    bench.load()
    assert said(bench) == {}
