"""What of high priority overtakes, scripted exactly: each play fails without the rule that makes it hold.

Stands for: overtaking, link
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify_gateway.core import Dialect, encoding, overtaking
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.overtaking import Urgent, WaitingFrames
from coldnotify_matcher.engine.clients.clients import RegisteredClient as MatchersClient
from coldnotify_matcher.engine.clients.memberships import Memberships
from coldnotify_matcher.engine.rules.rules import Intervals, Rules
from coldnotify_matcher.engine.telling import paging
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_schemas.internal_pb2 import Newest
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.scripted import Rule, check, connected, link_of, must, must_be_told
from coldnotify_simulation.world import World

FOR_EVER_S = 10_000.0
INTERVAL_MS = 3000
VERSIONS = 5


def reads(world: World, client: SimulatedClient, frames: int) -> None:
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
    def urgent(newest: Newest, dialect: Dialect, *, live: bool, by_query: bool) -> Urgent:
        frame = encoding.notification(newest, dialect)
        return Urgent(frame, frame if live else None)

    with patch.object(overtaking, "urgent", urgent):
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
    real = overtaking.urgent

    def urgent(newest: Newest, dialect: Dialect, *, live: bool, by_query: bool) -> Urgent:
        return real(newest, dialect, live=True, by_query=by_query)

    with patch.object(overtaking, "urgent", urgent):
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


MEMBERS = "NAME STARTS WITH 'm'"
PAGE_BYTES = 150
"""Of two or three members."""


@contextmanager
def small_pages() -> Iterator[None]:
    with patch.object(paging, "page_bytes_of", lambda _: PAGE_BYTES):
        yield


def with_members(*names: str) -> World:
    """The client has no name, but the query that these fit; it is caught up."""
    world = connected()
    (client,) = world.clients
    for name in names:
        world.publish_next(client.key_of(name))
    world.register_query(client, MEMBERS)
    world.run(8.0)
    return world


def reads_on(world: World, client: SimulatedClient) -> None:
    """It reads all that waits, and what comes then."""
    link_of(client).read_on()
    world.run(8.0)
    world.settle([client])


def a_page_that_is_to_come_names_the_member_first() -> None:
    world = World(1, clients=1, late_s=0.001)
    world.start()
    (client,) = world.clients
    names = [f"m{number}" for number in range(9)]
    for name in names:
        world.publish_next(client.key_of(name))
    client.wish_queries = {MEMBERS}
    with small_pages():
        world.start_client(client)
        world.clock.run_until(lambda: client.link is not None)
        link_of(client).stall(FOR_EVER_S)
        world.run(2.0)
        reads(world, client, 3)  # the Welcome, and the first member
        for name in names:
            world.publish_next(client.key_of(name), high=True)
        world.run(2.0)
        reads(world, client, 1)
        must(world.witness.heard.counts["frames judged"] == 2, "what the client knows as a member overtakes")
        reads_on(world, client)


def what_enters_is_dropped_as_the_session_is_slow() -> None:
    world = with_members("m0", "m1")
    (client,) = world.clients
    link_of(client).stall(FOR_EVER_S)
    for _ in range(20):
        world.publish_next(client.key_of("m0"))
        world.run(0.2)
    world.publish_next(client.key_of("m7"))
    world.run(1.0)
    world.publish_next(client.key_of("m7"), high=True)
    urgent = world.publish_next(client.key_of("m1"), high=True)
    world.run(1.0)
    reads(world, client, 1)
    must_be_told(world, client, "m1", (0, urgent))
    reads_on(world, client)


def what_says_that_a_member_has_entered_waits() -> None:
    world = with_members("m0")
    (client,) = world.clients
    link_of(client).stall(FOR_EVER_S)
    world.publish_next(client.key_of("m0"))
    world.run(0.5)
    world.publish_next(client.key_of("m7"))
    world.run(0.5)
    world.publish_next(client.key_of("m7"), high=True)
    world.run(0.5)
    must(world.gateways[0].core.counters.slow_phases == 0, "the session is live")
    reads_on(world, client)


@contextmanager
def who_is_a_member_is_known_to_all() -> Iterator[None]:
    real = Memberships.known_since

    def known_since(self: Memberships, client: MatchersClient, name: str) -> int | None:
        found = real(self, client, name)
        return 0 if found is None and client.queries.have(name) else found

    with patch.object(Memberships, "known_since", known_since):
        yield


@contextmanager
def all_that_is_said_is_written() -> Iterator[None]:
    with patch.object(Identified, "knows_member", lambda *_: True):
        yield


@contextmanager
def what_enters_is_overtaken() -> Iterator[None]:
    with patch.object(WaitingFrames, "_enters", lambda *_: False):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (power_fails_when_only_what_overtook_has_come, [what_overtakes_is_no_answer]),
    (power_fails_when_a_slow_session_has_been_told, [every_session_is_taken_for_live]),
    (versions_follow_each_other_closely, [what_is_urgent_is_conflated]),
    (a_page_that_is_to_come_names_the_member_first, [who_is_a_member_is_known_to_all]),
    (what_enters_is_dropped_as_the_session_is_slow, [all_that_is_said_is_written]),
    (what_says_that_a_member_has_entered_waits, [what_enters_is_overtaken]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rule(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
