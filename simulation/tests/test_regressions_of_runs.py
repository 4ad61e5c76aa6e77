"""What a run does beside its steps, scripted: barriers that come late, hold-back, the standby, faults of partitions.

Stands for: poison
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from coldnotify_matcher.engine.clients.brief_sessions import BriefSessions
from coldnotify_schemas.internal_pb2 import CatchUp, Open, Request
from coldnotify_schemas.matcher_state import GenerationRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.poison import POISON_STEP, POISONS
from coldnotify_simulation.scripted import (
    Rule,
    check,
    connected,
    must,
    must_be_told,
    no_matcher,
    takeover,
    until_request,
)
from coldnotify_simulation.world import CLAIMS, DOMAIN, GROUPS, World
from coldnotify_streams.core import barriers
from coldnotify_streams.core.actions import AskEnds
from coldnotify_streams.core.barriers import Barriers
from coldnotify_streams.core.events import Takeover
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.core.reloads import Reloads
from coldnotify_streams.core.run import CAREFUL_A_STEP_MAX, JobRun, RunLimits

TOPICS = TopicNames()


def nothing_to_do(*_: object) -> Iterator[None]:
    return iter(())


# ---- barriers


def a_wake_while_what_was_acknowledged_stands_behind_an_open_transaction() -> None:
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    world.run(3.0)
    world.open_transaction(0, 5.0)
    world.publish_next(client.key_of("a"))
    world.start_client(client)
    world.run(8.0)
    world.calm()
    world.settle([client])


@contextmanager
def the_barrier_is_what_can_be_read() -> Iterator[None]:
    with patch.object(barriers, "AskEnds", lambda places, **_: AskEnds(places, uncommitted=False)):
        yield


def requests_are_held_back_while_the_objects_topic_is_behind() -> None:
    world = connected("a")
    (client,) = world.clients
    for matcher in world.matchers:
        matcher.limits = replace(RunLimits(), pending_requests_max=0)
    takeover(world)
    world.clock.run_until(lambda: client.caught_up)
    world.open_transaction(0, 4.0)
    world.publish_next(client.key_of("a"))
    world.register(client, "b")
    world.run(2.0)
    must(any(p.held_back for m in world.matchers if m.run for p in m.run.partitions.values()), "nothing is held back")
    world.run(20.0)
    world.register(client, "c")
    world.publish_next(client.key_of("a"))
    world.settle([client])


@contextmanager
def what_is_held_back_stays_in_kafka() -> Iterator[None]:
    bound = Barriers.bound

    def without(self: Barriers, partition: JobPartition) -> None:
        if not partition.held_back:
            bound(self, partition)

    with patch.object(Barriers, "bound", without):
        yield


# ---- takeovers


def a_stray_that_was_followed_is_moved_by_whoever_takes_over() -> None:
    world = connected("a")
    (client,) = world.clients
    for matcher in world.matchers:
        matcher.standby = True
    takeover(world)
    world.run(5.0)
    owner = next(m for m in world.matchers if m.run is not None and 1 in m.run.partitions)
    owner.kill()
    world.publish(client.key_of("a"), 7, partition=1)
    world.run(2.0)
    other = next(m for m in world.matchers if m is not owner)
    assert other.run is not None
    must(1 in other.run.core.followed, "the other one does not follow it")
    world.run(8.0)
    must(other.run.partitions[1].warm, "it was loaded")
    world.settle([client])
    must_be_told(world, client, "a", (0, 7))


@contextmanager
def what_was_followed_is_not_read_again() -> Iterator[None]:
    load = JobPartition.load

    def without(
        self: JobPartition, starts: Mapping[str, int], ends: Mapping[str, int], takeover: Takeover
    ) -> dict[str, int]:
        before = dict(self.positions)
        return load(self, starts, ends, takeover) | before

    with patch.object(JobPartition, "load", without):
        yield


def somebody_else_claims_a_partition_and_serves_nobody() -> None:
    world = connected("a")
    (client,) = world.clients
    claims = [e.value for e in world.kafka.log(TOPICS.sessions, 0).entries if e.key == CLAIMS and e.value]
    last = msgspec.json.decode(claims[-1], type=GenerationRecord)
    forged = msgspec.structs.replace(last, generation=last.generation + 5, owner="stranger")
    world.kafka.append(TOPICS.sessions, 0, world.clock.now_ms, CLAIMS, msgspec.json.encode(forged))
    world.run(1.0)
    world.publish_next(client.key_of("a"))
    world.settle([client])


@contextmanager
def a_dropped_partition_is_not_claimed_again() -> Iterator[None]:
    with patch.object(JobRun, "_load_what_waited", nothing_to_do):
        yield


# ---- faults


def poisoned(kind: str) -> Callable[[], None]:
    def play() -> None:
        world = connected("a")
        (client,) = world.clients
        append_poison(world, kind)
        world.register(client, "b")
        world.publish_next(client.key_of("b"))
        world.settle([client])

    play.__name__ = kind
    return play


def append_poison(world: World, kind: str) -> None:
    append_request(world, kind, open=Open(ask=1))


def append_request(world: World, name: str, **body: Any) -> None:
    gateway = world.gateways[0].core
    request = Request(
        format=1, gateway=gateway.id, inbox=gateway.inbox, session=2**32 - 1,
        domain=DOMAIN, group=GROUPS[0], client=name, **body,
    )  # fmt: skip
    world.kafka.append(TOPICS.requests, 0, world.clock.now_ms, b"", request.SerializeToString())


@contextmanager
def nothing_is_set_aside() -> Iterator[None]:
    with patch.object(Reloads, "is_set_aside", lambda *_: False):
        yield


def a_step_fails_of_a_request_that_many_others_are_waiting_before() -> None:
    """All of them are read again with each load: of the wake that comes first nothing is written for 2 s."""
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    world.run(3.0)
    no_matcher(world)
    world.start_client(client)
    until_request(world, "open")
    for _ in range(CAREFUL_A_STEP_MAX + 10):
        append_request(world, "made-up", catch_up=CatchUp(page=1, ask=1))
    append_poison(world, POISON_STEP)
    world.calm()
    world.register(client, "b")
    world.publish_next(client.key_of("b"))
    world.settle([client])


@contextmanager
def what_is_read_counts_as_handled() -> Iterator[None]:
    with patch.object(JobPartition, "requests_tried", JobPartition.requests_read):
        yield


# ---- sessions of which nothing is written yet


def a_matcher_dies_while_nothing_is_written_of_a_session_yet() -> None:
    """Its successor knows the session at once, not only when a Ping or Beats have told that it does not."""
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    world.run(3.0)
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.2)
    no_matcher(world)
    world.run(7.0)
    for matcher in world.matchers:
        matcher.start()
    world.clock.run_until(lambda: any(owns(matcher) for matcher in world.matchers))
    version = world.publish_next(client.key_of("a"))
    world.run(0.5)
    must_be_told(world, client, "a", (0, version))
    world.settle([client])


def owns(matcher: Matcher) -> bool:
    return matcher.run is not None and any(p.phase is OwningPhase.OWNED for p in matcher.run.partitions.values())


@contextmanager
def its_open_is_committed() -> Iterator[None]:
    with patch.object(BriefSessions, "first_offset", None):
        yield


CASES = [
    (a_matcher_dies_while_nothing_is_written_of_a_session_yet, its_open_is_committed),
    (a_wake_while_what_was_acknowledged_stands_behind_an_open_transaction, the_barrier_is_what_can_be_read),
    (requests_are_held_back_while_the_objects_topic_is_behind, what_is_held_back_stays_in_kafka),
    (a_stray_that_was_followed_is_moved_by_whoever_takes_over, what_was_followed_is_not_read_again),
    (somebody_else_claims_a_partition_and_serves_nobody, a_dropped_partition_is_not_claimed_again),
    (a_step_fails_of_a_request_that_many_others_are_waiting_before, what_is_read_counts_as_handled),
    *((poisoned(kind), nothing_is_set_aside) for kind in POISONS),
]


@pytest.mark.parametrize(("play", "rule"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rule(play: Callable[[], None], rule: Rule) -> None:
    check(play, rule)
