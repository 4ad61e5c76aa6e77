"""Interleavings around gateways, matchers and what is between them, scripted: each fails without its rules."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from coldnotify_gateway.core.from_matcher import FromMatcher
from coldnotify_gateway.core.gateway import Gateway as GatewayCore
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.states import SessionState
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.upkeep import upkeep
from coldnotify_matcher.generations import Generations
from coldnotify_matcher.stored_state import StoredState
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import SyncChunk
from coldnotify_simulation import client as client_module
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.scripted import (
    Rule,
    check,
    connected,
    gateway_of,
    link_of,
    must,
    must_be_told,
    no_matcher,
    no_session_is_doubted,
    one_gateway,
    takeover,
    until_item,
    until_request,
)
from coldnotify_simulation.world import World

TOPICS = TopicNames()

# ---- a matcher of before


def a_matcher_goes_on_with_writes_queued_after_its_successor_took_over() -> None:
    world = connected("a")
    (client,) = world.clients
    old = next(one for one in world.matchers if one.run is not None and 0 in one.run.partitions)
    old.doom = 0, "stop"
    world.register(client, "b")
    world.clock.run_until(lambda: old.stopped)
    world.run(20.0)
    client.unregister("b")
    world.run(5.0)
    old.go_on()
    world.run(10.0)
    world.settle([client])


@contextmanager
def what_is_outdone_is_not_written_over() -> Iterator[None]:
    with patch.object(Engine, "rewrite", lambda *_, **__: None):
        yield


# ---- what is said to gateways is lost


def an_inbox_record_is_lost() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    gateway = gateway_of(world, client)
    gateway.late = 1.0
    world.publish_next(client.key_of("a"))
    inbox = gateway.core.inbox
    world.kafka.log(TOPICS.notifications, inbox).remove(until_item(world, "fan_out", inbox))
    world.run(2.0)
    world.publish_next(client.key_of("b"))
    world.calm()
    world.settle([client])


@contextmanager
def numbers_say_nothing() -> Iterator[None]:
    with patch.object(PartitionView, "take_number", lambda *_: True):
        yield


def the_notifications_topic_is_recreated() -> None:
    world = connected("a")
    (client,) = world.clients
    gateway = gateway_of(world, client)
    gateway.late = 1.0
    world.publish_next(client.key_of("a"))
    until_item(world, "fan_out", gateway.core.inbox)
    world.lose_topic(TOPICS.notifications)
    world.calm()
    world.settle([client])


@contextmanager
def a_lost_inbox_is_read_on() -> Iterator[None]:
    with (
        patch.object(GatewayCore, "on_inbox_lost", lambda *_: []),
        patch.object(SimulatedGateway, "_begin_anew", lambda *_: None),
    ):
        yield


def a_gateway_restarts_on_the_same_inbox() -> None:
    world = World(1, clients=3, late_s=0.001)
    world.start()
    one_gateway(world, inbox=0)
    gateway = world.gateways[0]
    before, _, after = world.clients  # of one group
    for name in ("a", "b"):
        world.publish_next(before.key_of(name))
    after.wish = {"b"}
    world.start_client(after)
    world.clock.run_until(lambda: after.caught_up)
    world.run(3.0)
    world.shut_down(after)
    world.run(3.0)
    no_matcher(world)
    world.publish_next(before.key_of("b"))
    world.run(7.0)
    one_gateway(world, inbox=0)
    before.wish = {"a"}
    world.start_client(before)
    until_request(world, "open")  # of this boot's session 1; the answer will be for it
    gateway.kill()
    world.power_loss(before)
    gateway.start()
    world.start_client(after)
    until_request(world, "open")  # of that boot's session 1
    world.matchers[0].start()
    world.settle([after])


@contextmanager
def what_is_for_another_boot_counts() -> Iterator[None]:
    on_inbox = FromMatcher.on_inbox

    def without(self: FromMatcher, inbox: Inbox, now_s: float) -> object:
        if inbox.gateway:
            inbox.gateway = self._id
        return on_inbox(self, inbox, now_s)

    with patch.object(FromMatcher, "on_inbox", without):
        yield


# ---- the sessions topic is deleted


def the_sessions_topic_is_deleted() -> None:
    hourly = replace(client_module.SETTINGS, keepalive_s=3600)
    with patch.object(client_module, "SETTINGS", hourly):  # its Ping would heal it, too
        world = connected("a")
    (client,) = world.clients
    link = client.link
    world.lose_topic(TOPICS.sessions)
    world.run(25.0)
    world.publish_next(client.key_of("a"))
    world.settle([client])
    must(client.link is link, "P2: a session was closed because the service lost it")


@contextmanager
def sessions_are_not_announced() -> Iterator[None]:
    with patch.object(PartitionView, "beat_answered", lambda *_, **__: False):
        yield


def lose_the_claims_and_publish(world: World) -> None:
    """While no matcher runs; then all goes well again."""
    (client,) = world.clients
    no_matcher(world)
    world.lose_topic(TOPICS.sessions)
    world.publish_next(client.key_of("a"))
    world.run(7.0)
    world.calm()
    world.settle([client])


def claims_are_lost_and_those_of_before_were_higher() -> None:
    world = connected("a")
    takeover(world)
    takeover(world)
    lose_the_claims_and_publish(world)


@contextmanager
def claims_are_not_raised() -> Iterator[None]:
    with patch.object(upkeep, "OUTDONE_MS", 1 << 60):
        yield


def a_matcher_of_a_lower_generation_speaks_in_vain() -> None:
    world = connected("a")
    (client,) = world.clients
    takeover(world)
    takeover(world)
    for matcher in world.matchers:
        matcher.commits_held = True
    link_of(client).cut("cut")  # its next Open will be taken once more
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.0)
    lose_the_claims_and_publish(world)


@contextmanager
def what_was_said_in_vain_is_not_missed() -> Iterator[None]:
    on_inbox = FromMatcher.on_inbox

    def without(self: FromMatcher, inbox: Inbox, now_s: float) -> object:
        self._connections.views[inbox.partition].take_said_in_vain()
        return on_inbox(self, inbox, now_s)

    with patch.object(FromMatcher, "on_inbox", without):
        yield


def a_set_is_answered_by_a_matcher_that_does_not_know_the_asking() -> None:
    world = connected("a")
    (client,) = world.clients
    no_matcher(world)
    world.lose_topic(TOPICS.registrations)
    world.run(7.0)
    for matcher in world.matchers:
        matcher.start()
    until_item(world, "opened", gateway_of(world, client).core.inbox)  # not in sync
    for matcher in world.matchers:
        matcher.shut_down()
        matcher.start()
    world.settle([client])


@contextmanager
def each_set_puts_the_asking_off() -> Iterator[None]:
    sync = RequestMaker.sync

    def without(self: RequestMaker, session: Identified, chunk: SyncChunk, now_s: float) -> object:
        if session.state is SessionState.UNSYNCED and chunk.last:
            session.question.answered()
        return sync(self, session, chunk, now_s)

    with patch.object(RequestMaker, "sync", without):
        yield


def the_requests_topic_is_recreated_and_the_first_to_take_over_fails() -> None:
    names = [f"n{i}" for i in range(70)]  # two records
    world = connected(*names)
    (client,) = world.clients
    world.run(60.0)
    world.register(client, "late")  # its offset is far from the topic's beginning
    world.run(5.0)
    world.shut_down(client)
    world.run(2.0)
    no_matcher(world)
    world.lose_topic(TOPICS.requests)
    world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, f"{client.key}/0".encode(), None)
    world.publish_next(client.key_of("n0"))
    world.run(7.0)
    claims = world.promises.takeovers
    for matcher in world.matchers:
        matcher.start()
    world.clock.run_until(lambda: world.promises.takeovers >= claims + PARTITIONS)
    no_matcher(world)
    world.run(7.0)
    world.calm()
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    must_be_told(world, client, "n0", (0, 2))
    world.settle([client])


@contextmanager
def a_claim_speaks_for_all_records_before_it() -> Iterator[None]:
    def without(self: Generations, requests_topic_changed: bool) -> int:
        return self.claimed if requests_topic_changed else 0

    with patch.object(Generations, "requests_since", without):
        yield


@contextmanager
def offsets_beyond_the_end_are_believed() -> Iterator[None]:
    """It would set the records aside whose offsets are of the topic before, in this case."""
    with patch.object(StoredState, "_is_believed", lambda *_, **__: True):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (a_matcher_goes_on_with_writes_queued_after_its_successor_took_over, [what_is_outdone_is_not_written_over]),
    (an_inbox_record_is_lost, [numbers_say_nothing]),
    (the_notifications_topic_is_recreated, [numbers_say_nothing, a_lost_inbox_is_read_on]),
    (a_gateway_restarts_on_the_same_inbox, [what_is_for_another_boot_counts]),
    (
        a_set_is_answered_by_a_matcher_that_does_not_know_the_asking,
        [each_set_puts_the_asking_off, no_session_is_doubted],
    ),
    (the_sessions_topic_is_deleted, [sessions_are_not_announced]),
    (claims_are_lost_and_those_of_before_were_higher, [claims_are_not_raised]),
    (a_matcher_of_a_lower_generation_speaks_in_vain, [what_was_said_in_vain_is_not_missed]),
    (
        the_requests_topic_is_recreated_and_the_first_to_take_over_fails,
        [a_claim_speaks_for_all_records_before_it, offsets_beyond_the_end_are_believed],
    ),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
