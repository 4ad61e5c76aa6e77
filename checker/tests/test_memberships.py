"""P9: what a client was told of members, against what was said of objects and what the topic holds.

Stands for: in_force, memberships, queries
"""

from collections.abc import Iterator
from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.clients import REPEATS_AFTER_REGISTER
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Describe,
    End,
    Event,
    Killed,
    Members,
    Publish,
    Published,
    Record,
    Register,
    RegisterQuery,
    Sleep,
    Started,
    Stopped,
    Told,
    Topic,
    TopicLost,
    Unregister,
    UnregisterQuery,
)

CLIENT, QUERY = "d/g/c", "Room = 1"


class History:
    """What happens, a second after the other."""

    def __init__(self, *, descriptions: bool = False) -> None:
        self.events: list[Event] = []
        self.s = 0
        self._log: list[tuple[str, int, Any]] = []
        self._calls = 0
        self._since = 0
        self.note(Started, client=CLIENT, life=1)
        self.note(RegisterQuery, client=CLIENT, query=QUERY, descriptions=descriptions)

    def note(self, kind: type[Event], **fields: Any) -> int:
        self.s += 1
        self.events.append(kind(t=self.s * 1_000_000, **fields))
        return self.s * 1_000_000

    def describe(
        self, name: str, description: dict[str, Any] | None, *, outcome: str = "acknowledged", **more: Any
    ) -> None:
        self._calls += 1
        timestamp = more.pop("timestamp", self.s * 1000)
        call = {"publisher": "p", "id": self._calls}
        self.note(Describe, object=f"d/g/{name}", description=description, timestamp=timestamp, **call, **more)
        self._log.append((f"describe:d/g/{name}", timestamp, {"description": description}))
        if outcome:
            self.note(Published, outcome=outcome, **call)

    def publish(self, name: str, version: int, *, deleted: bool = False, **more: Any) -> None:
        self._calls += 1
        call = {"publisher": "p", "id": self._calls}
        self.note(Publish, object=f"d/g/{name}", version=version, deleted=deleted, **call, **more)
        value = {"version": version} | ({"deleted": True} if deleted else {})
        self._log.append((f"d/g/{name}", self.s * 1000, value))
        self.note(Published, outcome="acknowledged", **call)

    def connect(self) -> None:
        self._since = self.note(Connecting, client=CLIENT)

    def told(self, name: str, version: int | None, **more: Any) -> None:
        self.note(Told, client=CLIENT, object=f"d/g/{name}", version=version, **more)

    def members(self, added: str = "", removed: str = "", **more: Any) -> None:
        self.note(Members, client=CLIENT, query=QUERY, added=added.split(), removed=removed.split(), **more)

    def caught_up(self, *parked: str) -> None:
        self.note(CaughtUp, client=CLIENT, since=self._since, parked=list(parked))

    def end(self, *, without: int = -1) -> None:
        t = self.note(End, connected=[CLIENT])
        for offset, (key, timestamp, value) in enumerate(self._log):
            if offset != without:
                record: dict[str, Any] = {
                    "partition": 0,
                    "offset": offset,
                    "timestamp": timestamp,
                    "key": key,
                    "value": value,
                }
                self.events.append(Record(topic="coldnotify.objects", **record))
        self.events.append(Topic(t=t, topic="coldnotify.objects", partitions=1))

    def counts(self) -> dict[str, int]:
        return {promise: count for promise, count in judge(self.events).counts.items() if count}


def wake() -> History:
    """Two lamps are in room 1, one of them has a version; the client is told all that."""
    history = History()
    history.describe("a", {"Room": 1})
    history.describe("b", {"Room": 1})
    history.publish("a", 1)
    history.connect()
    history.members("a b")
    history.told("a", 1)
    history.caught_up()
    return history


def test_a_wake_that_is_told_everything_is_clean() -> None:
    history = wake()
    history.describe("b", {"Room": 2})
    history.members(removed="b")
    history.end()
    verdict = judge(history.events)
    assert verdict.clean, str(verdict)
    assert (verdict.statistics.entered, verdict.statistics.left, verdict.statistics.sets) == (2, 1, 1)


