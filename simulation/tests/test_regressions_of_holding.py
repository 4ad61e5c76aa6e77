"""Interleavings around how many clients there may be, scripted exactly: each fails without the rules that make it hold.

Stands for: holding
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify_gateway.core.from_matcher import FromMatcher
from coldnotify_gateway.core.identified import Identified
from coldnotify_matcher.engine.tenants.ceilings import Ceilings
from coldnotify_schemas.internal_pb2 import Closed, Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation import second_opinion
from coldnotify_simulation.holding import SimulatedHolding
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.scripted import Rule, check, connected, must, no_matcher, takeover
from coldnotify_simulation.world import World

TOPICS = TopicNames()


def opens_of(world: World, client: str) -> int:
    requests = [Request.FromString(entry.value or b"") for entry in world.kafka.log(TOPICS.requests, 0).entries]
    return sum(request.client == client and request.HasField("open") for request in requests)


def a_brief_session_is_handled_again_when_there_are_too_many() -> None:
    """Its record is not written yet. Meanwhile less was agreed, and another client counts."""
    world = connected("a", clients=2)
    client, other = world.clients
    other.wish = {"a"}
    world.start_client(other)
    world.clock.run_until(lambda: other.caught_up)
    holding = SimulatedHolding(0, world, (), names_only=True)
    if not holding.on:
        holding.begin()
    holding.stop_drawing()
    holding.agree(2)
    takeover(world)  # matchers that were running do not know of limits
    world.shut_down(client)
    world.run(20.0)
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    link, asked = client.link, opens_of(world, client.identity.client)
    holding.agree(1)
    world.run(1.1)  # matchers have looked, and the session is brief
    no_matcher(world)
    world.run(7.0)
    world.calm()
    world.settle([client, other])
    must(opens_of(world, client.identity.client) > asked, "its gateway has announced it")
    if client.link is not link:
        raise Broken("P10: who was in has lost its connection")
    second_opinion.ask(world)


def registrations_are_lost_and_come_again_at_once() -> None:
    """Their partition's new matcher knows what its former one has said of them, and has not looked yet."""
    world = connected("a", "b")
    (client,) = world.clients
    holding = SimulatedHolding(0, world, (), names_only=True)
    if not holding.on:
        holding.begin()
    holding.stop_drawing()
    holding.agree(None, 3)
    takeover(world)  # matchers that were running do not know of limits
    world.run(5.0)
    no_matcher(world)
    world.lose_topic(TOPICS.registrations)
    world.run(7.0)
    world.calm()
    world.settle([client])
    second_opinion.ask(world)


@contextmanager
def the_former_matchers_count_stays() -> Iterator[None]:
    with patch.object(Ceilings, "take_over", lambda *_: None):
        yield


@contextmanager
def the_gateway_believes_the_successor() -> Iterator[None]:
    def without(self: FromMatcher, session: Identified, closed: Closed, now_s: float) -> object:
        return self._connections.close(session, closed.code, closed.reason, now_s, leave=False)

    with patch.object(FromMatcher, "_on_closed", without):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (a_brief_session_is_handled_again_when_there_are_too_many, [the_gateway_believes_the_successor]),
    (registrations_are_lost_and_come_again_at_once, [the_former_matchers_count_stays]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
