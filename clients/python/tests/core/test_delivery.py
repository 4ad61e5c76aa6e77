"""Slots, floors, retries and parking.

Stands for: delivery, payloads, slot, floors, subscribers, callback_turns
"""

from typing import Any

import pytest
from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.membership import KeptQuery
from coldnotify._core.delivery.slot import CallbackJob, Update
from coldnotify._core.interests.interests import QueryInterest
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify.errors import CallbackFailed, ObjectParked, PayloadUnreadable
from coldnotify.notification import Notification


class Bench:
    """Objects a, b, c, registered, settled and subscribed to (c is not)."""

    def __init__(self, **settings: Any) -> None:
        self.journal = Journal()
        self.registrations = Registrations(self.journal, {"a", "b", "c"})
        self.reports: list[Exception] = []
        self.delivery = Delivery(
            self.journal,
            self.registrations,
            ClientSettings(**settings),
            self.reports.append,
            floors={"a": (0, 5)},
            epoch=1,
            cursor=10,
        )
        for i, name in enumerate("ab"):
            self.delivery.subscribe(name, i)

    def arrive(self, name: str, version: int | None, complete: int | None = None, incarnation: int = 0) -> None:
        self.delivery.arrived(name, Update(incarnation, version))
        if complete is not None:
            self.delivery.complete(complete)

    def tell(self, now: float = 0.0, fails: bool = False) -> Notification | None:
        job = self.delivery.turns.next_job(now)
        if job is None:
            return None
        assert isinstance(job, CallbackJob)
        self.delivery.turns.done(job, {n: RuntimeError("no") for n in job.subscribers} if fails else {}, now)
        return job.notification


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_cursor_moves_when_the_callback_has_returned(bench):
    bench.arrive("a", 6, complete=11)
    assert bench.delivery.cursor == 10
    job = bench.delivery.turns.next_job(0)
    assert bench.delivery.cursor == 10
    bench.delivery.turns.done(job, {}, 0)
    assert bench.delivery.cursor == 11
    assert bench.delivery.floors["a"] == (0, 6)


def test_a_duplicate_is_not_told_and_counts_as_applied(bench):
    bench.arrive("a", 5, complete=11)
    assert bench.tell() is None
    assert bench.delivery.cursor == 11


def test_a_higher_incarnation_begins_anew(bench):
    bench.arrive("a", 0, incarnation=1)
    assert bench.tell() == Notification("a", 0)
    bench.arrive("a", 99, incarnation=0)
    assert bench.tell() is None


def test_only_the_newest_waits_and_it_stands_in_for_the_older_ones(bench):
    bench.arrive("b", 1, complete=11)
    bench.arrive("a", 6, complete=12)
    bench.arrive("b", 2, complete=13)
    assert bench.tell() == Notification("b", 2)
    assert bench.delivery.cursor == 11
    assert bench.tell() == Notification("a", 6)
    assert bench.delivery.cursor == 13
    assert bench.tell() is None


def test_a_newer_one_waits_while_an_older_one_is_told(bench):
    bench.arrive("b", 1, complete=11)
    job = bench.delivery.turns.next_job(0)
    bench.arrive("b", 2, complete=12)
    assert bench.delivery.turns.next_job(0) is None, "one at a time for an object"
    bench.delivery.turns.done(job, {}, 0)
    assert bench.delivery.cursor == 11
    assert bench.tell() == Notification("b", 2)
    assert bench.delivery.cursor == 12


def test_unknown_is_told_but_is_below_every_version(bench):
    bench.arrive("b", None)
    assert bench.tell() == Notification("b", None)
    bench.arrive("b", 0)
    bench.arrive("b", None)
    assert bench.tell() == Notification("b", 0)
    assert bench.tell() is None


def test_without_a_subscriber_the_object_is_owed_the_cursor_passes_and_it_waits(bench):
    bench.arrive("c", 1, complete=11)
    assert bench.registrations.is_owed("c")
    assert bench.delivery.cursor == 11
    assert bench.delivery.turns.idle
    bench.delivery.subscribe("c", 9)
    assert not bench.delivery.turns.idle
    assert bench.tell() == Notification("c", 1)
    assert not bench.registrations.pending


