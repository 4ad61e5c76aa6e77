"""Queries, as an application has them: against the service for tests.

Stands for: registration, members
"""

from collections.abc import Iterator

import pytest
from coldnotify import (
    Connection,
    DescriptionsUnknown,
    Notification,
    Notify,
    QueriesUnknown,
    QueryParked,
    RegistrationRefused,
    State,
)
from coldnotify.errors import ColdNotifyError, MembersCallbackFailed
from coldnotify.testing import FakeService
from coldnotify_testkit.waiting import wait_for

D, G, C = "animal.observer", "region-1", "observer-1"
LAMPS = 'Kind = "lamp"'


class Application:
    """A client, and what it was told."""

    def __init__(
        self, service: FakeService, state: State | None = None, *, descriptions: bool = False, **options: object
    ) -> None:
        self.errors: list[Exception] = []
        self.changes: list[tuple[set[str], set[str]]] = []
        self.told: list[Notification] = []
        self.notify = Notify(
            D,
            G,
            C,
            state=state or State(None),
            connection=Connection("127.0.0.1", service.port, backoff_min_s=0.01, ack_delay_s=0.01),
            on_error=self.errors.append,
            retry_min_s=0.01,
            **options,  # type: ignore[arg-type]
        )
        self.lamps = self.notify.register_query(LAMPS, descriptions=descriptions)

    def subscribe(self) -> None:
        self.lamps.subscribe(self.told.append)
        self.lamps.subscribe_members(lambda added, removed: self.changes.append((added, removed)))

    def caught_up(self) -> None:
        assert self.notify.wait_caught_up(30)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


def publish(service: FakeService, *names: str, **more: object) -> None:
    for name in names:
        service.publish(D, G, name, name.upper(), **more)  # type: ignore[arg-type]


def test_members_and_their_versions(service: FakeService) -> None:
    publish(service, "a", "b", "other")
    service.enter(D, G, LAMPS, "a")
    service.enter(D, G, LAMPS, "described")
    application = Application(service)
    application.subscribe()
    with application.notify:
        application.caught_up()
        assert application.changes == [({"a", "described"}, set())]
        assert [(n.object_id, n.version, n.payload) for n in application.told] == [("a", 0, "A")]
        assert application.lamps.members == {"a", "described"}
        service.enter(D, G, LAMPS, "b")
        wait_for(lambda: len(application.told) == 2)
        assert application.changes[-1] == ({"b"}, set())
        assert application.told[-1] == Notification("b", 0, "B")
        publish(service, "b")
        wait_for(lambda: len(application.told) == 3)
        service.leave(D, G, LAMPS, "a")
        wait_for(lambda: len(application.changes) == 3)
        assert application.changes[-1] == (set(), {"a"})
        assert application.lamps.members == {"b", "described"}
        publish(service, "a")
        service.publish(D, G, "b", deleted=True)
        wait_for(lambda: len(application.changes) == 4)
        assert application.told[-1].deleted
        assert [n.object_id for n in application.told] == ["a", "b", "b", "b"], "a is no member any more"
    assert not application.errors
    assert application.lamps.members == {"described"}, "what was known when it was disconnected"
    assert application.lamps.members_known
    application.notify.unregister_query(LAMPS)
    assert (application.lamps.members, application.lamps.members_known) == (frozenset(), False)


def test_no_members_and_members_that_are_not_known_yet_differ(service: FakeService, tmp_path: object) -> None:
    state = State(f"{tmp_path}/state.json")
    application = Application(service, state)
    assert (application.lamps.members, application.lamps.members_known) == (frozenset(), False), "it has not run"
    with application.notify:
        application.caught_up()
        assert (application.lamps.members, application.lamps.members_known) == (frozenset(), True)
        other = application.notify.register_query("Room = 1")
        assert not other.members_known
        wait_for(lambda: other.members_known)
    again = Application(service, state)
    service.stop()
    again.notify.connect()
    assert again.lamps.members_known, "as it was told last, though nobody answers now"
    assert not again.notify.register_query("Room = 2").members_known
    again.notify.disconnect()