def bugs() -> Iterator[tuple[str, str, History]]:
    """What is wrong, the promise that it breaks, and a history of it."""
    history = History()
    history.describe("a", {"Room": 1})
    history.connect()
    history.caught_up()
    yield "a difference is lost", "P9", history

    history = History()
    history.describe("a", {"Room": 1})
    history.publish("a", 1)
    history.connect()
    history.told("a", 1)
    history.members("a")
    history.caught_up()
    yield "a value before its object has entered", "P9", history

    history = wake()
    history.note(Sleep, client=CLIENT)
    history.publish("b", 1)
    history.connect()
    history.caught_up()
    yield "a member without its value", "P2", history

    history = wake()
    history.describe("b", {"Room": 2})
    history.end()
    yield "what has left is not told", "P9", history

    history = wake()
    history.describe("a", {"Room": 2})
    history.publish("a", 2)
    history.told("a", 2)
    yield "a value of what was a member no more when it was published", "P9", history

    history = wake()
    history.describe("c", {"Room": 2})
    history.members("c")
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.caught_up()
    yield "a map that never was is evaluated", "P9", history

    history = wake()
    history.describe("b", {"Room": 2}, timestamp=1)
    history.end(without=2)
    yield "compaction leaves a description that is outdone", "P1", history


def described() -> History:
    """As `wake`, by a client that asks for descriptions."""
    history = History(descriptions=True)
    history.describe("a", {"Room": 1})
    history.describe("b", {"Room": 1})
    history.publish("a", 1)
    history.connect()
    history.members("a b")
    history.told("a", 1, described=True, description={"Room": 1})
    history.told("b", None, described=True, description={"Room": 1})
    history.caught_up()
    return history


def test_with_another_description_a_version_may_be_told_again() -> None:
    history = described()
    history.describe("a", {"Room": 1, "on": True})
    history.told("a", 1, described=True, description={"Room": 1, "on": True})
    history.connect()
    history.caught_up()
    assert history.counts() == {}
    # The first ones may follow from entering.
    for _ in range(REPEATS_AFTER_REGISTER + 1):
        history.told("a", 1, described=True, description={"Room": 1, "on": True})
    assert history.counts() == {"P4": 1}


@pytest.mark.parametrize("ends", [Stopped, Sleep])
def test_a_new_process_may_be_told_the_same_description_again(ends: type[Event]) -> None:
    """It does not know whether the one that is stored was told last. Who sleeps does."""
    history = described()
    for _ in range(REPEATS_AFTER_REGISTER):
        history.told("a", 1, described=True, description={"Room": 1})
    history.note(ends, client=CLIENT)
    if ends is Stopped:
        history.note(Started, client=CLIENT, life=1)
    history.connect()
    history.told("a", 1, described=True, description={"Room": 1})
    assert history.counts() == ({} if ends is Stopped else {"P4": 1})
    history.told("a", 1, described=True, description={"Room": 1})
    assert history.counts() == {"P4": 1 if ends is Stopped else 2}


@pytest.mark.parametrize("failed", [True, False])
def test_a_change_of_a_description_that_is_not_told_is_a_violation(failed: bool) -> None:
    history = described()
    history.note(Sleep, client=CLIENT)
    history.describe("b", {"Room": 1, "on": True})
    history.connect()
    if failed:
        history.told("b", None, described=True, description={"Room": 1, "on": True}, failed=True)
    history.caught_up()
    assert history.counts() == {"P9": 1}


def test_a_description_of_a_parked_member_is_owed_once_it_is_parked_no_more() -> None:
    history = described()
    history.note(Sleep, client=CLIENT)
    history.describe("b", {"Room": 1, "on": True})
    history.connect()
    history.told("b", None, described=True, description={"Room": 1, "on": True}, failed=True)
    history.caught_up("b")
    assert history.counts() == {}
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.caught_up()
    assert history.counts() == {"P9": 1}


def test_a_change_of_an_object_during_a_wake_may_be_told_or_not() -> None:
    history = described()
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.describe("b", {"Room": 1, "on": True})
    history.caught_up()
    assert history.counts() == {}
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.caught_up()
    assert history.counts() == {"P9": 1}, "it was in force before that wake began"


