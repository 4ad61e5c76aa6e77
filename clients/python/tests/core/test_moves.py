"""When another gateway is tried beside the session."""

from random import Random

import pytest
from coldnotify._core.session.moves import Moves
from coldnotify._core.settings import MoveTimes


class Least(Random):
    def uniform(self, a: float, b: float) -> float:
        return a


class Most(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.mark.parametrize(
    ("random", "delays"),
    [(Least(), [30, 60, 120, 240, 480, 600, 600]), (Most(), [60, 120, 240, 480, 600, 600, 600])],
)
def test_the_way_home_doubles_from_half_a_minute_to_ten(random: Random, delays: list[float]) -> None:
    moves = Moves(random, MoveTimes())
    assert moves.home_at == float("inf")
    moves.look_home(0, away=True)
    found, now = [moves.home_at], moves.home_at
    for _ in range(6):
        moves.look_home(now, away=True)
        moves.home_failed(now)
        found.append(moves.home_at - now)
        now = moves.home_at
    assert found == delays
    moves.look_home(now, away=False)
    assert moves.home_at == float("inf")
    moves.look_home(now, away=True)
    assert moves.home_at - now == delays[0]


@pytest.mark.parametrize(
    ("random", "delays"),
    [(Least(), [0, 60, 120, 240, 450, 450]), (Most(), [60, 120, 240, 480, 900, 900])],
)
def test_a_stale_client_is_patient_then_doubles(random: Random, delays: list[float]) -> None:
    moves = Moves(random, MoveTimes())
    assert moves.stale_at == float("inf")
    moves.look_stale(100, 50)
    moves.look_stale(100, 50)
    found, now = [moves.stale_at - 200], moves.stale_at
    for _ in range(5):
        moves.stale_failed(now, 0)
        found.append(moves.stale_at - now)
        now = moves.stale_at
    assert found == delays
    moves.look_stale(None, 50)
    assert moves.stale_at == float("inf")


def test_a_gateway_may_say_when_to_try_again() -> None:
    moves = Moves(Least(), MoveTimes())
    moves.look_stale(0, 50)
    moves.stale_failed(100, 300)
    assert moves.stale_at == 400


def test_twenty_thousand_stale_clients_try_350_times_a_second_at_most() -> None:
    seconds = [0] * 61
    for seed in range(20_000):
        moves = Moves(Random(seed), MoveTimes())
        moves.look_stale(0, 0)
        seconds[int(moves.stale_at)] += 1
    assert max(seconds) < 420, "333 a second in the mean"
