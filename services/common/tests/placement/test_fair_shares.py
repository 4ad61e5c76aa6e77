"""Shares follow weights, limits and homes; who is above its share sends clients away, slowly, and stops."""

import pytest
from coldnotify_common.placement.fair_shares import (
    ABOVE_FOR_S,
    BALANCE_NOT_HERE_S,
    DOWN_TO,
    FULL_NOT_HERE_S,
    NOTHING_KNOWN,
    Balance,
    GatewayShare,
    not_here_s,
    outlook,
)


def shares(*gateways: GatewayShare) -> list[float]:
    """The share of each."""
    level = outlook(gateways[0], gateways[1:]).level
    return [one.at(level) for one in gateways]


def test_shares_follow_the_weights() -> None:
    assert shares(GatewayShare(400, 0, 3), GatewayShare(0, 0, 1)) == pytest.approx([300, 100])


def test_others_share_the_rest_of_a_small_gateway() -> None:
    assert shares(GatewayShare(300, 0), GatewayShare(0, 0), GatewayShare(0, 50)) == pytest.approx([130, 130, 40])


def test_clients_at_home_stay() -> None:
    assert shares(GatewayShare(300, 0, home=200), GatewayShare(0, 0), GatewayShare(0, 0)) == pytest.approx(
        [200, 50, 50]
    )


def test_a_gateway_without_weight_has_no_share() -> None:
    assert shares(GatewayShare(100, 0, 0), GatewayShare(0, 0)) == pytest.approx([0, 100])
    assert shares(GatewayShare(100, 0, 0))[0] == 0


def test_a_full_gateway_sends_on_where_another_has_room() -> None:
    full, room = GatewayShare(81, 100), GatewayShare(79, 100)
    assert not_here_s(full, outlook(full, [room]), balances=False) == FULL_NOT_HERE_S
    assert not_here_s(full, NOTHING_KNOWN, balances=False) == FULL_NOT_HERE_S
    assert not_here_s(full, outlook(full, [full]), balances=False) == 0, "all are full: somebody has to take it"
    assert not_here_s(room, outlook(room, [full]), balances=False) == 0
    assert not_here_s(full, outlook(full, []), balances=False) == 0


def test_one_above_its_share_sends_on_if_it_balances() -> None:
    above, below = GatewayShare(150, 1000), GatewayShare(50, 1000)
    known = outlook(above, [below])
    assert not_here_s(above, known, balances=True) == BALANCE_NOT_HERE_S
    assert not_here_s(above, known, balances=False) == 0
    assert not_here_s(below, outlook(below, [above]), balances=True) == 0


def test_balance_waits_a_minute_then_sends_a_twentieth_a_minute_and_stops() -> None:
    balance, connections, other, sent_at = Balance(), 1500, 500, []
    for step in range(0, 1200, 5):
        own = GatewayShare(connections, 0)
        count = balance.tick(float(step), own, outlook(own, [GatewayShare(other, 0)]))
        if count:
            sent_at.append(step)
        connections, other = connections - count, other + count
    assert sent_at[0] > ABOVE_FOR_S
    assert connections == pytest.approx(DOWN_TO * 1000, abs=1)
    minutes = (sent_at[-1] - sent_at[0]) / 60
    assert 7 < minutes < 8.5, "1.5 times the share, 5 % a minute"


def test_a_little_above_is_left_alone() -> None:
    balance, own = Balance(), GatewayShare(1190, 0)
    known = outlook(own, [GatewayShare(810, 0)])
    assert not any(balance.tick(float(step), own, known) for step in range(600))


def test_a_peak_is_left_alone() -> None:
    balance = Balance()
    for step in range(600):
        own = GatewayShare(1500 if step % 50 else 1000, 0)
        assert balance.tick(float(step), own, outlook(own, [GatewayShare(2000 - own.connections, 0)])) == 0