def test_a_restart_tells_what_changed_and_nothing_else(service: FakeService, tmp_path: object) -> None:
    state = State(f"{tmp_path}/state.json")
    publish(service, "a", "b")
    service.enter(D, G, LAMPS, "a")
    for changes, told in (([({"a"}, set())], ["a"]), ([], []), ([({"b"}, {"a"})], ["b"])):
        application = Application(service, state)
        application.subscribe()
        with application.notify:
            application.caught_up()
            wait_for(lambda: application.changes == changes and [n.object_id for n in application.told] == told)  # noqa: B023
        if not changes:
            service.enter(D, G, LAMPS, "b")
            service.leave(D, G, LAMPS, "a")


def test_descriptions_of_members_are_told_when_they_change(service: FakeService, tmp_path: object) -> None:
    state = State(f"{tmp_path}/state.json")
    publish(service, "a")
    service.describe(D, G, "a", {"Room": 1})
    service.describe(D, G, "other", {"Room": 1})
    service.enter(D, G, LAMPS, "a")
    for now, told in (({"Room": 2}, [{"Room": 1}, {"Room": 2}]), (None, [{"Room": 3}, None])):
        application = Application(service, state, descriptions=True)
        application.subscribe()
        with application.notify:
            application.caught_up()
            wait_for(lambda: len(application.told) == 1)  # noqa: B023
            service.describe(D, G, "a", now)
            service.describe(D, G, "other", now)
            wait_for(lambda: len(application.told) == 2)  # noqa: B023
            assert application.lamps.descriptions == {"a": now}
        assert [(n.object_id, n.version, n.description) for n in application.told] == [("a", 0, one) for one in told]
        assert not application.errors
        service.describe(D, G, "a", {"Room": 3})


def test_a_service_that_tells_no_descriptions_is_reported(service: FakeService) -> None:
    service.service.knows_descriptions = False
    service.describe(D, G, "a", {"Room": 1})
    service.enter(D, G, LAMPS, "a")
    application = Application(service, descriptions=True)
    application.subscribe()
    with application.notify:
        application.caught_up()
        wait_for(lambda: [type(error) for error in application.errors] == [DescriptionsUnknown])
        assert application.lamps.descriptions == {"a": None}


def test_a_late_subscriber_receives_all_members_first(service: FakeService) -> None:
    for name in ("a", "b"):
        service.enter(D, G, LAMPS, name)
    application = Application(service)
    application.subscribe()
    with application.notify:
        application.caught_up()
        late: list[tuple[set[str], set[str]]] = []
        subscription = application.lamps.subscribe_members(lambda added, removed: late.append((added, removed)))
        wait_for(lambda: late == [({"a", "b"}, set())])
        service.leave(D, G, LAMPS, "b")
        wait_for(lambda: late[-1] == (set(), {"b"}))
        subscription.dispose()
        service.enter(D, G, LAMPS, "c")
        wait_for(lambda: application.changes[-1] == ({"c"}, set()))
        assert len(late) == 2


def test_versions_that_nobody_had_a_callback_for_are_told_to_the_first_one(service: FakeService) -> None:
    publish(service, "a")
    service.enter(D, G, LAMPS, "a")
    application = Application(service)
    application.lamps.subscribe_members(lambda added, removed: application.changes.append((added, removed)))
    with application.notify:
        application.caught_up()
        application.lamps.subscribe(application.told.append)
        wait_for(lambda: [n.object_id for n in application.told] == ["a"])
        assert application.changes == [({"a"}, set())]


def test_an_object_of_several_interests_comes_once(service: FakeService) -> None:
    publish(service, "a")
    application = Application(service)
    application.subscribe()
    by_name: list[Notification] = []
    application.notify.register("a").subscribe(by_name.append)
    with application.notify:
        application.caught_up()
        assert [n.version for n in by_name] == [0]
        service.enter(D, G, LAMPS, "a")
        wait_for(lambda: len(application.told) == 1)
        publish(service, "a")
        wait_for(lambda: len(by_name) == 2 and len(application.told) == 2)
        application.notify.unregister("a")
        publish(service, "a")
        wait_for(lambda: len(application.told) == 3)
        assert [n.version for n in by_name] == [0, 1]


