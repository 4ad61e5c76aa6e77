"""PUBLISHes of QoS 2 that a kept set holds: durable before the answer, the same after a takeover, and then released."""

import json

import pytest
from coldnotify_matcher.engine import Step
from coldnotify_matcher.engine.clients.kept_cursors import STORE_EVERY_MS
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.internal_pb2 import Item, Kept, Leave, Noted, Open, Receive, Unreleased
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_testkit.channels_bench import ChannelsBench
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY, PREFIX, TOPICS, EngineBench, opened

HOUR_S = 3600


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench()


def connect(
    bench: EngineBench,
    session: int = 1,
    *,
    client: str = "lamp",
    gateway: int = GATEWAY,
    expiry_s: int = HOUR_S,
    clean: bool = False,
) -> list[Unreleased]:
    """A session begins. Returns what its gateway hears to be unreleased."""
    kept = Kept(clean=clean, expiry_s=expiry_s, protocol="mqtt 5.0")
    bench.request(session, client, gateway, open=Open(ask=1, kept=kept))
    bench.settle()
    return list(opened(bench.told[gateway].take())[-1].kept.unreleased)


def receive(
    bench: EngineBench, *received: Unreleased, released: tuple[int, ...] = (), session: int = 1, client: str = "lamp"
) -> None:
    bench.request(session, client, receive=Receive(received=received, released=released, ask=session * 100))


def noted(items: list[Item]) -> list[Noted]:
    return [one.noted for one in items if one.HasField("noted")]


def noted_now(bench: EngineBench) -> Noted:
    bench.settle()
    return noted(bench.told[GATEWAY].take())[-1]


def stored(bench: EngineBench, client: str = "lamp") -> list[dict[str, object]] | None:
    value = bench.latest(TOPICS.sessions).get(f"{PREFIX}{client}")
    return None if value is None else json.loads(value).get("unreleased", [])


def a_message(identifier: int = 1, id_: str = "an-id") -> Unreleased:
    return Unreleased(identifier=identifier, id=id_)


def a_version(identifier: int = 1, object_: str = "door") -> Unreleased:
    return Unreleased(identifier=identifier, object=object_)


def answers_of(step: Step) -> list[Noted]:
    return noted([item for _, record in step.inboxes for item in record.items])


def test_it_is_durable_before_the_answer_and_gone_before_the_next(bench: EngineBench) -> None:
    connect(bench)
    receive(bench, a_message())
    step = bench.step()
    assert answers_of(step)
    assert any(b'"an-id"' in (one.value or b"") for one in [*step.state, *step.seals])
    bench.make_durable(step)
    assert [one["id"] for one in stored(bench) or ()] == ["an-id"]
    receive(bench, released=(1,))
    bench.settle()
    assert stored(bench) == []


def test_the_next_session_hears_of_it_also_from_a_successor(bench: EngineBench) -> None:
    connect(bench)
    receive(bench, a_message(), a_version(2))
    given = noted_now(bench).received[1].version
    bench.load()
    held = connect(bench, 2)
    assert [(one.identifier, one.id, one.object, one.version) for one in held] == [
        (1, "an-id", "", 0),
        (2, "", "door", given),
    ]
    assert not held[0].HasField("version")
    assert connect(bench, 3, clean=True) == []
    assert connect(bench, 4) == []


def test_a_repeated_request_gets_the_same_version(bench: EngineBench) -> None:
    connect(bench)
    receive(bench, a_version())
    first = noted_now(bench).received[0].version
    bench.now_ms += 10
    receive(bench, a_version())
    assert noted_now(bench).received[0].version == first


def test_versions_are_above_the_newest_and_all_that_are_given(bench: EngineBench) -> None:
    connect(bench)
    bench.version("counted", 7)
    bench.version("timed", bench.now_ms + 5)
    receive(bench, *(a_version(n, "counted") for n in (1, 2)), *(a_version(n, "timed") for n in (3, 4)))
    receive(bench, *(a_version(n, "new") for n in (5, 6)))
    bench.settle()
    given = [one.version for said in noted(bench.told[GATEWAY].take()) for one in said.received]
    now = bench.now_ms
    assert given == [8, 9, now + 6, now + 7, now, now + 1]
    bench.load()
    connect(bench, client="other", session=9)
    bench.told[GATEWAY].take()
    receive(bench, a_version(1, "counted"), client="other", session=9)
    assert noted_now(bench).received[0].version == 10, "a successor knows what is given"


