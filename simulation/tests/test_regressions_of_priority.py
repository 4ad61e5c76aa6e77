"""What of high priority overtakes, scripted exactly: each play fails without the rule that makes it hold.

Stands for: overtaking, link
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify_gateway.core import encoding, overtaking
from coldnotify_gateway.core.overtaking import Urgent
from coldnotify_matcher.engine.conflation import Conflation
from coldnotify_matcher.engine.rules import Intervals, Rules
from coldnotify_schemas.internal_pb2 import Newest
from coldnotify_simulation.client import Client
from coldnotify_simulation.scripted import Rule, check, connected, link_of, must, must_be_told
from coldnotify_simulation.world import World

FOR_EVER_S = 10_000.0
INTERVAL_MS = 3000
VERSIONS = 5


def reads(world: World, client: Client, frames: int) -> None:
    """The client reads so many of the frames that wait, and saves what it has."""
    for _ in range(frames):
        must(link_of(client).one_frame(), "no frame waits")
    world.run(2.0)


def power_fails_when_only_what_overtook_has_come() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    link_of(client).stall(FOR_EVER_S)
    overtaken = world.publish_next(client.key_of("a"))
    world.run(1.0)
    urgent = world.publish_next(client.key_of("b"), high=True)
    world.run(1.0)
    reads(world, client, 1)
    must_be_told(world, client, "b", (0, urgent))
    must(world.promises.told(client, "a") < (0, overtaken), "it overtakes")
    world.power_loss(client)
    world.run(3.0)
    world.start_client(client)
    world.settle([client])
    must_be_told(world, client, "a", (0, overtaken))


@contextmanager
def what_overtakes_is_no_answer() -> Iterator[None]:
    def frames(newest: Newest, *, names: bool, live: bool) -> Urgent:
        frame = encoding.notification(newest, names=names)
        return Urgent(frame, frame if live else b"")

    with patch.object(overtaking, "urgent_frames", frames):
        yield


def power_fails_when_a_slow_session_has_been_told() -> None:
    world = connected("a", "b", "c")
    (client,) = world.clients
    link_of(client).stall(FOR_EVER_S)
    for _ in range(20):  # more than may wait: from then on what comes is dropped, and a page brings it
        world.publish_next(client.key_of("a"))
        world.run(0.2)
    dropped = world.publish_next(client.key_of("c"))
    world.run(1.0)
    urgent = world.publish_next(client.key_of("b"), high=True)
    world.run(1.0)
    while link_of(client).one_frame():
        pass
    world.run(2.0)
    must_be_told(world, client, "b", (0, urgent))
    must(world.promises.told(client, "c") < (0, dropped), "it overtakes")
    world.power_loss(client)
    world.run(3.0)
    world.start_client(client)
    world.settle([client])
    must_be_told(world, client, "c", (0, dropped))


@contextmanager
def every_session_is_taken_for_live() -> Iterator[None]:
    real = overtaking.urgent_frames
    with patch.object(overtaking, "urgent_frames", lambda newest, *, names, live: real(newest, names=names, live=True)):
        yield


def versions_follow_each_other_closely() -> None:
    world = World(1, clients=1, late_s=0.001)
    for matcher in world.matchers:
        matcher.rules = Rules(conflation=Intervals(others_ms=INTERVAL_MS))
    world.start()
    (client,) = world.clients
    client.wish = {"a"}
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(3.0)
    for _ in range(VERSIONS):
        world.publish_next(client.key_of("a"), high=True)
        world.run(INTERVAL_MS / 1000 / VERSIONS / 2)
    world.run(INTERVAL_MS / 1000)
    told = [event["version"] for event in world.trace.history if event["event"] == "told"]
    must([version for version in told if version is not None] == list(range(1, VERSIONS + 1)), f"only {told} are told")


@contextmanager
def what_is_urgent_is_conflated() -> Iterator[None]:
    real = Conflation.publish

    def publish(self: Conflation, *fields: object, urgent: bool = False) -> None:
        real(self, *fields)  # type: ignore[arg-type]

    with patch.object(Conflation, "publish", publish):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (power_fails_when_only_what_overtook_has_come, [what_overtakes_is_no_answer]),
    (power_fails_when_a_slow_session_has_been_told, [every_session_is_taken_for_live]),
    (versions_follow_each_other_closely, [what_is_urgent_is_conflated]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_it_holds_and_fails_without_its_rule(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
