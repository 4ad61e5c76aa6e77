"""A client that says that it is fresh, and lacks what was acknowledged before, breaks P11."""

import pytest
from coldnotify._core.interests.since import Since
from coldnotify._core.streams.channel_cursor import ChannelCursor
from coldnotify._core.streams.frontier import Frontier
from coldnotify_simulation import second_opinion
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.scripted import connected
from coldnotify_simulation.world import World


def test_a_client_says_how_fresh_it_is_and_is_held_to_it() -> None:
    world = connected("o1")
    (client,) = world.clients
    world.publish_next(client.key_of("o1"))
    world.run(60)
    assert client.driver is not None
    as_of_s = client.driver.status(world.clock.now_s).fresh_as_of
    assert as_of_s is not None
    assert world.clock.now_s - as_of_s < 10 + 12 + 1
    assert world.witness.freshness.said
    second_opinion.ask(world)


def test_a_client_that_believes_what_it_has_not_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ahead_by_30_s(monkeypatch)
    (client,) = world.clients
    for _ in range(5):
        world.publish_next(client.key_of("o1"))
        world.run(4)
    with pytest.raises(Broken, match="P11"):
        second_opinion.ask(world)


def test_so_is_one_that_believes_it_of_a_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ahead_by_30_s(monkeypatch)
    (client,) = world.clients
    world.send(client.key_of("tasks"), b"2", ())
    with pytest.raises(Broken, match="P11"):
        world.run(30)


def ahead_by_30_s(monkeypatch: pytest.MonkeyPatch) -> World:
    """A client believes that everything is proved 30 s later, and its matchers have stopped."""
    world = connected("o1", channels=True)
    (client,) = world.clients
    world.register_channel(client, "tasks", (), Since("oldest"))
    world.send(client.key_of("tasks"), b"1", ())
    world.run(15)

    def of_objects(frontier: Frontier, as_of: float) -> None:
        frontier._head.as_of = as_of + 30

    def of_channels(cursor: ChannelCursor, as_of: float) -> None:
        cursor.as_of = as_of + 30

    monkeypatch.setattr(Frontier, "prove", of_objects)
    monkeypatch.setattr(ChannelCursor, "prove", of_channels)
    for matcher in world.matchers:
        matcher.stop()
    return world
