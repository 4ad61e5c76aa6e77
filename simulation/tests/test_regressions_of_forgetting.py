"""What a matcher that was thought dead writes of a forgotten client, scripted: each fails without the rule."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify_matcher.merged_records import Merged, R
from coldnotify_schemas.internal_pb2 import Forget, Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.scripted import Rule, check, connected, must, registered
from coldnotify_simulation.world import World

TOPICS = TopicNames()


def forget(world: World, client: SimulatedClient) -> None:
    """An operator asks for it."""
    name = client.identity
    request = Request(format=1, domain=name.domain, group=name.group, client=name.client, forget=Forget(reason="x"))
    world.forgotten.add(client.key)
    key, now_ms = client.key.encode(), world.clock.now_ms
    world.kafka.append(TOPICS.requests, 0, now_ms, key, request.SerializeToString())


def owner_of(world: World) -> Matcher:
    world.clock.run_until(lambda: any(known_by(matcher) is not None for matcher in world.matchers))
    return next(matcher for matcher in world.matchers if known_by(matcher) is not None)


def known_by(matcher: Matcher) -> dict[str, set[str]] | None:
    """Clients and what they are registered for; None: the matcher does not serve the partition."""
    partition = None if matcher.run is None else matcher.run.partitions.get(0)
    if partition is None or not partition.engine.state.generation:
        return None
    return {key: {obj.name for obj in client.objects()} for key, client in partition.engine.state.clients.items()}


def stop_at_next_write(world: World, matcher: Matcher, what: Callable[[], None]) -> None:
    matcher.doom = 0, "stop"
    what()
    world.clock.run_until(lambda: matcher.stopped)


def write_late(world: World, late: Matcher, alive: Matcher) -> dict[str, set[str]]:
    """The last owner dies, the one before it writes what it had queued, and dies. What the next owner knows."""
    log = world.kafka.log(TOPICS.registrations, 0)
    end = log.end
    alive.kill()
    late.go_on()
    world.clock.run_until(lambda: log.end > end)
    late.kill()
    world.run(7.0)
    late.start()
    known = known_by(owner_of(world))
    assert known is not None
    return known


def a_record_lands_behind_the_null_that_forgot_its_client() -> None:
    world = connected("a")
    (client,) = world.clients
    late = owner_of(world)
    stop_at_next_write(world, late, lambda: world.register(client, "b"))
    world.run(20.0)
    world.shut_down(client)
    forget(world, client)
    world.clock.run_until(lambda: not registered(world, client))
    must(client.key not in write_late(world, late, owner_of(world)), f"{client.name} was forgotten, and is back")


def a_null_lands_behind_what_its_client_has_registered_since() -> None:
    world = connected("a")
    (client,) = world.clients
    late = owner_of(world)
    stop_at_next_write(world, late, lambda: forget(world, client))
    world.run(20.0)  # the successor has forgotten it, too, and it has come back
    world.shut_down(client)
    world.run(3.0)
    must(registered(world, client) == {"a"}, f"P5: {client.name} has not registered")
    known = write_late(world, late, owner_of(world))
    must(known.get(client.key) == {"a"}, f"P5: {client.name} is registered no more: {known}")


@contextmanager
def nulls_do_not_say_who_wrote_them() -> Iterator[None]:
    merge = Merged.merge

    def merged(self: Merged[R], key: str, record: R | None, _ended_by: int = 0) -> bool:
        return merge(self, key, record)

    with patch.object(Merged, "merge", merged):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (a_record_lands_behind_the_null_that_forgot_its_client, [nulls_do_not_say_who_wrote_them]),
    (a_null_lands_behind_what_its_client_has_registered_since, [nulls_do_not_say_who_wrote_them]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
