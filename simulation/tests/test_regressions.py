"""Interleavings of wakes and replays, scripted exactly: each holds, and fails without the rule that makes it hold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from coldnotify._core.client import Client
from coldnotify._core.session.session import ClientSession
from coldnotify_gateway.core import Identified
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_matcher import matcher_partition
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.inputs.requests import RequestHandler
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.scripted import Rule, check, connected, gateway_of, link_of

TOPICS = TopicNames()


def a_publish_then_a_wake_while_the_matcher_is_behind_on_objects() -> None:
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    world.run(3.0)
    for matcher in world.matchers:
        matcher.lag = 1.0
    world.publish_next(client.key_of("a"))
    world.start_client(client)
    world.run(1.5)
    world.calm()
    world.settle([client])


@contextmanager
def no_barrier() -> Iterator[None]:
    with patch.object(matcher_partition, "_NEED_BARRIER", frozenset()):
        yield


def a_connection_that_answers_nothing_while_a_request_waits() -> None:
    world = connected("a")
    (client,) = world.clients
    assert client.link is not None
    client.link.cut("half open", client_notices_s=float("inf"), gateway_notices_s=float("inf"))
    world.register(client, "b")
    world.publish_next(client.key_of("b"))
    world.calm()
    world.settle([client])


@contextmanager
def ping_only_when_nothing_is_sent() -> Iterator[None]:
    """A client that knows another gateway would leave this one after a while."""
    with (
        patch.object(ClientSession, "_ping_at", lambda self: self._sent_at + self._settings.keepalive_s),
        patch.object(Client, "beside_due", lambda self, now: None),
    ):
        yield


def a_publish_while_no_matcher_runs_and_the_client_stays_connected() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    for matcher in world.matchers:
        matcher.kill()
    world.publish_next(client.key_of("a"))
    world.run(2.0)
    world.calm()
    world.settle([client])


@contextmanager
def nothing_is_made_up_for_after_a_load() -> Iterator[None]:
    finish_load = Engine.finish_load

    def without(self: Engine, *args: object, objects_committed: int | None, **more: object) -> None:
        finish_load(self, *args, objects_committed=1 << 60, **more)  # type: ignore[arg-type]

    with patch.object(Engine, "finish_load", without):
        yield


def an_unregister_delayed_in_a_gateway_behind_a_registration_through_another() -> None:
    world = connected("a")
    (client,) = world.clients
    old = gateway_of(world, client)
    old.requests_held = True
    client.unregister("a")
    world.run(0.5)
    link_of(client).cut("cut", gateway_notices_s=float("inf"))
    other = next(gateway for gateway in world.gateways if gateway is not old)
    assert client.driver is not None
    client.driver._client._book.failed(client.addresses[world.gateways.index(old)], world.clock.now_s)
    world.register(client, "a")
    world.clock.run_until(lambda: client.caught_up and client.link is not None)
    assert client.link is not None
    assert client.link.gateway is other
    world.run(1.5)  # what it says of its callbacks is answered by then, with a digest
    old.requests_held = False
    world.run(1.0)
    world.settle([client])


@contextmanager
def any_session_may_change_the_registrations() -> Iterator[None]:
    on_request = RequestHandler._on_request

    def without(
        self: RequestHandler, offset: int, request: internal_pb2.Request, now_ms: int, *, first_open: bool
    ) -> None:
        client = self._state.clients.get(f"{request.domain}/{request.group}/{request.client}")
        if request.WhichOneof("body") == "unregister" and client is not None and client.session is not None:
            names = self._registrations._names
            names.unregister(offset, client, client.session, request.unregister.objects)
        else:
            on_request(self, offset, request, now_ms, first_open=first_open)

    with patch.object(RequestHandler, "_on_request", without):
        yield


def an_old_beat_replayed_to_a_matcher_that_found_no_sessions() -> None:
    world = connected("a")
    (client,) = world.clients
    gateway = gateway_of(world, client)
    next(other for other in world.gateways if other is not gateway).kill()
    for matcher in world.matchers:
        matcher.commits_held = True
    world.shut_down(client)
    world.run(1.0)  # the Beat that says: no sessions
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.0)
    for matcher in world.matchers:
        matcher.kill()
    world.publish_next(client.key_of("a"))
    world.lose_topic(TOPICS.sessions)
    world.run(8.0)
    world.calm()
    world.settle([client])


@contextmanager
def an_answer_to_any_beat_counts() -> Iterator[None]:
    beat_answered = PartitionView.beat_answered

    def without(self: PartitionView[Identified], serial: int, **about: Any) -> bool:
        return beat_answered(self, self._believed_from, **about)

    with patch.object(PartitionView, "beat_answered", without):
        yield


CASES = [
    (an_old_beat_replayed_to_a_matcher_that_found_no_sessions, an_answer_to_any_beat_counts),
    (a_publish_then_a_wake_while_the_matcher_is_behind_on_objects, no_barrier),
    (a_connection_that_answers_nothing_while_a_request_waits, ping_only_when_nothing_is_sent),
    (
        an_unregister_delayed_in_a_gateway_behind_a_registration_through_another,
        any_session_may_change_the_registrations,
    ),
    (a_publish_while_no_matcher_runs_and_the_client_stays_connected, nothing_is_made_up_for_after_a_load),
]


@pytest.mark.parametrize(("play", "rule"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rule(play: Callable[[], None], rule: Rule) -> None:
    check(play, rule)
