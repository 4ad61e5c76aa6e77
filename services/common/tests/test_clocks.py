"""Clocks that agree, part and are set right: what is allowed meanwhile, and what time it is."""

from collections.abc import Mapping

import pytest
from coldnotify_common.clocks import (
    ADOPTED_AFTER_S,
    AGREED_S,
    APART_MS_MAX,
    CONFIRMED_S,
    KAFKA,
    NOBODY,
    SAID_FOR_S,
    TOLD_AFTER_S,
    WALL_SINCE_START,
    Clocks,
    Trusting,
)

DAY_MS = 86_400_000
T0_MS = 1_700_000_000_000
"""The true time at the start."""


class Bench:
    """A process: its clock, Kafka's and a gateway's may be ahead of the true time."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.told: list[Mapping[str, int]] = []
        self.clocks = Clocks(self.told.append)
        self.steady_s = 5_000.0
        self.true_ms = float(T0_MS)
        self.ahead_ms, self.kafka_ahead_ms = ahead_ms, 0
        self.gateway_ahead_ms: int | None = 0
        self.asks_kafka = True

    def run(self, seconds: float, step_s: float = 1.0) -> None:
        end_s = self.steady_s + seconds
        while self.steady_s < end_s:
            self.steady_s += step_s
            self.true_ms += step_s * 1000
            self.look()
            if self.asks_kafka and self.clocks.kafka_is_due:
                self.clocks.on_kafka(self.true_ms + self.kafka_ahead_ms, 0.005)
            if self.gateway_ahead_ms is not None and round(self.steady_s) % 5 == 0:
                self.clocks.heard("gateway", round(self.true_ms + self.gateway_ahead_ms))
            self.look()

    def look(self) -> int:
        return self.clocks.look(self.true_ms + self.ahead_ms, self.steady_s)


def test_what_rests_on_a_long_period_waits_for_a_minute_of_agreement_and_on_a_short_one_for_the_period() -> None:
    one = Bench()
    one.run(9)
    assert not one.clocks.allows(10_000)
    one.run(3)
    assert one.clocks.allows(10_000)
    assert one.clocks.confirms(10_000), "for less than that it is early at most"
    assert not one.clocks.allows(180 * DAY_MS)
    one.run(AGREED_S)
    assert one.clocks.allows(180 * DAY_MS)
    assert not one.clocks.confirms(180 * DAY_MS)
    one.run(CONFIRMED_S)
    assert one.clocks.confirms(180 * DAY_MS)
    assert one.told == []


def test_one_clock_alone_allows_nothing() -> None:
    one = Bench()
    one.asks_kafka, one.gateway_ahead_ms = False, None
    one.run(2 * CONFIRMED_S, 10)
    assert one.clocks.alone
    assert one.told == [{NOBODY: 0}]
    assert not one.clocks.allows(1)
    one.gateway_ahead_ms = 0
    one.run(2 * AGREED_S)
    assert one.clocks.allows(DAY_MS)
    assert not one.clocks.knows_kafka
    one.gateway_ahead_ms = None
    one.run(SAID_FOR_S + 1)
    assert not one.clocks.allows(DAY_MS), "what somebody said long ago does not count"


@pytest.mark.parametrize("days", [200, -200])
def test_a_clock_that_jumps_and_is_set_right_changes_nothing(days: int) -> None:
    one = Bench()
    one.run(2 * AGREED_S)
    one.ahead_ms = days * DAY_MS
    one.run(20)
    assert abs(one.clocks.now_ms - one.true_ms) < 1000, "it goes by the time that has passed"
    assert not one.clocks.allows(1)
    assert one.clocks.latest_ahead_ms == pytest.approx(max(0, days) * DAY_MS, abs=1000)
    assert one.clocks.earliest_ahead_ms == pytest.approx(min(0, days) * DAY_MS, abs=1000)
    assert set(one.told[0]) == {WALL_SINCE_START, KAFKA}
    assert one.told[0][KAFKA] == pytest.approx(-days * DAY_MS, abs=2000)
    one.ahead_ms = 0
    one.run(AGREED_S + 2)
    assert one.told[-1] == {}
    assert one.clocks.allows(200 * DAY_MS)
    assert one.clocks.adopted == 0
    assert abs(one.clocks.now_ms - one.true_ms) < 1000


def test_all_clocks_of_a_machine_jump_at_once_for_seconds() -> None:
    one = Bench()
    one.run(2 * AGREED_S)
    one.ahead_ms = one.kafka_ahead_ms = one.gateway_ahead_ms = 200 * DAY_MS
    one.run(20)
    assert not one.clocks.allows(1)
    assert abs(one.clocks.now_ms - one.true_ms) < 1000
    one.ahead_ms = one.kafka_ahead_ms = one.gateway_ahead_ms = 0
    one.run(1)
    assert not one.clocks.allows(200 * DAY_MS)
    one.run(3 * AGREED_S)
    assert one.clocks.allows(200 * DAY_MS)
    assert one.clocks.adopted == 0


def test_a_process_that_starts_while_all_clocks_are_wrong_for_seconds_does_nothing_for_an_hour() -> None:
    one = Bench(ahead_ms=200 * DAY_MS)
    one.kafka_ahead_ms = one.gateway_ahead_ms = 200 * DAY_MS
    one.run(20)
    assert not one.clocks.allows(200 * DAY_MS)
    one.ahead_ms = one.kafka_ahead_ms = one.gateway_ahead_ms = 0
    one.run(SAID_FOR_S + ADOPTED_AFTER_S + 10)
    assert one.clocks.adopted == 1
    assert abs(one.clocks.now_ms - one.true_ms) < 1000
    one.run(CONFIRMED_S / 2)
    assert not one.clocks.allows(200 * DAY_MS)
    assert one.clocks.apart == {}
    one.run(CONFIRMED_S / 2)
    assert one.clocks.allows(200 * DAY_MS)


@pytest.mark.parametrize("ahead_ms", [200 * DAY_MS, -200 * DAY_MS, APART_MS_MAX + 2000])
def test_a_process_that_starts_with_a_wrong_clock_is_told_so_by_kafka(ahead_ms: int) -> None:
    one = Bench(ahead_ms)
    one.run(30)
    assert not one.clocks.allows(1)
    assert KAFKA in one.clocks.apart
    assert one.clocks.latest_ahead_ms == pytest.approx(max(0, -ahead_ms), abs=1000)
    assert one.clocks.earliest_ahead_ms == pytest.approx(min(0, -ahead_ms), abs=1000)
    one.run(CONFIRMED_S * 2, 5)
    assert one.clocks.adopted == 0, "nobody says that it is right"
    assert not one.clocks.allows(1)
    one.ahead_ms = 0
    one.run(ADOPTED_AFTER_S + 5)
    assert one.clocks.adopted == 1
    assert abs(one.clocks.latest_ahead_ms) + abs(one.clocks.earliest_ahead_ms) < 1000


def test_a_gateway_with_a_wrong_clock_is_named_and_holds_all_up() -> None:
    one = Bench()
    one.gateway_ahead_ms = -2 * APART_MS_MAX
    one.run(2 * AGREED_S)
    assert set(one.clocks.apart) == {"gateway"}
    assert not one.clocks.allows(1)
    one.gateway_ahead_ms = 0
    one.run(2 * AGREED_S)
    assert one.clocks.allows(DAY_MS)


def test_records_that_are_read_late_for_a_moment_are_no_warning() -> None:
    one = Bench()
    one.gateway_ahead_ms = None
    for minutes in range(60, 0, -1):
        one.clocks.heard("gateway", round(one.true_ms - minutes * 60_000))
        one.run(TOLD_AFTER_S / 100, TOLD_AFTER_S / 100)
    assert not one.clocks.allows(1)
    one.gateway_ahead_ms = 0
    one.run(2 * AGREED_S)
    assert one.told == []
    assert one.clocks.allows(DAY_MS)


def test_small_steps_are_followed_slowly_and_many_of_them_are_no_large_one() -> None:
    one = Bench()
    one.run(10)
    one.ahead_ms = 40_000
    before_ms = one.clocks.now_ms
    one.run(10)
    assert 10_000 < one.clocks.now_ms - before_ms <= 12_600, "what lasts is measured nearly right"
    one.run(300)
    assert abs(one.clocks.now_ms - one.true_ms - 40_000) < 100
    assert one.clocks.apart == {}
    one.ahead_ms = -10_000
    times_ms = []
    for _ in range(100):
        one.run(1)
        times_ms.append(one.clocks.now_ms)
    assert times_ms == sorted(times_ms), "it never goes back"
    for hour in range(20):
        one.ahead_ms = one.kafka_ahead_ms = one.gateway_ahead_ms = -10_000 * hour
        one.run(CONFIRMED_S + 300, 5)
        assert one.clocks.apart == {}
    assert one.clocks.adopted == 0


def test_what_kafka_took_long_to_acknowledge_is_not_apart() -> None:
    one = Bench()
    one.asks_kafka = False
    one.run(100)
    one.clocks.on_kafka(one.true_ms - 90_000, 100.0)  # stamped soon after it was sent
    one.look()
    assert one.clocks.apart == {}
    one.clocks.on_kafka(one.true_ms - 90_000, 1.0)
    one.look()
    assert one.clocks.apart == {KAFKA: pytest.approx(-89_000, abs=10)}


def test_clocks_of_nodes_that_are_remembered_have_a_bound() -> None:
    one = Bench()
    for number in range(5_000):
        one.clocks.heard(f"gateway {number}", round(one.true_ms))
    assert len(one.clocks._others) == 1_000


def test_who_has_nothing_to_lose_trusts() -> None:
    assert Trusting().allows(1)
    assert Trusting().confirms(1)
    assert Trusting().latest_ahead_ms == Trusting().earliest_ahead_ms == 0


def test_who_starts_ahead_of_all_gateways_goes_by_them_while_it_does_not_know_kafkas_clock() -> None:
    one = Bench(ahead_ms=200 * DAY_MS)
    one.asks_kafka = False
    one.run(10)
    assert one.clocks.now_ms + one.clocks.earliest_ahead_ms == pytest.approx(one.true_ms, abs=6000)
    one.clocks.on_kafka(one.true_ms + 200 * DAY_MS, 0.005)
    one.look()
    assert one.clocks.earliest_ahead_ms == 0, "a broker's clock counts more: it judges what is stamped"
