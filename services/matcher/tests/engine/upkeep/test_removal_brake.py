"""Many removals at once wait until it is sure that the clock is right; few do not, nor what has nothing to lose."""

from dataclasses import dataclass

import pytest
from coldnotify_matcher.engine import RetentionRules, Rules
from coldnotify_matcher.engine.upkeep.forgetting import FLEETING_FORGOTTEN_AFTER_MS
from coldnotify_matcher.engine.upkeep.removal_brake import FEW, HOUR_MS, RemovalBrake
from coldnotify_testkit.engine_bench import DOMAIN, PREFIX, EngineBench

DAY_MS = 86_400_000
AFTER_MS = 180 * DAY_MS
OBJECTS_MS = 30 * DAY_MS


@dataclass
class Told:
    """What clocks say, as a test likes it."""

    allowed: bool = True
    confirmed: bool = False
    latest_ahead_ms: int = 0
    earliest_ahead_ms: int = 0

    def allows(self, _period_ms: int) -> bool:
        return self.allowed

    def confirms(self, _period_ms: int) -> bool:
        return self.confirmed

    def heard(self, name: str, stamp_ms: int) -> None:
        pass


@pytest.fixture
def clocks() -> Told:
    return Told()


@pytest.fixture
def bench(clocks: Told) -> EngineBench:
    retention = RetentionRules({DOMAIN: OBJECTS_MS})
    return EngineBench(rules=Rules(forgotten_after_ms=AFTER_MS, retention=retention, clocks=clocks))


def asleep(bench: EngineBench, count: int, first: int = 1) -> None:
    for session in range(first, first + count):
        bench.opened("a", client=f"client-{session}", session=session)
        bench.leave(client=f"client-{session}", session=session)
    bench.settle()


