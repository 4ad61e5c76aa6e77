"""The ledger in the simulation: it holds, and a bug that is planted in what says it is seen."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify._core.delivery.unsettled import UnsettledTold
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.outputs import Output, Produce
from coldnotify_gateway.core.requests import RequestMaker as GatewayRequests
from coldnotify_matcher.engine.clients import unsettled_registrations
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.inputs.registering.registration_requests import RegistrationRequests
from coldnotify_matcher.engine.writing import client_records
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.operating import SimulatedOperator
from coldnotify_simulation.scripted import Rule, check, connected, link_of, no_matcher, registered, until_request
from coldnotify_simulation.world import World

TOPICS = TopicNames()


def come_to_rest(world: World, client: SimulatedClient) -> None:
    """Nothing is done to them any more."""
    world.run(20.0)
    world.calm()
    world.settle([client])


def a_callback_that_takes_its_time_behind_a_registration() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("b"))
    world.run(15.0)  # its cursor passes that
    client.callback_s = 6.0
    world.register(client, "b")
    come_to_rest(world, client)


def a_callback_that_raises_too_often_then_a_takeover() -> None:
    world = connected("a")
    (client,) = world.clients
    client.failing = 1.0
    world.publish_next(client.key_of("a"))
    world.register(client, "b")
    world.run(60.0)  # its cursor is stored, too
    for matcher in world.matchers:
        matcher.kill()
        matcher.start()
    come_to_rest(world, client)


def a_matcher_that_dies_before_it_has_a_forgotten_clients_whole_set() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("b"))
    world.run(15.0)  # its cursor passes that
    operator = SimulatedOperator(1, world)
    operator.end()
    operator.ask(client, forget=True)
    world.register(client, "b")
    until_request(world, "sync")
    link_of(client).stall(15.0)
    for matcher in world.matchers:
        matcher.kill()
        matcher.start()
    come_to_rest(world, client)


def a_connection_that_is_asked_for_again_behind_the_next_one() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("b"))
    world.run(15.0)  # its cursor passes that
    world.register(client, "c")
    world.clock.run_until(lambda: "c" in registered(world, client))
    no_matcher(world)  # what it says of that is not answered
    world.run(3.0)
    link_of(client).cut("its gateway does not notice", gateway_notices_s=float("inf"))
    until_request(world, "open")
    world.register(client, "b")
    world.run(0.2)
    link_of(client).cut("nor does it", client_notices_s=0.0, gateway_notices_s=float("inf"))
    until_request(world, "open")
    link_of(client).cut("both notice", client_notices_s=30.0)
    world.run(3.0)  # so long that the first gateway asks whoever takes over
    for matcher in world.matchers:
        matcher.start()
    come_to_rest(world, client)


def a_hello_that_comes_behind_the_next_session() -> None:
    world = connected("a")
    (client,) = world.clients
    for gateway in world.gateways:
        gateway.requests_held = True
    world.register(client, "b")
    world.run(0.2)
    link_of(client).cut("cut")
    opens: list[tuple[SimulatedGateway, Produce]] = []

    def there() -> bool:
        opens.extend(
            (gateway, produce)
            for gateway in world.gateways
            for _, produce in gateway._queues[0]
            if produce.request.HasField("open")
        )
        return bool(opens)

    world.clock.run_until(there)
    gateway, late = opens[0]
    gateway.kill()
    for one in world.gateways:
        one.requests_held = False
    gateway.start()
    world.run(30.0)
    world.kafka.append(TOPICS.requests, 0, world.clock.now_ms, late.key, late.request.SerializeToString())
    come_to_rest(world, client)


@contextmanager
def no_hello_is_late() -> Iterator[None]:
    never = property(lambda _: False, lambda *_: None)
    with patch.object(UnsettledTold, "_late_hello", never, create=True):
        yield


@contextmanager
def the_client_says_nothing() -> Iterator[None]:
    with patch.object(UnsettledTold, "next", lambda self, _now, _number: None):
        yield


@contextmanager
def what_is_asked_for_counts_as_taken() -> Iterator[None]:
    with patch.object(unsettled_registrations, "put", lambda *_: None):
        yield


@contextmanager
def nothing_of_it_is_stored() -> Iterator[None]:
    # As by a matcher that writes the records of release 0.1.0 and believes them.
    with patch.object(client_records, "records_of", lambda *_: []):
        yield


@contextmanager
def the_gateway_passes_nothing_on() -> Iterator[None]:
    with patch.object(GatewayRequests, "unsettled", lambda *_: []):
        yield


@contextmanager
def frames_are_not_taken_in() -> Iterator[None]:
    with patch.object(RegistrationRequests, "on_unsettled", lambda *_: None):
        yield


@contextmanager
def a_cursor_overtakes_what_it_has_passed() -> Iterator[None]:
    late = property(lambda _: False)
    with patch.object(UnsettledTold, "hurry", lambda *_: None), patch.object(UnsettledTold, "is_late", late):
        yield


@contextmanager
def a_hello_says_all_for_as_long_as_its_session() -> Iterator[None]:
    made = GatewayRequests.open

    def says_all(self: GatewayRequests, session: Identified, now_s: float) -> Output:
        output = made(self, session, now_s)
        assert isinstance(output, Produce)
        output.request.open.all_unsettled = session.all_unsettled
        return output

    with patch.object(GatewayRequests, "open", says_all):
        yield


@contextmanager
def whoever_was_displaced_comes_back() -> Iterator[None]:
    with patch.object(GatewayView, "retire", lambda *_: None):
        yield


HOLDS: Mapping[Callable[[], None], list[Rule]] = {
    a_callback_that_takes_its_time_behind_a_registration: [
        what_is_asked_for_counts_as_taken,
        the_client_says_nothing,
        the_gateway_passes_nothing_on,
        frames_are_not_taken_in,
    ],
    a_callback_that_raises_too_often_then_a_takeover: [nothing_of_it_is_stored, a_cursor_overtakes_what_it_has_passed],
    a_matcher_that_dies_before_it_has_a_forgotten_clients_whole_set: [a_hello_says_all_for_as_long_as_its_session],
    a_connection_that_is_asked_for_again_behind_the_next_one: [whoever_was_displaced_comes_back],
    a_hello_that_comes_behind_the_next_session: [no_hello_is_late],
}


@pytest.mark.parametrize(("scenario", "rule"), [(play, rule) for play, rules in HOLDS.items() for rule in rules])
def test_the_promise_holds_and_breaks_without_the_rule(scenario: Callable[[], None], rule: Rule) -> None:
    check(scenario, rule)


def test_looks_at_the_ledger_find_applied_versions() -> None:
    world = connected("a")
    world.run(2.0)
    assert world.ledger.looks


def test_the_ledger_answers_nothing_in_the_middle_of_a_step() -> None:
    """Else it would report of a forgotten client before the tombstones of its registrations are written."""
    world = connected("a")
    world.run(2.0)
    for matcher in world.matchers:
        assert matcher.run is not None
        matcher.run._step = iter(())  # type: ignore[assignment]
    looks, said = world.ledger.looks, len(world.trace.history)
    world.ledger.look(world.clients)
    assert (world.ledger.looks, len(world.trace.history)) == (looks, said)