def test_when_the_last_subscriber_goes_what_waits_is_owed(bench):
    bench.arrive("b", 1, complete=11)
    bench.delivery.unsubscribe("b", 1)
    assert bench.tell() is None
    assert bench.registrations.is_owed("b")
    assert bench.delivery.cursor == 11


def test_a_failed_callback_is_told_again_later_and_holds_the_cursor():
    bench = Bench(retry_min_s=2, tries_max=9)
    bench.arrive("b", 1, complete=11)
    bench.tell(now=100, fails=True)
    assert bench.tell(now=101.9) is None
    assert not bench.delivery.turns.idle
    assert bench.delivery.turns.ready_at() == 102
    assert bench.delivery.cursor == 10
    bench.tell(now=102, fails=True)
    assert bench.tell(now=105.9) is None
    assert bench.tell(now=106) == Notification("b", 1)
    assert bench.delivery.cursor == 11
    assert [type(report) for report in bench.reports] == [CallbackFailed] * 2


def test_a_newer_version_takes_the_place_of_a_failed_one():
    bench = Bench(retry_min_s=2)
    bench.arrive("b", 1, complete=11)
    job = bench.delivery.turns.next_job(0)
    bench.arrive("b", 2, complete=12)
    bench.delivery.turns.done(job, {1: RuntimeError("no")}, 0)
    assert bench.delivery.cursor == 10
    assert bench.tell(now=2) == Notification("b", 2)
    assert bench.delivery.cursor == 12


def test_only_the_subscribers_that_failed_are_told_again():
    bench = Bench(retry_min_s=1)
    bench.delivery.subscribe("b", 7)
    bench.arrive("b", 1)
    job = bench.delivery.turns.next_job(0)
    assert job.subscribers == (1, 7)
    bench.delivery.turns.done(job, {7: RuntimeError("no")}, 0)
    assert bench.delivery.turns.next_job(1).subscribers == (7,)


def test_if_the_failing_subscriber_goes_the_rest_counts():
    bench = Bench(retry_min_s=1)
    bench.delivery.subscribe("b", 7)
    bench.arrive("b", 1, complete=11)
    bench.delivery.turns.done(bench.delivery.turns.next_job(0), {7: RuntimeError("no")}, 0)
    bench.delivery.unsubscribe("b", 7)
    assert bench.delivery.turns.next_job(1) is None
    assert bench.delivery.cursor == 11


def test_parked_after_some_tries():
    bench = Bench(retry_min_s=1, tries_max=2)
    bench.arrive("b", 1, complete=11)
    bench.tell(now=0, fails=True)
    bench.tell(now=1, fails=True)
    assert bench.delivery.parked == {"b"}
    assert bench.registrations.is_owed("b")
    assert bench.delivery.cursor == 11
    assert bench.tell(now=100) is None
    assert bench.delivery.turns.idle
    assert isinstance(bench.reports[-1], ObjectParked)
    # A newer version, or the answer in the next session, is a new chance.
    bench.arrive("b", 2, complete=12)
    assert bench.tell(now=100) == Notification("b", 2)
    assert not bench.delivery.parked
    assert not bench.registrations.pending


def test_a_version_that_came_while_the_last_try_failed_gets_its_own_tries():
    bench = Bench(retry_min_s=1, tries_max=1)
    bench.arrive("b", 1, complete=11)
    job = bench.delivery.turns.next_job(0)
    bench.arrive("b", 2, complete=12)
    bench.delivery.turns.done(job, {1: RuntimeError("no")}, 0)
    assert bench.delivery.cursor == 12
    assert bench.registrations.is_owed("b")
    assert bench.tell(now=1) == Notification("b", 2)


def test_a_forgotten_object_does_not_hold_the_cursor_and_is_delivered_again(bench):
    bench.arrive("b", 1, complete=11)
    job = bench.delivery.turns.next_job(0)
    bench.registrations.unregister("b")
    bench.delivery.forget("b")
    assert bench.delivery.cursor == 11
    bench.delivery.turns.done(job, {}, 0)
    assert "b" not in bench.delivery.floors
    bench.registrations.register("b")
    bench.arrive("b", 1)
    assert bench.tell() == Notification("b", 1)


def test_objects_that_are_not_wanted_are_not_told(bench):
    bench.arrive("x", 1, complete=11)
    assert bench.delivery.cursor == 11
    assert bench.delivery.waiting == 0


