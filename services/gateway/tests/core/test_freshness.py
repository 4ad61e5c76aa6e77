"""The gateway knows how old what a session was told is: from answers alone, and from when it asked."""

from typing import Any

from coldnotify_gateway.core.freshness import UNKNOWN_S, Ages, Freshness, age_said
from coldnotify_schemas.internal_pb2 import LOG_1D, BeatAnswer, CompleteStream, Held, Item
from coldnotify_schemas.protocol import AGE_UNKNOWN_S
from coldnotify_testkit.device_frames import hello, ping
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble, opened, page

OBJECTS = 0


def answered(bench: GatewayBench, serial: int, age_ms: int | None = 0, **about: Any) -> None:
    bench.inbox(Item(beat=BeatAnswer(agreed=True, complete=5, serial=serial, age_ms=age_ms, **about)))


def beat(bench: GatewayBench) -> int:
    """Has the gateway send its next Beat. Returns its serial."""
    bench.answers_beats = False
    (view,) = {session.view for session in map(bench.session, [one.number for one in bench.gateway.sessions()])}
    before = view.beats
    while view.beats == before:
        bench.later(0.5)
    return view.beats


def said_age(bench: GatewayBench, wire: WireDouble) -> int:
    bench.say(wire, ping())
    (frame,) = [frame for frame in wire.take() if frame.HasField("pong")]
    return int(frame.pong.age_s)


def test_an_age_counts_from_when_the_beat_was_sent() -> None:
    fresh = Freshness()
    fresh.sent(1, 100.0)
    fresh.sent(2, 110.0)
    fresh.answered(1, Ages({OBJECTS: 2_000}), OBJECTS)
    assert fresh.as_of(OBJECTS, "d", objects=True) == 98.0


def test_an_answer_to_a_beat_that_is_forgotten_says_nothing() -> None:
    fresh = Freshness()
    for serial in range(1, 100):
        fresh.sent(serial, float(serial))
    fresh.answered(3, Ages({OBJECTS: 0}), OBJECTS)
    assert fresh.as_of(OBJECTS, "d", objects=True) == UNKNOWN_S


def test_a_held_publish_makes_its_own_domain_older_only() -> None:
    fresh = Freshness()
    fresh.sent(1, 100.0)
    fresh.answered(1, Ages({OBJECTS: 0, 2: 500}, [("slow", 9_000), ("lost", None)]), OBJECTS)
    assert fresh.as_of(OBJECTS, "slow", objects=True) == 91.0
    assert fresh.as_of(OBJECTS, "lost", objects=True) == UNKNOWN_S
    assert fresh.as_of(OBJECTS, "other", objects=True) == 100.0
    assert fresh.as_of(2, "slow", objects=False) == 99.5


def test_an_age_is_said_in_whole_seconds_rounded_up_if_it_is_above_six() -> None:
    assert [age_said(100.0, now_s) for now_s in (100.0, 106.0, 106.1, 130.0)] == [0, 0, 7, 30]
    assert age_said(100.0, 100.0 + AGE_UNKNOWN_S) == AGE_UNKNOWN_S
    assert age_said(UNKNOWN_S, 100.0) == AGE_UNKNOWN_S


def test_a_wake_is_fresh_as_of_its_question_although_no_beat_was_answered(bench: GatewayBench) -> None:
    wire = bench.opening(hello("a"))
    (request,) = bench.take_requests("open")
    bench.later(20)
    number = bench.gateway.sessions()[-1].number
    said = request.open
    bench.inbox(opened(number, said.ask, said=said.digest), page(number, said.ask, last=True))
    (caught_up,) = [frame.caught_up for frame in wire.take() if frame.HasField("caught_up")]
    assert caught_up.age_s == 20


def test_a_live_session_is_as_fresh_as_the_last_answer_that_counts(bench: GatewayBench) -> None:
    wire = bench.live()
    serial = beat(bench)
    answered(bench, serial)
    assert said_age(bench, wire) == 0
    age_s = bench.now_s - bench.gateway.sessions()[-1].connected_s
    assert said_age(bench, wire) == 0
    bench.later(30)
    assert 30 <= said_age(bench, wire) <= 31 + age_s


def test_an_answer_that_does_not_agree_proves_nothing(bench: GatewayBench) -> None:
    wire = bench.live()
    serial = beat(bench)
    bench.later(30)
    bench.inbox(Item(beat=BeatAnswer(agreed=False, serial=serial, age_ms=0)))
    assert said_age(bench, wire) > 30


def test_a_slow_session_keeps_the_time_at_which_it_was_live_last(bench: GatewayBench) -> None:
    wire = bench.live()
    serial = beat(bench)
    answered(bench, serial)
    session = bench.gateway.sessions()[-1].number
    bench.gateway.on_blocked(bench.session(session).peer, bench.now_s)
    bench.later(10)
    answered(bench, beat(bench))
    assert said_age(bench, wire) >= 10


def test_streams_have_ages_of_their_own(bench: GatewayBench) -> None:
    fresh = Freshness()
    fresh.sent(1, 50.0)
    said = BeatAnswer(streams=[CompleteStream(log=LOG_1D, age_ms=1_000)], held=[Held(domain="d", age_ms=2_000)])
    fresh.answered(1, Ages({OBJECTS: None, said.streams[0].log: said.streams[0].age_ms}), OBJECTS)
    assert fresh.as_of(LOG_1D, "d", objects=False) == 49.0
    assert fresh.as_of(OBJECTS, "d", objects=True) == UNKNOWN_S