def test_a_refused_query_is_reported_and_wanted_no_more(service: FakeService) -> None:
    service.service.refused_queries[LAMPS] = "1:6: expected a value"
    application = Application(service)
    application.subscribe()
    with application.notify:
        application.caught_up()
        wait_for(lambda: bool(application.errors))
        (error,) = application.errors
        assert isinstance(error, RegistrationRefused)
        assert (error.query, error.reason) == (LAMPS, "1:6: expected a value")
        assert application.notify.status.registrations == 0


def test_a_members_callback_that_raises_is_told_the_same_again_and_parked(service: FakeService) -> None:
    service.enter(D, G, LAMPS, "a")
    application = Application(service, tries_max=3)
    calls: list[set[str]] = []

    def fails(added: set[str], _removed: set[str]) -> None:
        calls.append(added)
        if len(calls) < 4:
            raise RuntimeError("no")

    application.lamps.subscribe_members(fails)
    with application.notify:
        wait_for(lambda: LAMPS in application.notify.status.parked)
        wait_for(lambda: len(application.errors) == 4)
        assert all(isinstance(error, ColdNotifyError) for error in application.errors)
        assert [type(error) for error in application.errors] == [MembersCallbackFailed] * 3 + [QueryParked]
        service.drop_all()
        wait_for(lambda: calls == [{"a"}] * 4)
        wait_for(lambda: not application.notify.status.parked)


def test_a_service_that_knows_no_queries(service: FakeService) -> None:
    service.service.knows_queries = False
    publish(service, "a")
    application = Application(service)
    application.subscribe()
    by_name: list[Notification] = []
    application.notify.register("a").subscribe(by_name.append)
    with application.notify:
        wait_for(lambda: len(by_name) == 1)
        wait_for(lambda: [type(error) for error in application.errors] == [QueriesUnknown])
        assert not application.notify.caught_up
        with service.lock:
            service.service.knows_queries = True
            service.service.enter(D, G, LAMPS, "a")
        service.drop_all()
        wait_for(lambda: application.changes == [({"a"}, set())] and len(application.told) == 1)
        application.caught_up()
        assert len(application.errors) == 1


def test_a_prefix(service: FakeService) -> None:
    application = Application(service)
    assert application.notify.register_prefix("camera/").query == 'NAME STARTS WITH "camera/"'
    assert application.notify.register_prefix('a"\\').query == 'NAME STARTS WITH "a\\"\\\\"'


def test_unregistering(service: FakeService) -> None:
    service.enter(D, G, LAMPS, "a")
    application = Application(service)
    application.subscribe()
    with application.notify:
        application.caught_up()
        application.notify.unregister_query(LAMPS)
        service.enter(D, G, LAMPS, "b")
        wait_for(lambda: application.notify.status.pending == 0)
        assert application.lamps.members == set()
        again = application.notify.register_query(LAMPS)
        assert repr(again) == f"QueryRegistration({LAMPS!r})"
        again.subscribe_members(lambda added, removed: application.changes.append((added, removed)))
        wait_for(lambda: application.changes == [({"a"}, set()), ({"a", "b"}, set())])


@pytest.mark.parametrize(
    ("text", "words"), [("", "query: has 0 bytes"), ("x" * 4097, "query: has 4097"), (3, "query:")]
)
def test_an_invalid_query_raises(service: FakeService, text: str, words: str) -> None:
    application = Application(service)
    for call in (application.notify.register_query, application.notify.unregister_query):
        with pytest.raises(ValueError, match=f"^{words}"):
            call(text)
    with pytest.raises(ValueError, match=r"^prefix: has 0 bytes"):
        application.notify.register_prefix("")
    with pytest.raises(ValueError, match=r"^callback"):
        application.lamps.subscribe_members(3)  # type: ignore[arg-type]