@pytest.mark.parametrize(("bug", "promise", "history"), list(bugs()), ids=[bug for bug, _, _ in bugs()])
def test_each_planted_bug_violates_its_promise(bug: str, promise: str, history: History) -> None:
    assert history.counts().keys() >= {promise}, bug


def test_a_call_in_progress_may_count_or_not() -> None:
    for held in (True, False):
        history = History()
        history.describe("a", {"Room": 1}, outcome="")
        history.connect()
        if held:
            history.members("a")
        history.caught_up()
        assert history.counts() == {}


def test_a_description_with_an_earlier_timestamp_changes_nothing() -> None:
    history = wake()
    history.describe("a", {"Room": 2}, timestamp=1)
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.caught_up()
    history.end()
    assert history.counts() == {}


def test_a_deleted_object_is_no_member_until_it_is_published_again() -> None:
    history = wake()
    history.publish("a", 2, deleted=True)
    history.told("a", 2, deleted=True)
    history.members(removed="a")
    history.publish("a", 3)
    history.members("a")
    history.told("a", 3)
    history.end()
    assert history.counts() == {}


def test_members_told_to_a_callback_that_failed_may_be_known() -> None:
    history = History()
    history.describe("a", {"Room": 1})
    history.publish("a", 1)
    history.connect()
    history.members("a", failed=True)
    history.told("a", 1)
    history.members("a")
    history.caught_up()
    assert history.counts() == {}


def test_told_members_survive_power_cuts_and_end_with_the_query() -> None:
    history = wake()
    history.note(Killed, client=CLIENT)
    history.note(Started, client=CLIENT, life=1)
    history.connect()
    history.caught_up()
    assert history.counts() == {}
    history.note(UnregisterQuery, client=CLIENT, query=QUERY)
    history.told("a", 1)  # it was on its way
    history.note(RegisterQuery, client=CLIENT, query=QUERY)
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.caught_up()
    assert history.counts() == {"P9": 2}


def registered_again(ends: type[Event], *, starts_between: bool = False) -> History:
    """The query is unregistered, and registered again; before it is told anything, its process ends."""
    history = wake()
    history.note(UnregisterQuery, client=CLIENT, query=QUERY)
    if not starts_between:
        history.note(RegisterQuery, client=CLIENT, query=QUERY)
    history.note(ends, client=CLIENT)
    history.note(Started, client=CLIENT, life=1)
    history.note(RegisterQuery, client=CLIENT, query=QUERY)
    history.describe("b", {"Room": 2})
    history.publish("a", 2)
    history.connect()
    return history


@pytest.mark.parametrize("starts_between", [False, True])
def test_after_a_power_cut_a_query_may_go_on_with_its_members_from_before(starts_between: bool) -> None:
    """That it was unregistered, and registered again, was perhaps not saved."""
    for added, removed in (("a", ""), ("", "b")):
        history = registered_again(Killed, starts_between=starts_between)
        history.members(added, removed)
        history.told("a", 2)
        history.caught_up()
        history.describe("a", {"Room": 2})
        history.members(removed="a")
        history.end()
        assert history.counts() == {}


def test_after_a_power_cut_a_query_goes_on_with_all_its_members_from_before_or_with_none() -> None:
    history = registered_again(Killed)
    history.told("a", 2)
    history.caught_up()
    assert history.counts() == {"P9": 1}, "it holds a, and so it holds b, which has left"
    history = registered_again(Killed)
    history.members(removed="b")
    history.told("a", 2)
    history.caught_up()
    history.note(Sleep, client=CLIENT)
    history.describe("a", {"Room": 2})
    history.connect()
    history.caught_up()
    assert history.counts() == {"P9": 1}, "it has been found to hold a"


def test_a_query_that_is_registered_again_is_told_all_once_that_is_saved() -> None:
    history = registered_again(Stopped)
    history.members(removed="b")
    history.caught_up()
    assert history.counts() == {"P9": 1}, "a is missing"
    history = wake()
    history.note(UnregisterQuery, client=CLIENT, query=QUERY)
    history.note(RegisterQuery, client=CLIENT, query=QUERY)
    history.members("a")
    history.note(Killed, client=CLIENT)
    history.note(Started, client=CLIENT, life=1)
    history.connect()
    history.caught_up()
    assert history.counts()["P9"] == 1, "members are told only once the registration is saved"