@pytest.mark.parametrize("writes_lost", [0, 1])
def test_a_request_that_is_handled_again_changes_nothing_of_later_ones(bench: EngineBench, writes_lost: int) -> None:
    connect(bench)
    receive(bench, a_version())
    receive(bench, released=(1,))
    receive(bench, a_version(1, "door"))
    step = bench.step()
    (_, _, last) = answers_of(step)
    bench.make_durable(step, writes_lost=writes_lost)
    if writes_lost:
        bench.load()
        last = noted(bench.told[GATEWAY].take())[-1]
        assert [one.version for one in connect(bench, 2)] == [last.received[0].version]
        return
    bench.now_ms += 1000
    bench.load()  # nothing was committed: all of it is handled again
    assert [one.version for one in connect(bench, 2)] == [last.received[0].version]


@pytest.mark.parametrize("clean", [False, True])
def test_an_open_that_is_handled_again_drops_nothing_that_came_after_it(bench: EngineBench, clean: bool) -> None:
    kept = Kept(clean=clean, expiry_s=HOUR_S, protocol="mqtt 5.0")
    for session in (1, 2):
        bench.request(session, "lamp", open=Open(ask=1, kept=kept))
    receive(bench, a_version(), session=2)
    step = bench.step()
    (before,) = answers_of(step)
    bench.make_durable(step)
    bench.now_ms += 1000
    bench.load()
    assert connect(bench, 3) == list(before.received)


def test_a_message_in_kafka_is_marked_by_its_owner() -> None:
    bench = ChannelsBench()
    bench.request(1, "lamp", open=Open(ask=1, kept=Kept(expiry_s=HOUR_S, protocol="mqtt 5.0")))
    bench.request(1, "lamp", receive=Receive(received=[a_message(), a_message(2, "another")], ask=1))
    bench.settle()
    bench.send("knocks", b"1", MessageHeaders(id="an-id"))
    bench.settle()
    bench.tick(STORE_EVERY_MS + 1)
    for _ in range(2):
        bench.request(2, "lamp", open=Open(ask=1, kept=Kept(expiry_s=HOUR_S, protocol="mqtt 5.0")))
        bench.settle()
        held = opened(bench.take())[-1].kept.unreleased
        assert {one.identifier: one.written for one in held} == {1: True, 2: False}
        bench.take_over()


def test_a_session_that_ends_with_its_connection_leaves_nothing(bench: EngineBench) -> None:
    connect(bench, expiry_s=0, clean=True)
    bench.settle()
    assert stored(bench) is None, "no record before it is needed"
    receive(bench, a_version())
    bench.settle()
    assert len(stored(bench) or ()) == 1
    bench.request(1, "lamp", leave=Leave(expiry_s=0))
    bench.settle()
    bench.tick(1000)
    assert stored(bench) is None


def test_more_than_there_is_room_for_is_not_held(bench: EngineBench) -> None:
    connect(bench)
    for part in range(2):
        first = part * PUBLISHES_UNANSWERED_MAX + 1
        receive(bench, *(a_message(first + n, f"id-{first + n}") for n in range(PUBLISHES_UNANSWERED_MAX)))
        assert len(noted_now(bench).received) == (0 if part else PUBLISHES_UNANSWERED_MAX)
    receive(bench, a_message(1000), released=(1,))
    assert len(noted_now(bench).received) == 0
    receive(bench, a_message(1000))
    assert len(noted_now(bench).received) == 1


def test_a_session_of_another_gateway_holds_nothing(bench: EngineBench) -> None:
    connect(bench)
    connect(bench, gateway=OTHER_GATEWAY)
    receive(bench, a_message())
    bench.settle()
    items = bench.told[GATEWAY].take()
    assert noted(items) == []
    assert stored(bench) == []


def test_a_client_of_the_device_protocol_holds_nothing(bench: EngineBench) -> None:
    bench.opened("a")
    bench.request(1, "client-1", receive=Receive(received=[a_message()], ask=1))
    bench.settle()
    assert noted(bench.told[GATEWAY].take())[-1] == internal_pb2.Noted(session=1, ask=1)
