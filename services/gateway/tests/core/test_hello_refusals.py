"""Hellos that are refused, and what their clients are told of coming back.

Stands for: come_back
"""

import pytest
from coldnotify_common.placement.fair_shares import (
    BALANCE_NOT_HERE_S,
    FULL_NOT_HERE_S,
    NOTHING_KNOWN,
    REST_S,
    GatewayShare,
    outlook,
)
from coldnotify_gateway.core import Limits
from coldnotify_gateway.core.hello_refusals import CUT_OFF_NOT_HERE_S, RETRY_AFTER_S, RETRY_SPREAD_S
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import CAPABILITY_AT_HOME, CAPABILITY_MOVES, Close
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

MOVES, AT_HOME = CAPABILITY_MOVES, CAPABILITY_MOVES | CAPABILITY_AT_HOME


def close_of(wire: WireDouble) -> Close:
    """The Close that the connection was sent."""
    (frame,) = wire.take()
    assert frame.WhichOneof("frame") == "close"
    assert wire.finished
    return frame.close


def test_a_gateway_that_is_cut_off_refuses_everybody_before_any_request(bench: GatewayBench) -> None:
    bench.gateway.on_kafka(silent=True, alone=True)
    closes = [close_of(bench.opening(hello(f"c{n}", capabilities=(0, MOVES, AT_HOME)[n % 3]))) for n in range(100)]
    assert {close.code for close in closes} == {CloseCode.OVERLOADED}
    times = [close.retry_after_s for close in closes]
    assert times == [close.not_here_s for close in closes]
    assert set(times) == set(range(RETRY_AFTER_S, RETRY_AFTER_S + RETRY_SPREAD_S))
    assert max(map(times.count, times)) == 5, "spread evenly"
    assert not bench.requests


def test_while_kafka_is_silent_for_all_only_those_with_another_address_are_refused(bench: GatewayBench) -> None:
    bench.gateway.on_kafka(silent=True, alone=False)
    close = close_of(bench.opening(hello(capabilities=MOVES)))
    assert (close.code, close.not_here_s) == (CloseCode.OVERLOADED, 0)
    assert close.retry_after_s >= RETRY_AFTER_S
    assert not bench.requests
    bench.opening(hello("other"))
    bench.take_requests("open")
    bench.gateway.on_kafka(silent=False, alone=False)
    bench.opening(hello(capabilities=MOVES))
    bench.take_requests("open")


def test_a_cut_off_gateway_sends_sessions_away(bench: GatewayBench) -> None:
    wires = [bench.live(hello(f"c{n}")) for n in range(3)]
    bench.do(bench.gateway.cut_off(2, bench.now_s))
    closes = [close_of(wire) for wire in wires[:2]]
    assert {(close.code, close.not_here_s) for close in closes} == {(CloseCode.GOING_AWAY, CUT_OFF_NOT_HERE_S)}
    assert not wires[2].finished
    assert bench.gateway.session_count == 1


def test_above_its_mark_it_keeps_places_for_those_at_home_and_those_without_another_address() -> None:
    bench = GatewayBench(Limits(connections_max=10))
    for n in range(8):
        bench.opening(hello(f"c{n}", capabilities=MOVES))
    assert close_of(bench.opening(hello("ninth", capabilities=MOVES))).not_here_s == FULL_NOT_HERE_S
    home = bench.opening(hello("ninth", capabilities=AT_HOME))
    assert not home.finished
    assert bench.gateway.home_count == 1
    assert not bench.opening(hello("tenth")).finished
    assert close_of(bench.connect()).code == CloseCode.OVERLOADED
    bench.do(bench.gateway.on_disconnected(home, bench.now_s))
    assert bench.gateway.home_count == 0


def test_clients_are_taken_if_all_are_full() -> None:
    bench = GatewayBench(Limits(connections_max=10))
    for n in range(8):
        bench.opening(hello(f"c{n}", capabilities=MOVES))
    full = GatewayShare(9, 10)
    bench.gateway.on_gateways(outlook(bench.gateway.share(), [full]), balances=False)
    assert not bench.opening(hello("ninth", capabilities=MOVES)).finished


def test_balance_sends_on_who_comes_to_a_gateway_above_its_share(bench: GatewayBench) -> None:
    for n in range(8):
        bench.opening(hello(f"c{n}", capabilities=MOVES))
    known = outlook(bench.gateway.share(), [GatewayShare(2, 100)])
    bench.gateway.on_gateways(known, balances=True)
    assert close_of(bench.opening(hello("ninth", capabilities=MOVES))).not_here_s == BALANCE_NOT_HERE_S
    assert not bench.opening(hello("home", capabilities=AT_HOME)).finished
    bench.gateway.on_gateways(known, balances=False)
    assert not bench.opening(hello("ninth", capabilities=MOVES)).finished
    bench.gateway.on_gateways(NOTHING_KNOWN, balances=True)
    assert not bench.opening(hello("tenth", capabilities=MOVES)).finished


@pytest.mark.parametrize("capabilities", [0, AT_HOME, MOVES])
def test_balance_ends_only_old_sessions_of_those_that_move_and_are_not_at_home(
    bench: GatewayBench, capabilities: int
) -> None:
    bench.answers_beats = True
    wires = [bench.live(hello(f"c{n}", capabilities=capabilities, keepalive_s=3600)) for n in range(3)]
    bench.do(bench.gateway.balance(10, bench.now_s))
    assert not any(wire.finished for wire in wires), "they have just come"
    bench.later(REST_S + 1)
    bench.do(bench.gateway.balance(2, bench.now_s))
    gone = [wire.finished for wire in wires]
    assert gone == ([True, True, False] if capabilities == MOVES else [False] * 3)
    if capabilities == MOVES:
        close = wires[0].take()[-1].close
        assert (close.code, close.not_here_s) == (CloseCode.GOING_AWAY, BALANCE_NOT_HERE_S)
