"""A client that says that it is fresh, and lacks what was acknowledged before, breaks P11."""

from unittest.mock import patch

import pytest
from coldnotify._core.streams.frontier import Frontier
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.scripted import connected


def test_a_client_says_how_fresh_it_is_and_is_held_to_it() -> None:
    world = connected("o1")
    (client,) = world.clients
    world.publish_next(client.key_of("o1"))
    world.run(60)
    assert client.driver is not None
    as_of_s = client.driver.status(world.clock.now_s).fresh_as_of
    assert as_of_s is not None
    assert world.clock.now_s - as_of_s < 10 + 12 + 1
    assert world.witness.freshness.judged


def test_a_client_that_believes_what_it_has_not_told_is_found() -> None:
    def prove(frontier: Frontier, as_of: float) -> None:
        frontier._head.as_of = as_of + 30

    world = connected("o1")
    (client,) = world.clients

    def publish_unserved() -> None:
        world.run(15)
        for matcher in world.matchers:
            matcher.stop()
        for _ in range(5):
            world.publish_next(client.key_of("o1"))
            world.run(4)

    with patch.object(Frontier, "prove", prove), pytest.raises(Broken, match="P11"):
        publish_unserved()
