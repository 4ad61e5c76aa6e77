"""What a wrong clock does, and what Kafka refuses because of one, scripted.

Stands for: clock
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify_schemas import topics
from coldnotify_simulation.scripted import Rule, check, connected, must, must_be_told, no_matcher
from coldnotify_simulation.world import World
from coldnotify_streams.core.claims import Claims
from coldnotify_streams.core.job import Phase

HOUR_MS = 3_600_000


def served(world: World) -> set[int]:
    """The partitions that somebody serves."""
    runs = [matcher.run for matcher in world.matchers if matcher.run is not None]
    return {number for run in runs for number, p in run.partitions.items() if p.phase is Phase.OWNED}


# ---- claims


def a_topic_takes_no_claims_for_a_while() -> None:
    world = connected("a")
    (client,) = world.clients
    no_matcher(world)
    world.run(8.0)
    world.kafka.closed = {topics.SESSIONS}
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
    world.kafka.ahead_max_ms = HOUR_MS
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


CASES: list[tuple[Callable[[], None], Rule]] = [
    (a_topic_takes_no_claims_for_a_while, what_kafka_says_to_claims_is_not_looked_at),
    (
        a_clock_is_an_hour_ahead_at_the_start_and_set_right_seconds_later,
        what_kafka_says_to_claims_is_not_looked_at,
    ),
]


@pytest.mark.parametrize(("play", "rule"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_it_holds_and_fails_without_its_rule(play: Callable[[], None], rule: Rule) -> None:
    check(play, rule)
