"""What a wrong clock does, and what Kafka refuses because of one, scripted.

Stands for: clock, clock_faults
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from coldnotify_common.clocks import Clocks
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.scripted import (
    Rule,
    check,
    connected,
    must,
    must_be_told,
    must_stay_registered,
    no_matcher,
    takeover,
)
from coldnotify_simulation.world import World
from coldnotify_streams.core.claims import Claims
from coldnotify_streams.core.partition_progress import OwningPhase

TOPICS = TopicNames()

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FORGOTTEN_MS, RETENTION_MS = 180 * DAY_MS, 30 * DAY_MS


def served(world: World) -> set[int]:
    """The partitions that somebody serves."""
    runs = [matcher.run for matcher in world.matchers if matcher.run is not None]
    return {number for run in runs for number, p in run.partitions.items() if p.phase is OwningPhase.OWNED}


# ---- claims


def a_topic_takes_no_claims_for_a_while() -> None:
    world = connected("a")
    (client,) = world.clients
    no_matcher(world)
    world.run(8.0)
    world.kafka.closed = {TOPICS.sessions}
    for matcher in world.matchers:
        matcher.start()
    world.run(25.0)
    must(not served(world), "a partition is served without a claim")
    world.kafka.closed = set()
    version = world.publish_next(client.key_of("a"))
    world.run(15.0)
    must(served(world) == {0, 1}, f"P1: only {served(world)} are served")
    must_be_told(world, client, "a", (0, version))
    world.settle([client])


def a_clock_is_an_hour_ahead_at_the_start_and_set_right_seconds_later() -> None:
    world = connected("a")
    (client,) = world.clients
    no_matcher(world)
    world.run(8.0)
    world.kafka.ahead_max_ms, world.kafka.stamps = HOUR_MS, False
    for matcher in world.matchers:
        matcher.ahead_ms = HOUR_MS + 60_000
        matcher.start()
    world.run(8.0)
    must(not served(world), "Kafka takes what it must refuse")
    for matcher in world.matchers:
        matcher.ahead_ms = 0
    version = world.publish_next(client.key_of("a"))
    world.run(15.0)
    must(served(world) == {0, 1}, f"P1: only {served(world)} are served")
    must_be_told(world, client, "a", (0, version))
    world.settle([client])


@contextmanager
def what_kafka_says_to_claims_is_not_looked_at() -> Iterator[None]:
    with patch.object(Claims, "on_answer", lambda *_: None):
        yield


# ---- what cannot be undone


def with_periods(*names: str) -> World:
    """As `connected`, with a second client that sleeps, by matchers that forget and remove."""
    world = connected(*names, clients=3)
    sleeper = world.clients[2]
    sleeper.wish = set(names)
    world.start_client(sleeper)
    world.clock.run_until(lambda: sleeper.caught_up)
    world.run(3.0)
    world.shut_down(sleeper)
    world.forgets_nobody = True
    world.retention = RetentionRules(others_ms=RETENTION_MS)
    for matcher in world.matchers:
        matcher.rules = replace(matcher.rules, forgotten_after_ms=FORGOTTEN_MS, retention=world.retention)
    takeover(world)
    world.clock.run_until(lambda: world.clients[0].caught_up)
    world.run(90.0)
    for name in names:
        must_stay_registered(world, sleeper, name)
    return world


def set_clocks(world: World, ahead_ms: int, *, all_of_them: bool) -> None:
    for matcher in world.matchers:
        matcher.ahead_ms = ahead_ms
    if all_of_them:
        world.kafka.ahead_ms = ahead_ms
        for gateway in world.gateways:
            gateway.ahead_ms = ahead_ms


def must_have_lost_nothing(world: World) -> None:
    counts = world.counts()
    must(not counts["forgotten"], "P5: a client was forgotten before its time")
    must(not counts["removed"], "P1: an object was removed before its time")
    must(not counts["silent_gateways"], "P2: sessions of a gateway that is there were ended")
    client = world.clients[0]
    version = world.publish_next(client.key_of("a"))
    world.run(1.0)
    must_be_told(world, client, "a", (0, version))
    world.settle([client])


def ahead_for_20_s(*, all_of_them: bool, right_for_s: float) -> None:
    world = with_periods("a", "b")
    set_clocks(world, 200 * DAY_MS, all_of_them=all_of_them)
    world.run(20.0)
    set_clocks(world, 0, all_of_them=all_of_them)
    world.run(right_for_s)
    must_have_lost_nothing(world)


def a_matchers_clock_is_200_days_ahead_for_20_s() -> None:
    ahead_for_20_s(all_of_them=False, right_for_s=100.0)


def all_clocks_of_a_machine_are_200_days_ahead_for_20_s() -> None:
    ahead_for_20_s(all_of_them=True, right_for_s=200.0)


def matchers_start_while_all_clocks_are_wrong() -> None:
    world = with_periods("a", "b")
    set_clocks(world, 200 * DAY_MS, all_of_them=True)
    for matcher in world.matchers:
        matcher.kill()
        matcher.start()
    world.run(20.0)
    set_clocks(world, 0, all_of_them=True)
    world.run(400.0)
    must(all(matcher.clocks.adopted for matcher in world.matchers), "no clock was adopted")
    must_have_lost_nothing(world)


def a_clock_steps_back_and_those_seen_before_are_forgotten_some_day() -> None:
    """Not too early, and not never: what the clock said when it was ahead is not believed."""
    world = connected("a")
    (client,) = world.clients
    set_clocks(world, 200 * DAY_MS, all_of_them=True)
    takeover(world)
    world.run(70.0)
    world.shut_down(client)
    world.run(5.0)
    set_clocks(world, 0, all_of_them=True)
    no_matcher(world)
    for matcher in world.matchers:
        matcher.rules = replace(matcher.rules, forgotten_after_ms=600_000, retention=RetentionRules())
    world.run(7.0)
    for matcher in world.matchers:
        matcher.start()
    world.run(500.0)
    known = [
        p for m in world.matchers if m.run for p in m.run.partitions.values() if client.key in p.engine.state.clients
    ]
    must(bool(known), f"P5: {client.name} was forgotten too early")
    world.run(2 * HOUR_MS / 1000)
    known = [
        p for m in world.matchers if m.run for p in m.run.partitions.values() if client.key in p.engine.state.clients
    ]
    must(not known, f"P6: {client.name} is never forgotten")


@contextmanager
def the_wall_clock_is_believed() -> Iterator[None]:
    def look(self: Clocks, wall_ms: float, steady_s: float) -> int:
        self._steady_s, self._offset_ms = steady_s, wall_ms - steady_s * 1000
        return round(wall_ms)

    with patch.object(Clocks, "look", look), patch.object(Clocks, "allows", lambda *_: True):
        yield


@contextmanager
def it_is_enough_that_no_clock_is_apart_now() -> Iterator[None]:
    def allows(self: Clocks, _period_ms: int) -> bool:
        return self._agree_since_s is not None

    with patch.object(Clocks, "allows", allows):
        yield


@contextmanager
def times_in_the_future_are_believed() -> Iterator[None]:
    with patch("coldnotify_matcher.engine.upkeep.forgetting.APART_MS_MAX", 1000 * DAY_MS):
        yield


CASES: list[tuple[Callable[[], None], Rule]] = [
    (a_topic_takes_no_claims_for_a_while, what_kafka_says_to_claims_is_not_looked_at),
    (
        a_clock_is_an_hour_ahead_at_the_start_and_set_right_seconds_later,
        what_kafka_says_to_claims_is_not_looked_at,
    ),
    (a_matchers_clock_is_200_days_ahead_for_20_s, the_wall_clock_is_believed),
    (all_clocks_of_a_machine_are_200_days_ahead_for_20_s, the_wall_clock_is_believed),
    (matchers_start_while_all_clocks_are_wrong, it_is_enough_that_no_clock_is_apart_now),
    (a_clock_steps_back_and_those_seen_before_are_forgotten_some_day, times_in_the_future_are_believed),
]


@pytest.mark.parametrize(("play", "rule"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rule(play: Callable[[], None], rule: Rule) -> None:
    check(play, rule)
