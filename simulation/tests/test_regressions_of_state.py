"""Interleavings around what the service keeps, scripted exactly: each fails without the rules that make it hold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import msgspec
import pytest
from coldnotify._core.interests.registrations import Operation, Registrations
from coldnotify._core.session.names_in_use import NamesInUse
from coldnotify._core.session.reconnect import Backoff
from coldnotify_matcher.engine.clients.clients import RegisteredClient as Known
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.inputs.loading import Loading
from coldnotify_matcher.engine.inputs.opening import Opening
from coldnotify_matcher.engine.inputs.registering.name_registering import NameRegistering
from coldnotify_matcher.engine.inputs.registering.registration_requests import RegistrationRequests
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.rules.rules import Intervals, Rules
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.writing.strays import Strays
from coldnotify_matcher.run_topics import Cluster
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.matcher_state import FORMAT, RegistrationsRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import SyncChunk
from coldnotify_simulation import matcher
from coldnotify_simulation import world as world_module
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.scripted import (
    Rule,
    check,
    connected,
    link_of,
    must,
    must_be_told,
    must_stay_registered,
    no_matcher,
    no_session_is_doubted,
    registered,
    takeover,
    until_request,
)

TOPICS = TopicNames()

NEVER = float("inf")

# ---- registrations


def the_answer_to_a_registration_is_lost_and_then_power() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("b"))
    world.publish_next(client.key_of("a"))
    world.run(3.0)  # the cursor is above b's version
    world.register(client, "b")
    until_request(world, "register")
    link_of(client).cut("cut", client_notices_s=NEVER)
    world.run(1.0)
    world.power_loss(client)
    world.start_client(client)
    world.settle([client])


@contextmanager
def only_what_is_new_is_answered() -> Iterator[None]:
    register_all = NameRegistering.register

    def without(self: NameRegistering, offset: int, client: Known, *more: object) -> object:
        before = set(client.objects())
        registered, refused = register_all(self, offset, client, *more)  # type: ignore[arg-type]
        return [obj for obj in registered if obj not in before], refused

    with patch.object(NameRegistering, "register", without):
        yield


def a_wiped_client_wants_what_it_wanted_before() -> None:
    world = connected("a")
    (client,) = world.clients
    world.power_loss(client, wiped=True)
    world.publish_next(client.key_of("b"))
    world.start_client(client)
    world.run(30.0)
    world.settle([client])


@contextmanager
def the_stored_cursor_stands_in_for_none() -> Iterator[None]:
    on_open = Opening.on_open

    def without(self: Opening, offset: int, gateway: GatewayView, number: int, key: str, request: internal_pb2.Open,
                now_ms: int, *, again: bool) -> None:  # fmt: skip
        known = self._state.clients.get(key)
        if known is not None and known.cursor >= 0 and not request.HasField("cursor"):
            request.cursor, request.epoch = known.cursor, self._state.epoch
        on_open(self, offset, gateway, number, key, request, now_ms, again=again)

    with patch.object(Opening, "on_open", without):
        yield


def an_unregister_and_a_register_are_replayed() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    for one in world.matchers:
        one.commits_held = True
    client.unregister("a")
    until_request(world, "unregister")
    world.register(client, "a")
    until_request(world, "register")
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.0)
    no_matcher(world)
    must_stay_registered(world, client, "a")
    world.run(7.0)
    for one in world.matchers:
        one.requests_at_once = 1  # else it is undone before anybody sees it
    world.calm()
    world.settle([client])


@contextmanager
def what_is_applied_is_not_known() -> Iterator[None]:
    load_registrations, load_session = Loading.load_registrations, Loading.load_session

    def registrations(self: Loading, key: str, record: object, *, applied_counts: bool) -> None:
        load_registrations(self, key, record, applied_counts=False)  # type: ignore[arg-type]

    def session(self: Loading, key: str, record: object, now_ms: int, *, applied_counts: bool) -> None:
        load_session(self, key, record, now_ms, applied_counts=False)  # type: ignore[arg-type]

    with patch.object(Loading, "load_registrations", registrations), patch.object(Loading, "load_session", session):
        yield


def a_hello_is_replayed_whose_client_has_since_come_elsewhere() -> None:
    world = connected("a")
    (client,) = world.clients
    for one in world.matchers:
        one.commits_held = True
    link_of(client).cut("cut", gateway_notices_s=NEVER)
    until_request(world, "open")
    world.clock.run_until(lambda: client.caught_up)
    link_of(client).cut("cut", gateway_notices_s=NEVER)
    until_request(world, "open")
    world.clock.run_until(lambda: client.caught_up)
    world.run(1.0)
    link = client.link
    no_matcher(world)
    world.run(7.0)
    for one in world.matchers:
        one.requests_at_once = 1  # else it is outdone by the later one in the same batch
    world.calm()
    world.run(2.0)
    must(client.link is link, "P2: the session that counts was closed")
    world.settle([client])


def a_registration_set_is_sent_and_power_is_lost_before_the_pages() -> None:
    names = [f"n{i}" for i in range(120)]  # two chunks
    world = connected(*names)
    (client,) = world.clients
    no_matcher(world)
    world.lose_topic(TOPICS.registrations)
    world.publish_next(client.key_of("n0"))  # fanned out to nobody; the client's cursor passes it
    world.run(7.0)
    world.calm()
    link = link_of(client)
    up = link.up
    with patch.object(link, "up", lambda data: up(data if len(data) < 400 else data[: len(data) * 3 // 4])):
        until_request(world, "sync")
    link.cut("in the middle of it")
    until_request(world, "sync", 2)
    link_of(client).cut("behind it", client_notices_s=NEVER)
    world.run(1.0)
    world.power_loss(client)
    world.start_client(client)
    world.settle([client])


def a_matcher_thought_dead_writes_registrations_that_nobody_lives_to_write_over() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    takeover(world)
    takeover(world)
    no_matcher(world)
    # It had the second generation, and Unregister in hand. The third has never written this record.
    late = msgspec.json.encode(RegistrationsRecord(FORMAT, 2, 1, ["a"]))
    world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, f"{client.key}/0".encode(), late)
    world.publish_next(client.key_of("b"))
    world.publish_next(client.key_of("a"))
    world.run(7.0)
    world.calm()
    world.settle([client])


@contextmanager
def a_set_is_sent_without_being_pending() -> Iterator[None]:
    def without(self: Registrations) -> dict[str, Operation]:
        return {}

    with patch.object(Registrations, "begin_sync", without):
        yield


def a_registration_set_is_cut_in_the_middle() -> None:
    names = {f"n{i}" for i in range(120)}  # two chunks
    world = connected(*names)
    (client,) = world.clients
    world.power_loss(client, wiped=True)
    client.wish = names - {"n0"}  # both sides differ: the whole set is asked for
    world.start_client(client)
    world.clock.run_until(lambda: client.link is not None)
    link = link_of(client)
    up = link.up
    with patch.object(link, "up", lambda data: up(data if len(data) < 400 else data[: len(data) * 3 // 4])):
        until_request(world, "sync")
    world.power_loss(client)
    world.run(7.0)
    must(registered(world, client) == names, "P5: a part of a set has replaced the set")
    world.start_client(client)
    world.settle([client])


@contextmanager
def each_chunk_is_a_set() -> Iterator[None]:
    on_sync = RegistrationRequests.on_sync

    def without(
        self: RegistrationRequests, offset: int, known: Known, session: object, chunk: SyncChunk, now_ms: int
    ) -> None:
        whole = SyncChunk(index=0, objects=chunk.objects, last=True)
        on_sync(self, offset, known, session, whole, now_ms)  # type: ignore[arg-type]

    with patch.object(RegistrationRequests, "on_sync", without):
        yield


def two_names_share_a_crc_and_one_is_unregistered_while_a_frame_is_under_way() -> None:
    world = connected("plumless")
    (client,) = world.clients
    link_of(client)._late_s = 2.0
    world.publish(client.key_of("plumless"), 7)
    world.run(0.1)
    client.unregister("plumless")
    world.register(client, "buckeroo")
    world.run(5.0)
    world.settle([client])


@contextmanager
def nobody_asks_for_names() -> Iterator[None]:
    def without(self: NamesInUse, names: list[str]) -> bool:
        self._names |= {object_crc(name): name for name in names}
        return True

    with patch.object(NamesInUse, "use", without):
        yield


def the_same_client_twice() -> None:
    world = connected("a")
    (client,) = world.clients
    twin = SimulatedClient(client.name, client.identity.group, world.clock, world.random, world.trace, world.witness, 2)
    twin.key += "'s twin"
    twin.wish = {"a"}
    world.clients.append(twin)
    opens = len(world.kafka.log(TOPICS.requests, 0).entries)
    world.start_client(twin)
    world.run(100.0)
    log = world.kafka.log(TOPICS.requests, 0).entries[opens:]
    kinds = [internal_pb2.Request.FromString(entry.value or b"").WhichOneof("body") for entry in log]
    must(kinds.count("open") < 40, f"{kinds.count('open')} sessions of two clients of one name within 100 s")
    world.publish_next(client.key_of("a"))
    world.run(50.0)
    must_be_told(world, twin, "a", (0, 2))
    must_be_told(world, client, "a", (0, 2))
    world.shut_down(twin)
    world.settle([client])


@contextmanager
def displaced_is_as_any_other_end() -> Iterator[None]:
    delay_s = Backoff.delay_s
    with patch.object(Backoff, "delay_s", lambda self, _code: delay_s(self, None)):
        yield


# ---- the log


def the_log_is_truncated_below_a_cursor(*, new_epoch: bool) -> None:
    world = connected("a")
    (client,) = world.clients
    for _ in range(3):
        world.publish_next(client.key_of("a"))
        world.run(3.0)
    world.shut_down(client)
    world.run(3.0)
    no_matcher(world)
    world.run(7.0)
    world.truncate_objects(0, 1, new_epoch=new_epoch)
    for one in world.matchers:
        if not one.alive:
            one.start()
    world.publish_next(client.key_of("a"))
    for _ in range(4 if new_epoch else 0):
        world.publish_next(client.key_of("b"))  # the log reaches above the cursor again
    world.run(3.0)
    world.start_client(client)
    world.settle([client])


def the_log_is_truncated_and_the_operator_says_so() -> None:
    the_log_is_truncated_below_a_cursor(new_epoch=True)


def the_log_is_truncated_and_nobody_says_so() -> None:
    the_log_is_truncated_below_a_cursor(new_epoch=False)


def the_log_is_truncated_and_the_first_to_take_over_fails() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    for _ in range(10):
        world.publish_next(client.key_of("a"))
    world.run(3.0)  # committed, above what will be there
    claims = world.promises.takeovers
    world.truncate_objects(0, 2, new_epoch=True)
    for one in world.matchers:
        one.commits_held_of = frozenset({TOPICS.objects})
    world.clock.run_until(lambda: world.promises.takeovers >= claims + PARTITIONS)
    world.clock.run_until(lambda: client.caught_up)
    world.run(8.0)
    no_matcher(world)
    world.publish_next(client.key_of("b"))  # below what was committed
    world.run(1.0)
    for _ in range(20):
        world.publish_next(client.key_of("a"))
    world.run(7.0)
    world.calm()
    world.settle([client])


@contextmanager
def offsets_are_committed_with_their_topics_ids() -> Iterator[None]:
    def without(self: Cluster) -> dict[str, str]:
        return {TOPICS.requests: self.requests_topic_id, TOPICS.objects: self.objects_topic_id}

    with patch.object(Cluster, "marks", property(without)):
        yield


@contextmanager
def one_epoch_for_ever() -> Iterator[None]:
    def epoch_of(*_of: object) -> int:
        return 7

    with patch.object(matcher, "epoch_of", epoch_of), patch.object(world_module, "epoch_of", epoch_of):
        yield


@contextmanager
def a_cursor_above_the_end_counts() -> Iterator[None]:
    on_open = Opening.on_open

    def without(self: Opening, offset: int, gateway: GatewayView, number: int, key: str, request: internal_pb2.Open,
                now_ms: int, *, again: bool) -> None:  # fmt: skip
        position = self._state.position
        self._state.position = max(position, request.cursor + 1)
        on_open(self, offset, gateway, number, key, request, now_ms, again=again)
        self._state.position = position

    with patch.object(Opening, "on_open", without):
        yield


def a_stale_record_while_no_matcher_runs() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("a"), acknowledged=True)
    no_matcher(world)
    world.publish(client.key_of("a"), 1)
    world.run(7.0)
    world.calm()
    world.settle([client])


@contextmanager
def the_newest_is_not_written_again() -> Iterator[None]:
    with patch.object(Obj, "needs_repair", False):
        yield


def a_misplaced_record_while_no_matcher_runs() -> None:
    world = connected("a")
    (client,) = world.clients
    no_matcher(world)
    world.publish(client.key_of("a"), 2, partition=1)
    world.run(7.0)
    world.calm()
    world.run(20.0)
    must_be_told(world, client, "a", (0, 2))
    world.settle([client])


@contextmanager
def a_misplaced_record_stays_where_it_is() -> Iterator[None]:
    with patch.object(Strays, "add", lambda *_: None):
        yield


def a_version_held_back_is_overtaken_by_a_later_one() -> None:
    world = connected("a", "b")
    (client,) = world.clients
    for one in world.matchers:
        one.rules = Rules(conflation=Intervals(others_ms=20_000))
    takeover(world)
    world.publish_next(client.key_of("a"))
    world.run(1.0)
    world.publish_next(client.key_of("a"))  # held
    world.publish_next(client.key_of("b"))
    world.run(3.0)
    must_be_told(world, client, "b", (0, 2))
    no_matcher(world)
    world.run(7.0)
    world.calm()
    world.settle([client])


@contextmanager
def complete_reaches_what_is_held_back() -> Iterator[None]:
    with patch.object(Conflation, "floor", property(lambda self: self._state.position)):
        yield


CASES: list[tuple[Callable[[], None], list[Rule]]] = [
    (the_answer_to_a_registration_is_lost_and_then_power, [only_what_is_new_is_answered]),
    (a_wiped_client_wants_what_it_wanted_before, [only_what_is_new_is_answered, the_stored_cursor_stands_in_for_none]),
    (an_unregister_and_a_register_are_replayed, [what_is_applied_is_not_known]),
    (a_hello_is_replayed_whose_client_has_since_come_elsewhere, [what_is_applied_is_not_known]),
    (
        a_registration_set_is_sent_and_power_is_lost_before_the_pages,
        [a_set_is_sent_without_being_pending, no_session_is_doubted],
    ),
    (a_matcher_thought_dead_writes_registrations_that_nobody_lives_to_write_over, [no_session_is_doubted]),
    (a_registration_set_is_cut_in_the_middle, [each_chunk_is_a_set]),
    (two_names_share_a_crc_and_one_is_unregistered_while_a_frame_is_under_way, [nobody_asks_for_names]),
    (the_same_client_twice, [displaced_is_as_any_other_end]),
    (the_log_is_truncated_and_the_operator_says_so, [one_epoch_for_ever]),
    (the_log_is_truncated_and_the_first_to_take_over_fails, [offsets_are_committed_with_their_topics_ids]),
    (the_log_is_truncated_and_nobody_says_so, [a_cursor_above_the_end_counts]),
    (a_stale_record_while_no_matcher_runs, [the_newest_is_not_written_again]),
    (a_misplaced_record_while_no_matcher_runs, [a_misplaced_record_stays_where_it_is]),
    (a_version_held_back_is_overtaken_by_a_later_one, [complete_reaches_what_is_held_back]),
]


@pytest.mark.parametrize(("play", "rules"), CASES, ids=[play.__name__ for play, _ in CASES])
def test_the_promise_holds_and_breaks_without_the_rules(play: Callable[[], None], rules: list[Rule]) -> None:
    check(play, *rules)
