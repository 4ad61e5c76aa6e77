"""Hellos above the pace wait in order, and lose nothing that their clients send meanwhile."""

import pytest
from coldnotify_gateway.core import Limits
from coldnotify_gateway.core import hello_pace as module
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.device_frames import bye, hello, ping
from coldnotify_testkit.gateway_bench import GatewayBench

PER_S = 10


@pytest.fixture
def paced() -> GatewayBench:
    """A gateway that takes ten Hellos a second, and has taken those of the first one."""
    bench = GatewayBench(Limits(hellos_per_s=PER_S))
    for n in range(PER_S):
        bench.opening(hello(f"first-{n}"))
    bench.take_requests(*["open"] * PER_S)
    return bench


def test_without_a_pace_nobody_waits(bench: GatewayBench) -> None:
    for n in range(500):
        bench.opening(hello(f"c{n}"))
    assert bench.gateway.hellos_waiting == 0
    assert Limits().hellos_per_s == 0


def test_a_crowd_is_told_how_long_it_waits_and_is_taken_in_order(paced: GatewayBench) -> None:
    crowd = [paced.opening(hello(f"c{n}")) for n in range(40)]
    waits = [wire.take()[0].wait.seconds for wire in crowd]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1, 4), "spread over the backlog"
    assert not paced.requests
    taken = []
    for _ in range(16):
        paced.later(0.25)
        taken.append(len(paced.requests))
    assert taken == sorted(taken)
    assert taken[3] <= PER_S + 1
    paced.later(0.5)
    opens = paced.take_requests(*["open"] * 40)
    assert [request.session for request in opens] == sorted(request.session for request in opens)
    assert paced.gateway.hellos_waiting == 0
    assert not any(wire.finished for wire in crowd)


def test_a_later_hello_does_not_overtake(paced: GatewayBench) -> None:
    paced.opening(hello("waits"))
    paced.opening(hello("later"))
    assert paced.gateway.hellos_waiting == 2
    paced.do(paced.gateway.take_hellos(paced.now_s + 5))
    assert paced.gateway.hellos_waiting == 0
    opens = paced.take_requests("open", "open")
    assert [request.session for request in opens] == [PER_S + 1, PER_S + 2]


def test_frames_that_come_meanwhile_are_heard_in_their_turn(paced: GatewayBench) -> None:
    pinged, gone, left, again = (paced.opening(hello(name)) for name in ("ping", "bye", "left", "again"))
    paced.say(pinged, ping())
    paced.say(gone, bye())
    paced.say(again, hello("again"))
    paced.do(paced.gateway.on_disconnected(left, paced.now_s))
    assert pinged.kinds() == ["wait"]
    paced.later(30)
    assert [kind for kind in pinged.kinds() if kind != "wait"] == ["pong"]
    assert gone.finished
    assert again.take()[-1].close.code == CloseCode.PROTOCOL_ERROR
    kinds = [request.WhichOneof("body") for request in paced.requests]
    assert kinds.count("open") - kinds.count("leave") == 1


def test_a_waiting_client_is_not_late_with_its_hello(paced: GatewayBench) -> None:
    crowd = [paced.opening(hello(f"c{n}")) for n in range(20 * PER_S)]
    paced.later(15)
    assert not any(wire.finished for wire in crowd)
    assert paced.gateway.unidentified_count == 0
    paced.later(6)
    assert paced.gateway.session_count == 21 * PER_S


def test_a_full_backlog_refuses_with_the_time_of_its_end(paced: GatewayBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 100)
    crowd = [paced.opening(hello(f"c{n}")) for n in range(20)]
    refused = [wire for wire in crowd if wire.finished]
    assert 0 < len(refused) < 20
    close = refused[0].take()[-1].close
    assert (close.code, close.retry_after_s) == (CloseCode.OVERLOADED, 1)


def test_too_much_behind_a_waiting_hello_is_refused(paced: GatewayBench) -> None:
    wire = paced.opening(hello("much"))
    for _ in range(40):
        paced.say(wire, ping() * 1000)
    assert wire.take()[-1].close.code == CloseCode.PROTOCOL_ERROR


def test_a_hello_may_be_refused_when_its_turn_comes(paced: GatewayBench) -> None:
    wire = paced.opening(hello("waits"))
    paced.gateway.on_kafka(silent=True, alone=True)
    paced.later(2)
    assert wire.take()[-1].close.code == CloseCode.OVERLOADED
    assert {one.WhichOneof("body") for one in paced.requests} <= {"beat", "acks"}
