"""A simulated client, where its model could break a promise by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify._core.client import Client as Core
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.driver import AnyJob, Driver
from coldnotify._core.interests.since import Since
from coldnotify_simulation import second_opinion
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.holding import SimulatedHolding
from coldnotify_simulation.scripted import check, connected, link_of, must
from coldnotify_simulation.world import World

TASKS = "tasks"


def subscribed() -> World:
    """One client, which follows a channel."""
    world = World(1, clients=1, late_s=0.001)
    for matcher in world.matchers:
        matcher.channels = True
    world.start()
    client = world.clients[0]
    client.wish_channels[TASKS] = ((), Since("oldest"))
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    return world


def parked(client: SimulatedClient, now_s: float) -> tuple[str, ...]:
    assert client.driver is not None
    return client.driver.status(now_s).parked


def test_a_callback_from_before_faults_stopped_may_park_its_channel_after_that() -> None:
    """It is tried again with a contact, which nothing else would bring about."""
    world = subscribed()
    client = world.clients[0]
    client.broken_channels.add(TASKS)
    told = world.messages.counts
    world.send(client.key_of(TASKS), b"{}", ())
    driver = client.driver
    assert driver is not None
    calls = 0
    called = driver.called

    def counted(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        called(*arguments)  # type: ignore[arg-type]

    driver.called = counted  # type: ignore[method-assign, assignment]
    world.clock.run_until(lambda: calls == 4)
    client.callback_s = 1_000.0  # the fifth, and last, try returns far later
    world.run(5.0)
    assert calls == 4
    world.calm()
    assert not parked(client, world.clock.now_s)
    world.clock.run_until(lambda: calls == 5, limit_s=1_000.0)
    assert parked(client, world.clock.now_s)
    world.settle([client])
    assert told["told messages"] == 1
    assert not parked(client, world.clock.now_s)


def test_versions_do_not_wait_for_a_members_callback_that_always_raises() -> None:
    """Its query is parked, and pending: the application hears of the member with the next contact, and of its versions
    before that."""
    world = World(1, clients=1, late_s=0.001)
    world.start()
    client = world.clients[0]
    client.wish_queries.add("NAME = 'o'")
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    client.broken_queries.add("NAME = 'o'")
    version = world.publish_next(client.key_of("o"))
    world.clock.run_until(lambda: bool(parked(client, world.clock.now_s)))
    world.run(1.0)
    assert world.promises.told(client, "o") == (0, version)
    assert world.memberships.counts["told entered"] == 0
    assert client.link is not None
    client.link.cut("to have a contact")
    client.broken_queries.clear()
    world.run(10.0)
    assert world.memberships.counts["told entered"] == 1
    world.calm()
    world.settle([client])
    second_opinion.ask(world)


def test_a_power_cut_undoes_that_a_query_was_registered_again() -> None:
    """The client goes on with the members that it was told before, and is told what has changed since."""
    world = World(1, clients=1, late_s=0.001)
    world.start()
    client, query = world.clients[0], "NAME STARTS WITH 'o'"
    client.wish_queries.add(query)
    for name in ("o1", "o2"):
        world.publish_next(client.key_of(name))
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.0)
    told = world.memberships.counts
    assert told["told entered"] == 2
    client.stop()  # it has no time to save
    world.unregister_query(client, query)
    world.register_query(client, query)
    world.power_loss(client)
    world.publish(client.key_of("o2"), 2, deleted=True)
    world.start_client(client)
    world.calm()
    world.settle([client])
    assert (told["told entered"], told["told left"]) == (2, 1)
    second_opinion.ask(world)


def a_client_wants_more_while_it_says_bye() -> None:
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    client.register("b")
    world.clock.run_until(lambda: not client.alive)
    client.wish.clear()
    world.start_client(client)
    must("b" in client.wanted, "P5: what its application registered for before the end is not saved")


@contextmanager
def the_end_does_not_wait_for_the_disk() -> Iterator[None]:
    finished = property(lambda self: self._said_bye and not self._link and not self._connecting)
    with patch.object(Core, "finished", finished):
        yield


def test_registrations_while_a_client_says_bye_are_saved_before_its_end() -> None:
    check(a_client_wants_more_while_it_says_bye, the_end_does_not_wait_for_the_disk)


def test_a_client_that_is_caught_up_names_what_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its application was not told how the object is described, and the checker does not ask for that."""
    world = World(1, clients=1, late_s=0.001)
    (client,) = world.clients
    client.wish_queries = client.described = {"NAME STARTS WITH 'o'"}
    call = client._call

    def raises_for_versions(driver: Driver, job: AnyJob) -> None:
        client.failing, client._failed_in_a_row = float(isinstance(job, CallbackJob)), 0
        call(driver, job)

    monkeypatch.setattr(client, "_call", raises_for_versions)
    world.start()
    world.publish(client.key_of("o1"), 1)
    world.describe(client.key_of("o1"), {"Room": 1})
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    caught_up = next(event for event in world.trace.history if event["event"] == "caught_up")
    assert caught_up["parked"] == ["o1"]
    second_opinion.ask(world)


def test_a_power_cut_that_undoes_a_refusal_undoes_nothing_before_it() -> None:
    """Its application wants the object again. That it had unregistered it, and then woke, stays in the history."""
    world = World(1, clients=1, late_s=0.001)
    holding = SimulatedHolding(0, world, (), names_only=True)
    if not holding.on:
        holding.begin()
    holding.stop_drawing()
    holding.agree(1)
    world.start()
    (client,) = world.clients
    client.wish = {"a", "b"}
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    client.unregister("a")
    world.run(3.0)
    world.publish_next(client.key_of("a"))
    link_of(client).cut("to wake")
    world.run(5.0)
    holding.agree(1, 1)
    world.run(5.0)
    client.register("a")
    world.clock.run_until(lambda: b'"a":"register"' in (client.disk or b""))
    unsaved = client.disk
    world.clock.run_until(lambda: "a" not in client.wanted)
    world.power_loss(client)
    client.disk = unsaved
    world.start_client(client)
    assert "a" in client.wanted
    of_it = [event["event"] for event in world.trace.history if event.get("object") == client.key_of("a")]
    assert [one for one in of_it if one in ("unregister", "refused")] == ["unregister", "refused"]
    holding.agree(1)
    world.calm()
    world.settle([client])
    second_opinion.ask(world)
