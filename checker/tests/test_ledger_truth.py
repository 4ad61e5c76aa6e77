"""What the ledger said, held against what callbacks had taken by then."""

import pytest
from coldnotify_checker.histories import (
    Connecting,
    Event,
    Forgotten,
    Ledger,
    Publish,
    Register,
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


REGISTERED: list[Event] = [Started(t=at(0), client=CLIENT), Register(t=at(0), client=CLIENT, object=OBJECT), told(1, 1)]


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
        ([Forgotten(t=at(2), client=CLIENT), Connecting(t=at(2.2), client=CLIENT), told(2.5, 1), look(3, 4, 2)], 1),
        ([TopicLost(t=at(2), topic=TOPICS.registrations), look(3, 4, 2)], 0),
        ([Started(t=at(2), client=CLIENT, life=1), look(3, 4, 2)], 0),
        ([Publish(t=at(2), publisher="p", id=1, object=OBJECT, version=2, source="c"), look(3, 4, 2)], 0),
    ],
)
def test_a_client_that_the_ledger_does_not_name_has_applied_the_version(events: list[Event], found: int) -> None:
    assert violations(*events) == found


def test_a_registration_the_service_may_not_know_yet_is_not_judged() -> None:
    assert violations(look(0.5, 2, 2)) == 0


def test_a_version_told_because_of_a_query_proves_no_registration() -> None:
    events = [told(1, 1), Register(t=at(2), client=CLIENT, object=OBJECT), told(3, 1), look(4, 5, 2)]
    verdict = JudgeVerdict()
    looks = LedgerLooks(verdict, 0, TopicNames())
    for event in [Started(t=at(0), client=CLIENT), *events]:
        looks.on_event(event)
    looks.finish()
    assert verdict.counts["P2"] == 0


def test_clocks_of_writers_may_differ() -> None:
    late = [told(4.5, 2), look(3, 4, 2)]
    assert (violations(*late), violations(*late, skew_s=1.0)) == (1, 0)