def test_members_of_a_failed_callback_are_not_owed_before_they_are_told_again() -> None:
    history = History()
    history.describe("a", {"Room": 1}, outcome="")
    history.publish("a", 1)
    history.members("a", failed=True)
    history.connect()
    history.caught_up()
    assert history.counts() == {}


def test_a_registration_that_is_undone_makes_no_own_version_owed() -> None:
    history = wake()
    history.publish("a", 2, source="c")
    history.note(Register, client=CLIENT, object="d/g/a")
    history.note(Unregister, client=CLIENT, object="d/g/a")
    history.end()
    assert history.counts() == {}
    history = wake()
    history.publish("a", 2, source="another")
    history.end()
    assert history.counts() == {"P2": 1}


@pytest.mark.parametrize(("comes_back", "found"), [(True, {}), (False, {"P4": 1})])
def test_an_object_that_returns_before_its_leaving_was_told_may_be_told_again(
    comes_back: bool, found: dict[str, int]
) -> None:
    history = wake()
    history.note(Register, client=CLIENT, object="d/g/a")
    history.told("a", 1)
    history.describe("a", {"Room": 2})
    history.publish("a", 2)
    history.told("a", 2)
    if comes_back:
        history.describe("a", {"Room": 1})
    for _ in range(REPEATS_AFTER_REGISTER):
        history.told("a", 2)
    assert history.counts() == found


@pytest.mark.parametrize(("writes", "found"), [(1, {}), (2, {"P6": 1})])
def test_a_clients_last_request_may_be_written_after_it_left(writes: int, found: dict[str, int]) -> None:
    history = wake()
    history.note(Killed, client=CLIENT)
    for offset in range(20 * writes):
        record: dict[str, Any] = {
            "partition": 0,
            "offset": offset,
            "timestamp": history.s * 1000 + 1,
            "key": f"{CLIENT}/{offset % 20}",
        }
        history.events.append(Record(topic="coldnotify.registrations", value={"objects": []}, **record))
    for name in ("registrations", "sessions"):
        history.events.append(Topic(t=history.s * 1_000_000, topic=f"coldnotify.{name}", partitions=1))
    assert {promise: count for promise, count in history.counts().items() if promise == "P6"} == found


def test_objects_from_before_a_loss_may_still_be_members() -> None:
    history = wake()
    history.note(TopicLost, topic="coldnotify.objects")
    history.note(Sleep, client=CLIENT)
    history.connect()
    history.members(removed="b")
    history.caught_up()
    assert history.counts() == {}


def test_a_query_that_is_not_understood_is_not_judged() -> None:
    history = wake()
    history.note(RegisterQuery, client=CLIENT, query="Room is one")
    history.end()
    assert history.counts() == {}


def test_a_version_of_high_priority_may_precede_the_news_that_its_object_left() -> None:
    """It overtakes that, and is told for the sake of another query, which says later that the object has entered."""
    history = wake()
    history.describe("a", {"Room": 2})
    history.publish("a", 2, priority="high")
    history.told("a", 2)
    history.members(removed="a")
    history.end()
    assert history.counts() == {}


def test_a_version_of_high_priority_must_not_precede_the_news_of_its_member() -> None:
    history = wake()
    history.describe("c", {"Room": 1})
    history.publish("c", 1, priority="high")
    history.told("c", 1)
    assert history.counts() == {"P9": 1}


def test_versions_do_not_wait_for_a_members_callback_that_has_failed_too_often() -> None:
    history = wake()
    history.note(Sleep, client=CLIENT)
    history.describe("b", {"Room": 2})
    history.describe("c", {"Room": 1})
    history.publish("c", 1)
    history.connect()
    history.members(removed="b", failed=True)
    history.told("c", 1)
    history.caught_up()
    history.members(removed="b")
    history.members("c")
    history.end()
    assert history.counts() == {}
    history.told("d", 1)
    assert "P9" in history.counts()
