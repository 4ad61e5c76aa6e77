"""Channels that come and go within a session, scripted exactly: each play fails without the rules that make it hold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from coldnotify._core.interests.since import OLDEST
from coldnotify_gateway.core import Produce
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.repeats import Repeats
from coldnotify_matcher.engine.channels import channel_requests
from coldnotify_matcher.engine.channels.channel_paging import CatchingUp
from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.streams.positions import Positions
from coldnotify_matcher.engine.tenants.allowances import OutAgreement
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.scripted import (
    Rule,
    check,
    connected,
    gateway_of,
    link_of,
    must,
    until_item,
    until_request,
)
from coldnotify_simulation.world import DOMAIN, World

TOPICS = TopicNames()


def with_messages(*channels: str) -> World:
    """A client that is caught up, and channels to which it has not subscribed, with three messages each."""
    world = connected("a", channels=True)
    (client,) = world.clients
    for number in range(3):
        for name in channels:
            id_ = f"{name}{number}"
            world.send(client.key_of(name), b'{"m":"%s"}' % id_.encode(), [("id", id_.encode())])
    world.run(1.0)
    return world


def subscribe(world: World, name: str) -> None:
    """From the oldest message on."""
    world.register_channel(world.clients[0], name, (), OLDEST)


def must_be_caught_up(world: World) -> None:
    """Without the gateway's asking again, which it does after a minute."""
    world.run(30.0)
    wrong = world.wrong_at_rest(world.clients)
    must(not wrong, "; ".join(wrong))


def the_last_channel_goes_before_its_gateway_has_asked() -> None:
    world = with_messages("x", "y")
    (client,) = world.clients
    gateway = gateway_of(world, client)
    gateway.requests_held = True
    subscribe(world, "x")
    world.run(0.5)
    world.unregister_channel(client, "x")
    world.run(0.5)
    gateway.requests_held = False
    until_request(world, "stream_catch_up")
    world.run(3.0)
    subscribe(world, "y")
    must_be_caught_up(world)


@contextmanager
def nothing_is_answered() -> Iterator[None]:
    with patch.object(channel_requests, "_tell_nothing_lacks", lambda *_, **__: None):
        yield


