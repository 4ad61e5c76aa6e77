"""Sessions that are slow while another matcher takes over, scripted exactly: once they read on, they are told at once.

Stands for: link
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify._core.interests.since import OLDEST
from coldnotify_gateway.core.identified import Identified
from coldnotify_matcher.engine.inputs.stream_requests import StreamRequests
from coldnotify_simulation.scripted import check, connected, gateway_of, link_of, must, takeover, until_item
from coldnotify_simulation.world import World

SOON_S = 5.0
"""Of virtual time: a gateway asks again after twice as long."""
FOR_EVER_S = 10_000.0


def wants_an_object(world: World) -> None:
    world.register(world.clients[0], "b")


def wants_a_prefix(world: World) -> None:
    world.register_query(world.clients[0], "NAME STARTS WITH 'b'")


def wants_a_query(world: World) -> None:
    world.register_query(world.clients[0], "NOT has Room")


def wants_a_channel(world: World) -> None:
    world.register_channel(world.clients[0], "x", (), OLDEST)


KINDS = [wants_an_object, wants_a_prefix, wants_a_query, wants_a_channel]


def slow(want: Callable[[World], None]) -> World:
    """A client that has this beside an object, and does not read: what comes is dropped from here on."""
    world = connected("a", channels=True)
    want(world)
    world.run(8.0)
    (client,) = world.clients
    link_of(client).stall(FOR_EVER_S)
    for _ in range(20):
        world.publish_next(client.key_of("a"))
        world.run(0.2)
    must(gateway_of(world, client).core.counters.slow_phases == 1, "it is slow")
    return world


def must_hear_soon(world: World) -> None:
    """It reads on, and something new is published."""
    (client,) = world.clients
    link_of(client).read_on()
    for name in ("a", "b"):
        world.publish_next(client.key_of(name))
    world.send(client.key_of("x"), b'{"m":"new"}', [("id", b"new")])
    world.run(SOON_S)
    wrong = world.wrong_at_rest(world.clients)
    must(not wrong, "; ".join(wrong))


def another_matcher_takes_over(want: Callable[[World], None]) -> None:
    world = slow(want)
    takeover(world)
    must_hear_soon(world)


def what_another_matcher_says_is_lost(want: Callable[[World], None]) -> None:
    world = slow(want)
    gateway = gateway_of(world, world.clients[0])
    gateway.late = 1.0
    for matcher in world.matchers:
        matcher.kill()
    world.run(7.0)
    for matcher in world.matchers:
        matcher.start()
    log = world.kafka.log("coldnotify.notifications", gateway.core.inbox)
    log.remove(until_item(world, "opened", gateway.core.inbox))
    world.run(3.0)
    must_hear_soon(world)


@contextmanager
def a_question_may_stay_without_an_answer() -> Iterator[None]:
    with patch.object(StreamRequests, "_open_again", lambda *_: None):
        yield


@contextmanager
def a_slow_session_is_not_doubted() -> Iterator[None]:
    with patch.object(Identified, "doubt", lambda _: None):
        yield


@pytest.mark.parametrize("want", KINDS)
def test_it_is_told_soon_after_a_takeover(want: Callable[[World], None]) -> None:
    another_matcher_takes_over(want)


@pytest.mark.parametrize("want", KINDS[1:])
def test_it_is_told_soon_even_if_the_new_matchers_messages_are_lost(want: Callable[[World], None]) -> None:
    what_another_matcher_says_is_lost(want)


@pytest.mark.parametrize("want", [wants_a_prefix, wants_a_query])  # channels are asked for at once, and names known
def test_without_both_rules_the_client_is_told_nothing(want: Callable[[World], None]) -> None:
    check(
        lambda: another_matcher_takes_over(want), a_question_may_stay_without_an_answer, a_slow_session_is_not_doubted
    )
