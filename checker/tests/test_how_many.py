"""P10 of how many there may be: who is refused was one too many, and who is in stays in. Bugs are planted and found."""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    Agreement,
    Connecting,
    Event,
    Publish,
    Published,
    Refused,
    Register,
    RegisterQuery,
    Removed,
    Started,
    Stopped,
    Subscribe,
    TopicLost,
    TurnedAway,
)

DOMAIN = "full.domain"
SECOND_US = 1_000_000
CLIENTS, OBJECTS, REGISTRATIONS = 3, 4, 5
"""As many as were agreed."""
REASON = f"tenant full is above its agreement: registrations_max is {REGISTRATIONS}"


def agreed(t: int, **limits: int | None) -> Agreement:
    most: dict[str, Any] = {"objects_max": OBJECTS, "clients_max": CLIENTS, "registrations_max": REGISTRATIONS}
    return Agreement(t=t, tenant="full", domains=[DOMAIN], **most | limits)


def name(number: int) -> str:
    return f"{DOMAIN}/g/c{number}"


def published(number: int, t: int, *, refused: bool = False, deleted: bool = False, id_: int = 0) -> list[Event]:
    call: dict[str, Any] = {"publisher": "p", "id": id_ or number}
    begun = Publish(t=t, object=f"{DOMAIN}/g/o{number}", version=t, deleted=deleted, **call)
    if refused:
        answer = Published(t=t + 10, outcome="failed", refused="objects_max", retry_after_s=10.0, **call)
    else:
        answer = Published(t=t + 10, outcome="acknowledged", **call)
    return [begun, answer]


def full() -> list[Event]:
    """As many as were agreed are there by 10 s; then one more of each comes and is refused, at 60 s."""
    events: list[Event] = [agreed(1)]
    for number in range(CLIENTS + 1):
        t = 10 * SECOND_US + number if number < CLIENTS else 60 * SECOND_US
        events += [Started(t=t, client=name(number)), Connecting(t=t, client=name(number))]
    for number in range(OBJECTS):
        events += published(number, 2 * SECOND_US + 100 * number)
    events += published(OBJECTS, 60 * SECOND_US, refused=True)
    events.append(TurnedAway(t=60 * SECOND_US + 5, client=name(CLIENTS)))
    for number in range(REGISTRATIONS - 2):
        events.append(Register(t=20 * SECOND_US, client=name(number % CLIENTS), object=f"{DOMAIN}/g/o{number}"))
    events.append(RegisterQuery(t=20 * SECOND_US, client=name(0), query="a = 1"))
    events.append(Subscribe(t=20 * SECOND_US, client=name(1), channel="tasks"))
    one_more = f"{DOMAIN}/g/one-more"
    events.append(Register(t=60 * SECOND_US, client=name(0), object=one_more))
    events.append(Refused(t=61 * SECOND_US, client=name(0), object=one_more, reason=REASON))
    return events


def wrong(events: list[Event]) -> list[str]:
    return [violation.what for violation in judge(events).violations if violation.promise == "P10"]


def test_one_more_than_agreed_is_refused_and_counted() -> None:
    verdict = judge(full())
    assert [one.what for one in verdict.violations] == []
    assert verdict.statistics.refused == 3


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("clients_max", "at most 3 others were there"),
        ("objects_max", "at most 4 others were there"),
        ("registrations_max", "at most 5 others were there"),
    ],
)
def test_refusing_a_client_below_the_limit_is_a_violation(limit: str, words: str) -> None:
    most = {"clients_max": CLIENTS, "objects_max": OBJECTS, "registrations_max": REGISTRATIONS}[limit]
    (found,) = wrong([agreed(0, **{limit: most + 1}), *full()[1:]])
    assert limit in found
    assert words in found
    (found,) = wrong([agreed(0, **{limit: None}), *full()[1:]])
    assert "nobody had agreed to" in found


def test_a_raised_limit_may_not_count_yet() -> None:
    raised = agreed(59 * SECOND_US, clients_max=9, objects_max=9, registrations_max=9)
    assert wrong([*full(), raised]) == []
    raised = agreed(20 * SECOND_US, clients_max=9, objects_max=9, registrations_max=9)
    assert len(wrong([*full(), raised])) == 3


def test_a_client_that_is_in_must_not_be_turned_away() -> None:
    events = full()
    assert wrong([*events, TurnedAway(t=70 * SECOND_US, client=name(1), welcomed=True)]) == [
        f"{name(1)} was in, and was sent away as one too many"
    ]


def test_a_client_may_count_for_a_moment_after_it_left() -> None:
    events = full()
    assert wrong([*events, Stopped(t=59 * SECOND_US, client=name(1))]) == []
    again = [
        Connecting(t=400 * SECOND_US, client=name(CLIENTS)),
        TurnedAway(t=401 * SECOND_US, client=name(CLIENTS)),
    ]
    assert wrong([*events, *again]) == []
    # Its own last session may be counted, too: two have to be gone for long.
    gone = [Stopped(t=100 * SECOND_US, client=name(1)), Stopped(t=100 * SECOND_US, client=name(2))]
    assert wrong([*events, gone[0], *again]) == []
    (found,) = wrong([*events, *gone, *again])
    assert "at most 2 others were there" in found


def test_a_publish_to_an_existing_object_must_not_be_refused() -> None:
    events = [*full(), *published(0, 90 * SECOND_US, refused=True, id_=77)]
    assert wrong(events) == [f"a publish of {DOMAIN}/g/o0 was refused by objects_max, and it was there"]


def test_a_publish_to_an_object_that_may_be_gone_may_be_refused() -> None:
    refused = published(0, 90 * SECOND_US, refused=True, id_=77)
    deleted = published(0, 80 * SECOND_US, deleted=True, id_=78)
    events = [*full(), *published(9, 3 * SECOND_US), *refused]
    assert wrong(events) == [f"a publish of {DOMAIN}/g/o0 was refused by objects_max, and it was there"]
    assert wrong([*events, *deleted]) == []
    assert wrong([*events, Removed(t=80 * SECOND_US, object=f"{DOMAIN}/g/o0")]) == []
    assert wrong([*events, TopicLost(t=80 * SECOND_US, topic="coldnotify.objects")]) == []


def test_without_an_agreement_line_nothing_is_judged() -> None:
    verdict = judge(full()[1:])
    assert not verdict.violations
    assert "P10" in verdict.not_judged