def test_a_new_epoch_voids_the_cursor_and_keeps_the_floors(bench):
    bench.delivery.new_epoch(2)
    assert bench.delivery.cursor is None
    bench.arrive("a", 5, complete=1)
    assert bench.tell() is None
    assert bench.delivery.cursor == 1


def test_a_payload_is_parsed_and_what_is_no_json_is_reported(bench):
    bench.delivery.arrived("b", Update(0, 1, b'{"fps": 5}', deleted=True))
    assert bench.tell() == Notification("b", 1, {"fps": 5}, deleted=True)
    bench.delivery.arrived("b", Update(0, 2, b"{"))
    assert bench.tell() == Notification("b", 2, None)
    assert [type(report) for report in bench.reports] == [PayloadUnreadable]


@pytest.mark.parametrize(
    ("data", "payload"),
    [(b"\xff", b"\xff"), (b" 1 ", 1), (b"NaN", b"NaN"), (b"\xff\xfe1\0", b"\xff\xfe1\0"), (b'{"a":1}', {"a": 1})],
)
def test_bytes_are_told_as_what_they_say_as_json_else_as_they_are(bench, data, payload):
    bench.delivery.arrived("b", Update(0, 2, data, raw=True))
    told = bench.tell()
    assert (told.payload, told.data) == (payload, data)
    assert not bench.reports


@pytest.mark.parametrize("subscriber", [1, 2])
def test_a_registration_by_name_during_the_delivery_of_a_member_receives_it_too(subscriber):
    query = QueryInterest("has a")
    journal = Journal()
    registrations = Registrations(journal, queries={query})
    delivery = Delivery(
        journal,
        registrations,
        ClientSettings(),
        [].append,
        floors={},
        epoch=1,
        cursor=10,
        queries={query: KeptQuery(members=frozenset({"a"}))},
    )
    delivery.subscribe(query, 1)
    delivery.arrived("a", Update(0, 6))
    job = delivery.turns.next_job(0)
    registrations.register("a")
    delivery.subscribe("a", subscriber)
    delivery.wants("a")
    delivery.turns.done(job, {}, 0)
    delivery.arrived("a", Update(0, 6))
    again = delivery.turns.next_job(0)
    assert again is not None
    assert again.subscribers == (subscriber,)
    delivery.turns.done(again, {}, 0)
    assert delivery.floors["a"] == (0, 6)


def test_sets_may_be_doubted_at_each_of_many_takeovers():
    query = QueryInterest("has a")
    journal = Journal()
    registrations = Registrations(journal, queries={query})
    kept = {query: KeptQuery(members=frozenset({"a"}))}
    delivery = Delivery(
        journal, registrations, ClientSettings(), [].append, floors={}, epoch=1, cursor=10, queries=kept
    )
    for _ in range(5):
        delivery.queries.compare(1)
        journal.durable = journal.revision
        request = registrations.next_request()
        assert request is not None
        registrations.confirm(request[1])
        delivery.queries.unchanged([query.hash])
        delivery.queries.settle(delivery.queries.by_hash[query.hash])
        assert not registrations.pending
        for _ in range(2):
            delivery.queries.caught_up()


def test_a_delivery_left_to_the_next_session_is_not_settled_before():
    query = QueryInterest("has a")
    registrations = Registrations(Journal(), queries={query})
    kept = {query: KeptQuery(members=frozenset({"a"}))}
    delivery = Delivery(
        Journal(), registrations, ClientSettings(), [].append, floors={}, epoch=1, cursor=10, queries=kept
    )
    for _ in range(3):
        registrations.pending.clear()
        delivery.queries.compare(1)
    delivery.queries.settle(delivery.queries.by_hash[query.hash])
    assert query in registrations.pending


def test_an_answer_that_was_not_asked_for_is_a_pending_registration_until_it_is_told():
    query = QueryInterest("has a")
    registrations = Registrations(Journal(), queries={query})
    kept = {query: KeptQuery(members=frozenset({"a"}))}
    delivery = Delivery(
        Journal(), registrations, ClientSettings(), [].append, floors={}, epoch=1, cursor=None, queries=kept
    )
    delivery.queries.begun([query.hash])
    assert registrations.is_owed(query)
    delivery.queries.answered([query.hash])
    assert registrations.is_owed(query), "that a has left is still to be told"
