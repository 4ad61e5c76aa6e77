"""What the ledger said, held against what callbacks had taken by then."""

import pytest
from coldnotify_checker.histories import (
    CaughtUp,
    Event,
    Forgotten,
    Ledger,
    Publish,
    Register,
    RegisterQuery,
    Started,
    Told,
    TopicLost,
    Unregister,
)
from coldnotify_checker.ledger_truth import LedgerLooks
from coldnotify_checker.verdict import JudgeVerdict
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

pytestmark = pytest.mark.pure

CLIENT, OBJECT = "d/g/c", "d/g/o"


def at(second: float) -> int:
    return round(second * 1_000_000)


def told(second: float, version: int, *, failed: bool = False, incarnation: int | None = 0) -> Told:
    return Told(t=at(second), client=CLIENT, object=OBJECT, version=version, incarnation=incarnation, failed=failed)


def look(asked: float, answered: float, version: int, *lacking: str) -> Ledger:
    return Ledger(t=at(answered), asked=at(asked), object=OBJECT, version=version, lacking=list(lacking))


def caught_up(connecting: float, second: float) -> CaughtUp:
    return CaughtUp(t=at(second), client=CLIENT, since=at(connecting))


REGISTERED: list[Event] = [Started(t=at(0), client=CLIENT), Register(t=at(0), client=CLIENT, object=OBJECT), told(1, 1)]


BOTH_LOST = [TopicLost(t=at(2), topic=TOPICS.requests), TopicLost(t=at(2.1), topic=TOPICS.sessions)]
AGAIN: list[Event] = [
    Unregister(t=at(2), client=CLIENT, object=OBJECT),
    Register(t=at(2.1), client=CLIENT, object=OBJECT),
]


def violations(*events: Event, skew_s: float = 0.0) -> int:
    verdict = JudgeVerdict()
    looks = LedgerLooks(verdict, at(skew_s), TopicNames())
    for event in sorted([*REGISTERED, *events], key=lambda event: event.t):
        looks.on_event(event)
    looks.finish()
    return verdict.counts["P2"]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([look(2, 3, 1)], 0),
        ([look(2, 3, 2)], 1),
        ([look(2, 3, 2, CLIENT)], 0),
        ([told(2, 2, failed=True), look(3, 4, 2)], 1),
        ([told(2, 2, failed=True), told(3, 2), look(4, 5, 2)], 0),
        ([told(2, 0, incarnation=1), look(3, 4, 2)], 0),
        ([told(2, 2, incarnation=None), look(3, 4, 2)], 0),
        ([told(3.5, 2), look(2, 4, 2)], 0),
        ([Unregister(t=at(2), client=CLIENT, object=OBJECT), look(3, 4, 2)], 0),
        ([Forgotten(t=at(2), client=CLIENT), look(3, 4, 2)], 0),
        ([Forgotten(t=at(2), client=CLIENT), told(2.5, 1), look(3, 4, 2)], 0),
        ([Forgotten(t=at(2), client=CLIENT), caught_up(1.9, 2.4), look(3, 4, 2)], 0),
        ([Forgotten(t=at(2), client=CLIENT), caught_up(2.2, 2.4), look(3, 4, 2)], 1),
        ([TopicLost(t=at(2), topic=TOPICS.registrations), told(2.5, 1), look(3, 4, 2)], 0),
        ([TopicLost(t=at(2), topic=TOPICS.registrations), caught_up(31, 33), look(34, 35, 2)], 0),
        ([TopicLost(t=at(2), topic=TOPICS.registrations), caught_up(33, 34), look(35, 36, 2)], 1),
        ([TopicLost(t=at(2), topic=TOPICS.requests), told(2.5, 1), look(3, 4, 2)], 1),
        ([TopicLost(t=at(2), topic=TOPICS.sessions), told(2.5, 1), look(3, 4, 2)], 1),
        ([*BOTH_LOST, told(2.5, 1), look(3, 4, 2)], 0),
        ([*BOTH_LOST, caught_up(33, 34), look(35, 36, 2)], 1),
        ([*AGAIN, told(2.5, 1), look(3, 4, 2)], 0),
        ([*AGAIN, caught_up(2, 2.5), look(3, 4, 2)], 0),
        ([*AGAIN, caught_up(2.2, 2.5), look(3, 4, 2)], 1),
        ([Started(t=at(2), client=CLIENT, life=1), look(3, 4, 2)], 0),
        ([Publish(t=at(2), publisher="p", id=1, object=OBJECT, version=2, source="c"), look(3, 4, 2)], 0),
    ],
)
def test_a_client_that_the_ledger_does_not_name_has_applied_the_version(events: list[Event], found: int) -> None:
    assert violations(*events) == found


def test_a_registration_the_service_may_not_know_yet_is_not_judged() -> None:
    assert violations(look(0.5, 2, 2)) == 0


@pytest.mark.parametrize("told_before", [True, False])
def test_a_version_told_because_of_a_query_proves_no_registration(*, told_before: bool) -> None:
    assert _with_a_query(told(3, 1), told_before=told_before) == 0
    assert _with_a_query(told(3, 1), caught_up(2.5, 3.5), told_before=told_before) == 1


def _with_a_query(*events: Event, told_before: bool) -> int:
    verdict = JudgeVerdict()
    looks = LedgerLooks(verdict, 0, TopicNames())
    begin = [Started(t=at(0), client=CLIENT), RegisterQuery(t=at(0), client=CLIENT, query="has Room")]
    register = Register(t=at(2), client=CLIENT, object=OBJECT)
    for event in [*begin, *([told(1, 1)] if told_before else []), register, *events, look(4, 5, 2)]:
        looks.on_event(event)
    looks.finish()
    return verdict.counts["P2"]


def test_clocks_of_writers_may_differ() -> None:
    late = [told(4.5, 2), look(3, 4, 2)]
    assert (violations(*late), violations(*late, skew_s=1.0)) == (1, 0)
