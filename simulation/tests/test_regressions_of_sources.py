"""What clients published themselves, scripted exactly: each play fails without the rules that make it hold."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest
from coldnotify._core.document.document import decode
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.telling import paging
from coldnotify_matcher.engine.telling.paging import Paging
from coldnotify_simulation.scripted import Rule, check, connected, must, must_be_told
from coldnotify_simulation.world import World


def a_client_wakes_to_what_it_published() -> None:
    world = connected("a")
    (client,) = world.clients
    known = world.promises.told(client, "a")
    world.shut_down(client)
    world.run(3.0)
    world.publish_next(client.key_of("a"), source=client.identity.client)
    world.start_client(client)
    world.settle([client])
    must(world.promises.told(client, "a") == known, "it is told what it published itself")


@contextmanager
def pages_spare_nobody() -> Iterator[None]:
    with patch.object(RegisteredClient, "published", lambda *_: False):
        yield


def a_client_wakes_to_what_somebody_else_published() -> None:
    world = connected("a")
    (client,) = world.clients
    world.shut_down(client)
    world.run(3.0)
    world.publish_next(client.key_of("a"), source="somebody-else")
    world.start_client(client)
    world.settle([client])


@contextmanager
def pages_spare_everybody() -> Iterator[None]:
    with patch.object(RegisteredClient, "published", lambda _, obj: obj.source is not None):
        yield


def without_a_cursor(*names: str) -> World:
    """The client is registered for these objects, of which nothing was published so far, and away."""
    world = World(1, clients=1, late_s=0.001)
    world.start()
    (client,) = world.clients
    client.wish = set(names)
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(3.0)
    world.shut_down(client)
    world.run(3.0)
    return world


def a_client_without_a_cursor_wakes_to_what_it_published() -> None:
    world = without_a_cursor("a")
    (client,) = world.clients
    version = world.publish_next(client.key_of("a"), source=client.identity.client)
    world.start_client(client)
    world.settle([client])
    must_be_told(world, client, "a", (0, version))


def power_is_lost_between_the_pages_of_the_first_wake() -> None:
    others = [f"b{number}" for number in range(40)]
    with patch.object(paging, "page_bytes_of", lambda _: 1):  # a page for each object
        world = without_a_cursor("a", *others)
        (client,) = world.clients
        for name in others:
            world.publish_next(client.key_of(name))
        version = world.publish_next(client.key_of("a"), source=client.identity.client)
        world.start_client(client)
        world.clock.run_until(lambda: decode(client.disk or b"", client.identity).cursor is not None)
        assert not client.caught_up
        world.power_loss(client)
        world.start_client(client)
        world.settle([client])
        must_be_told(world, client, "a", (0, version))


@contextmanager
def who_has_no_cursor_is_spared_too() -> Iterator[None]:
    begin = Paging.begin

    def without(
        self: Paging, client: RegisteredClient, session: EngineSession, cursor: int, *more: object, **others: object
    ) -> None:
        with patch.object(RegisteredClient, "objects", lambda _: ()) if cursor == NO_CURSOR else ExitStack():
            begin(self, client, session, cursor, *more, **others)  # type: ignore[arg-type]

    with patch.object(Paging, "begin", without):
        yield


@contextmanager
def what_it_published_comes_in_its_turn() -> Iterator[None]:
    begin, send = Paging.begin, Paging._send
    without_cursor: set[int] = set()

    def begin_without(
        self: Paging, client: RegisteredClient, session: EngineSession, cursor: int, *more: object, **others: object
    ) -> None:
        (without_cursor.add if cursor == NO_CURSOR else without_cursor.discard)(session.number)
        begin(self, client, session, cursor, *more, **others)  # type: ignore[arg-type]

    def send_without(self: Paging, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        if session.number not in without_cursor:
            send(self, client, session, now_ms)
            return
        session.answers.objects = {obj: None for obj in session.answers.objects if not client.published(obj)}
        with patch.object(RegisteredClient, "published", lambda *_: False):
            send(self, client, session, now_ms)

    with patch.object(Paging, "begin", begin_without), patch.object(Paging, "_send", send_without):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (a_client_wakes_to_what_it_published, [pages_spare_nobody]),
    (a_client_wakes_to_what_somebody_else_published, [pages_spare_everybody]),
    (a_client_without_a_cursor_wakes_to_what_it_published, [who_has_no_cursor_is_spared_too]),
    (power_is_lost_between_the_pages_of_the_first_wake, [what_it_published_comes_in_its_turn]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
