"""What was on its way to a client when the objects topic was lost is not held against what it is told next."""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    Connecting,
    End,
    Event,
    Publish,
    Published,
    Register,
    Removed,
    Started,
    Told,
    TopicLost,
)

CLIENT, OBJECT = "d/g/c", "d/g/o"


def history(published_us: int) -> list[Event]:
    """The topic is lost at 5 s; the client is told version 3 of that publish, then version 1 of a later one."""
    return [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        Publish(t=published_us, publisher="p", id=1, object=OBJECT, version=3),
        Published(t=published_us + 1, publisher="p", id=1, outcome="acknowledged"),
        TopicLost(t=5_000_000, topic="coldnotify.objects"),
        Told(t=8_000_000, client=CLIENT, object=OBJECT, version=3),
        Publish(t=9_000_000, publisher="p", id=2, object=OBJECT, version=1),
        Published(t=9_000_001, publisher="p", id=2, outcome="acknowledged"),
        Told(t=10_000_000, client=CLIENT, object=OBJECT, version=1),
    ]


def test_versions_may_restart_after_one_that_was_in_flight_at_the_loss() -> None:
    assert judge(history(published_us=1_000_000)).clean
    assert judge(history(published_us=6_000_000)).counts["P3"] == 1


def test_a_reused_version_number_does_not_date_an_event_after_the_loss() -> None:
    again = [
        Publish(t=11_000_000, publisher="p", id=3, object=OBJECT, version=3),
        Published(t=11_000_001, publisher="p", id=3, outcome="acknowledged"),
    ]
    assert judge([*history(published_us=1_000_000), *again]).clean


@pytest.mark.parametrize(
    "loss",
    [TopicLost(t=4_000_000, topic="coldnotify.objects"), Removed(t=4_000_000, object=OBJECT)],
    ids=["the topic is lost", "retention removes the object"],
)
def test_a_client_is_not_owed_a_lower_version_that_it_published_after_a_loss(loss: Event) -> None:
    own: dict[str, Any] = {"publisher": "p", "object": OBJECT, "source": "c"}
    before = [
        Started(t=1, client=CLIENT),
        Publish(t=2, id=1, version=12, incarnation=1, **own),
        Published(t=3, publisher="p", id=1, outcome="acknowledged"),
        loss,
        Register(t=5_000_000, client=CLIENT, object=OBJECT),
        Connecting(t=6_000_000, client=CLIENT),
    ]

    def published(**more: str) -> list[Event]:
        call = own | more
        return [
            *before,
            Publish(t=7_000_000, id=2, version=19, **call),
            Published(t=7_000_001, publisher="p", id=2, outcome="acknowledged"),
            End(t=60_000_000, connected=[CLIENT]),
        ]

    assert judge(published()).counts["P2"] == 0
    assert judge(published(source="another")).counts["P2"] == 1


def test_a_publish_by_arrival_that_is_repeated_behind_a_loss_has_a_version_in_each_topic() -> None:
    events: list[Event] = [
        Started(t=1, client=CLIENT),
        Register(t=2, client=CLIENT, object=OBJECT),
        Publish(t=3, publisher="p", id=1, object=OBJECT, payload="p/1"),
        Told(t=4, client=CLIENT, object=OBJECT, version=1_000, incarnation=0, payload="p/1"),
        TopicLost(t=5_000_000, topic="coldnotify.objects"),
        Published(t=6_000_000, publisher="p", id=1, outcome="acknowledged", version=2_000),
        Told(t=7_000_000, client=CLIENT, object=OBJECT, version=2_000, incarnation=0, payload="p/1"),
        End(t=8_000_000, connected=[CLIENT]),
    ]
    assert judge(events).violations == []
    events[3] = Told(t=4, client=CLIENT, object=OBJECT, version=1_000, incarnation=0, payload="p/2")
    assert [one.promise for one in judge(events).violations] == ["P4"]