@contextmanager
def what_is_about_to_be_asked_is_forgotten() -> Iterator[None]:
    def drop(self: ChannelRequests, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        session.channels = None

    with patch.object(ChannelRequests, "_drop", drop):
        yield


def the_last_channel_goes_while_its_client_is_away() -> None:
    world = with_messages("x", "y")
    (client,) = world.clients
    subscribe(world, "x")
    world.run(8.0)
    link_of(client).cut("cut")
    world.unregister_channel(client, "x")
    world.run(8.0)
    subscribe(world, "y")
    must_be_caught_up(world)


def a_page_is_answered_twice_and_the_second_answer_alone_is_the_last_page() -> None:
    """Kafka did not say that it has the gateway's question; and the gateway reads the first answer late."""
    world = with_messages("y")
    (client,) = world.clients
    subscribe(world, "y")
    world.run(8.0)
    large, soon = b'{"m":"%s"}' + b" " * 9_000, ("expires_at", b"%d" % (world.clock.now_ms + 4_000))
    world.send(client.key_of("x"), large % b"x0", [("id", b"x0"), soon])
    world.send(client.key_of("x"), large % b"x1", [("id", b"x1"), soon])
    world.send(client.key_of("x"), large % b"x2", [("id", b"x2")])
    world.send(client.key_of("y"), b'{"m":"y3"}', [("id", b"y3")])
    world.run(1.0)
    subscribe(world, "x")
    until_request(world, "stream_catch_up", 2)  # page 1 is applied: x0
    gateway = gateway_of(world, client)
    gateway.inbox_held = True
    asked = world.kafka.log(TOPICS.requests, 0).entries[-1]
    request = Request.FromString(asked.value or b"")
    gateway.core.on_delivery_failed(Produce(0, asked.key or b"", request), world.clock.now_s)
    until_item(world, "stream_page", gateway.core.inbox)  # x1
    until_request(world, "stream_catch_up")
    until_item(world, "stream_page", gateway.core.inbox)  # x0 and x1 have expired, and x2
    gateway.inbox_held = False
    must_be_caught_up(world)


@contextmanager
def what_the_last_page_had_is_forgotten_at_once() -> Iterator[None]:
    def sent_last(self: Positions) -> None:
        self.at, self.told, self.pending, self.lost = {}, {}, {}, {}

    with patch.object(Positions, "sent_last", sent_last):
        yield


def an_inbox_record_of_a_channel_is_lost() -> None:
    world = with_messages("x", "y")
    (client,) = world.clients
    subscribe(world, "x")
    subscribe(world, "y")
    world.run(8.0)
    gateway = gateway_of(world, client)
    gateway.late = 1.0
    world.send(client.key_of("x"), b'{"m":"x3"}', [("id", b"x3")])
    inbox = gateway.core.inbox
    world.kafka.log(TOPICS.notifications, inbox).remove(until_item(world, "stream_fan_out", inbox))
    world.run(2.0)
    world.send(client.key_of("y"), b'{"m":"y3"}', [("id", b"y3")])
    must_be_caught_up(world)


@contextmanager
def numbers_say_nothing() -> Iterator[None]:
    with patch.object(PartitionView, "take_number", lambda *_: True):
        yield


def a_page_leaves_empty_that_waits_for_its_tenants_turn() -> None:
    world = with_messages("x")
    (client,) = world.clients
    agree(world, [OutAgreement(DOMAIN, 0.001, None, 1.0)])
    for _ in range(3):  # more than may be told: the account is overdrawn for a minute
        world.publish_next(client.key_of("a"))
        world.run(0.5)
    subscribe(world, "x")
    world.run(40.0)
    agree(world, [])
    must_be_caught_up(world)


def agree(world: World, agreements: list[OutAgreement]) -> None:
    for matcher in world.matchers:
        matcher.rules.allowances.agree(agreements, world.clock.now_ms)


@contextmanager
def an_empty_page_is_the_last_one() -> Iterator[None]:
    send = CatchingUp._send

    def sent(
        self: CatchingUp, log: ChannelLog, client: RegisteredClient, session: EngineSession, *, last: bool
    ) -> None:
        channels = session.channels
        empty = channels is not None and channels.row.page is not None and not channels.row.page.entries
        send(self, log, client, session, last=last or empty)

    with patch.object(CatchingUp, "_send", sent):
        yield


def sent_again_once_retention_has_removed_it(notices_s: float) -> None:
    """Its subscriber is away. `notices_s`: so long before it is sent again, the removal took place."""
    world = with_messages("x")
    (client,) = world.clients
    for matcher in world.matchers:
        matcher.kill()
        matcher.rules = replace(matcher.rules, channel_bounds=ChannelBounds(tail_messages_max=1))
        matcher.start()
    world.run(8.0)
    subscribe(world, "x")
    world.run(8.0)
    world.shut_down(client)
    world.send(client.key_of("x"), b"{}", [("id", b"x3")])
    world.run(1.0)
    world.trim(0, world.kafka.log(TOPICS.channels_1d, 0).end)
    world.run(notices_s)
    world.send(client.key_of("x"), b"{}", [("id", b"x3")])
    world.run(8.0)
    world.start_client(client)
    must_be_caught_up(world)
    must(world.messages.counts["missed retention"] == 1, "it is told that the first one is missed")


def the_removal_is_known_when_it_is_sent_again() -> None:
    sent_again_once_retention_has_removed_it(8.0)


def the_removal_is_heard_of_after_it_was_sent_again() -> None:
    sent_again_once_retention_has_removed_it(0.0)


@contextmanager
def what_was_removed_is_repeated_for_ever() -> Iterator[None]:
    note = Repeats.note

    def noted(self: Repeats, key: str, headers: MessageHeaders, offset: int, _: int) -> bool:
        return note(self, key, headers, offset, 0)

    with patch.object(Repeats, "note", noted):
        yield


@contextmanager
def once_a_repeat_always_a_repeat() -> Iterator[None]:
    with patch.object(Repeats, "take_freed", lambda *_: []):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (
        the_last_channel_goes_before_its_gateway_has_asked,
        [nothing_is_answered, what_is_about_to_be_asked_is_forgotten],
    ),
    (the_last_channel_goes_while_its_client_is_away, [nothing_is_answered]),
    (
        a_page_is_answered_twice_and_the_second_answer_alone_is_the_last_page,
        [what_the_last_page_had_is_forgotten_at_once],
    ),
    (an_inbox_record_of_a_channel_is_lost, [numbers_say_nothing]),
    (a_page_leaves_empty_that_waits_for_its_tenants_turn, [an_empty_page_is_the_last_one]),
    (the_removal_is_known_when_it_is_sent_again, [what_was_removed_is_repeated_for_ever]),
    (the_removal_is_heard_of_after_it_was_sent_again, [once_a_repeat_always_a_repeat]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
