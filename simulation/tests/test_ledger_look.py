"""The ledger in the simulation: it holds, and a bug that is planted in what says it is seen."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from coldnotify._core.delivery.unsettled import UnsettledTold
from coldnotify_gateway.core.requests import RequestMaker as GatewayRequests
from coldnotify_matcher.engine.clients import unsettled_registrations
from coldnotify_matcher.engine.inputs.registering.registration_requests import RegistrationRequests
from coldnotify_matcher.engine.writing import client_records
from coldnotify_simulation.scripted import Rule, check, connected


def a_callback_that_takes_its_time_behind_a_registration() -> None:
    world = connected("a")
    (client,) = world.clients
    world.publish_next(client.key_of("b"))
    world.run(15.0)  # its cursor passes that
    client.callback_s = 6.0
    world.register(client, "b")
    world.run(20.0)
    world.calm()
    world.settle([client])


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
    world.run(20.0)
    world.calm()
    world.settle([client])


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


HOLDS: Mapping[Callable[[], None], list[Rule]] = {
    a_callback_that_takes_its_time_behind_a_registration: [
        what_is_asked_for_counts_as_taken,
        the_client_says_nothing,
        the_gateway_passes_nothing_on,
        frames_are_not_taken_in,
    ],
    a_callback_that_raises_too_often_then_a_takeover: [nothing_of_it_is_stored, a_cursor_overtakes_what_it_has_passed],
}


@pytest.mark.parametrize(("scenario", "rule"), [(play, rule) for play, rules in HOLDS.items() for rule in rules])
def test_the_promise_holds_and_breaks_without_the_rule(scenario: Callable[[], None], rule: Rule) -> None:
    check(scenario, rule)


def test_looks_at_the_ledger_find_applied_versions() -> None:
    world = connected("a")
    world.run(2.0)
    assert world.ledger.looks