def published(bench: EngineBench, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        bench.publish(f"o{number}", b'{"version":1}', timestamp_ms=bench.now_ms)
    bench.settle()


def pass_by(bench: EngineBench, ms: int) -> None:
    bench.tick(ms)
    for _ in range(30):
        bench.tick(1)


def test_too_many_clients_at_once_wait_until_the_clock_is_confirmed(bench: EngineBench, clocks: Told) -> None:
    asleep(bench, FEW + 1)
    pass_by(bench, AFTER_MS)
    assert bench.engine.removals_held == (FEW + 1, 0)
    assert len(bench.engine.state.clients) == FEW + 1
    clocks.confirmed = True
    pass_by(bench, 1)
    assert (len(bench.engine.state.clients), bench.engine.removals_held) == (0, (0, 0))


def test_few_go_at_once_and_no_more_of_them_within_an_hour(bench: EngineBench) -> None:
    asleep(bench, 60)
    bench.tick(30 * 60_000)
    asleep(bench, 50, first=1000)
    pass_by(bench, AFTER_MS - 30 * 60_000)
    assert len(bench.engine.state.clients) == 50
    pass_by(bench, 30 * 60_000)
    assert len(bench.engine.state.clients) == 50, "they would be 110 within an hour"
    assert bench.engine.removals_held == (50, 0)
    pass_by(bench, HOUR_MS // 2 + 1000)
    assert len(bench.engine.state.clients) == 0


@pytest.mark.parametrize(("there_are", "held"), [(100_000, 0), (99_999, 1000)])
def test_a_hundredth_is_few(there_are: int, held: int) -> None:
    brake = RemovalBrake()
    for number in range(1000):
        brake.found(str(number))
    brake.end_round(there_are, 0)
    assert (len(brake.going), brake.held) == (1000 - held, held)


def test_too_many_objects_at_once_wait_for_an_operator(bench: EngineBench, clocks: Told) -> None:
    published(bench, FEW + 1)
    bench.describe("o1", b'{"description":{"Kind":"lamp"}}', timestamp_ms=bench.now_ms)
    bench.settle()
    pass_by(bench, OBJECTS_MS)
    assert bench.engine.removals_held == (0, FEW + 1), "one that is described is one"
    assert len(bench.engine.state.objects) == FEW + 1
    bench.engine.confirm_removals(bench.now_ms)
    pass_by(bench, 1)
    assert (len(bench.engine.state.objects), bench.engine.removals_held) == (0, (0, 0))
    published(bench, FEW + 1)
    bench.tick(2 * HOUR_MS)
    pass_by(bench, OBJECTS_MS)
    assert bench.engine.removals_held == (0, FEW + 1), "he has said so for an hour"


def test_by_clocks_that_are_apart_nothing_goes_whoever_has_confirmed_it(bench: EngineBench, clocks: Told) -> None:
    clocks.allowed, clocks.confirmed = False, True
    asleep(bench, 3)
    published(bench, 3)
    bench.engine.confirm_removals(bench.now_ms)
    pass_by(bench, 2 * AFTER_MS)
    assert len(bench.engine.state.clients) == 3
    assert {f"{PREFIX}o{i}" for i in range(3)} <= set(bench.engine.state.objects)
    clocks.allowed = True
    pass_by(bench, 1)
    assert len(bench.engine.state.clients) == 0
    assert not bench.engine.state.objects


def test_who_has_nothing_to_lose_is_not_held(bench: EngineBench, clocks: Told) -> None:
    asleep(bench, FEW + 1)
    for session in range(1, FEW + 2):
        bench.opened("a", client=f"client-{session}", session=5000 + session)
        bench.unregister("a", client=f"client-{session}", session=5000 + session)
        bench.leave(client=f"client-{session}", session=5000 + session)
    bench.settle()
    pass_by(bench, FLEETING_FORGOTTEN_AFTER_MS)
    assert len(bench.engine.state.clients) == 0
    assert bench.engine.removals_held == (0, 0)


def test_a_time_in_the_future_is_not_believed_and_is_not_for_ever(bench: EngineBench, clocks: Told) -> None:
    """A matcher whose clock was 200 days ahead has written when the client was seen."""
    bench.tick(200 * DAY_MS)
    asleep(bench, 1)
    bench.now_ms -= 200 * DAY_MS
    bench.load()
    clocks.allowed = False
    bench.tick(1)
    assert bench.engine.state.clients[f"{PREFIX}client-1"].last_seen_ms > bench.now_ms, (
        "whose clock is wrong is not known yet"
    )
    clocks.allowed = True
    bench.tick(1)
    bench.settle()
    assert bench.engine.state.clients[f"{PREFIX}client-1"].last_seen_ms <= bench.now_ms
    bench.load()
    assert bench.engine.state.clients[f"{PREFIX}client-1"].last_seen_ms <= bench.now_ms, "it is stored"
    pass_by(bench, AFTER_MS - DAY_MS)
    assert bench.engine.state.clients, "not too early"
    pass_by(bench, DAY_MS)
    assert not bench.engine.state.clients


def test_a_clock_behind_kafkas_makes_nobody_older_than_he_is(bench: EngineBench, clocks: Told) -> None:
    clocks.latest_ahead_ms = 200 * DAY_MS
    asleep(bench, 1)
    clocks.latest_ahead_ms = 0
    bench.now_ms += 200 * DAY_MS
    bench.load()
    pass_by(bench, DAY_MS)
    assert bench.engine.state.clients


def test_by_a_clock_ahead_of_kafkas_nothing_expires(bench: EngineBench, clocks: Told) -> None:
    clocks.earliest_ahead_ms = -200 * DAY_MS
    expires_ms = bench.now_ms - DAY_MS
    bench.publish("a", b'{"version":1,"payload":{"x":1},"expires_at":%d}' % expires_ms, timestamp_ms=bench.now_ms)
    bench.settle()
    assert bench.engine.state.expires_ms(bench.now_ms) < expires_ms
    newest = bench.engine.state.objects[f"{PREFIX}a"].newest(bench.engine.state.expires_ms(bench.now_ms))
    assert newest.payload
