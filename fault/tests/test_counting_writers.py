"""The counter at the end of a campaign is held against what its writers were answered."""

from typing import Literal

from coldnotify_checker.histories import Event, Publish, Published, Record, Topic, TopicLost
from coldnotify_checker.topic_contents import merge
from coldnotify_fault.counting_writers import lost_updates
from coldnotify_fault.schedule import COUNTED_GROUP, COUNTER
from coldnotify_schemas.topics import TopicNames

NAMES = TopicNames()
OBJECT = f"{COUNTED_GROUP}/{COUNTER}"
Outcome = Literal["acknowledged", "failed", "unknown"]


def counted(*outcomes: Outcome, held: int, lost_at: int = 0) -> list[str]:
    """Returns what is wrong with a counter that was made, then had increments with these outcomes, and is `held`."""
    events: list[Event] = [TopicLost(t=lost_at, topic=NAMES.objects)] if lost_at else []
    for number, outcome in enumerate(("acknowledged", *outcomes)):
        t = 1_000 * (number + 1)
        named = number - 1 if number else None
        events.append(Publish(t=t, publisher="w", id=number, object=OBJECT, if_absent=not number, if_version=named))
        events.append(Published(t=t + 1, publisher="w", id=number, outcome=outcome))
    value = {"version": held, "payload": {"n": held}}
    events.append(Record(t=90_000, topic=NAMES.objects, partition=0, offset=1, key=OBJECT, value=value))
    events.append(Topic(t=90_000, topic=NAMES.objects, partitions=1))
    return lost_updates(events, merge(events, NAMES))


def test_each_accepted_increment_counts_and_an_unknown_one_may() -> None:
    assert not counted("acknowledged", "failed", "acknowledged", held=2)
    assert not counted("acknowledged", "unknown", "acknowledged", held=3)


def test_a_lost_update_is_found() -> None:
    assert "is 1, and 2 increments were accepted" in counted("acknowledged", "acknowledged", held=1)[0]


def test_an_increment_that_was_done_twice_is_found() -> None:
    assert "is 3, and 2 increments were accepted" in counted("acknowledged", "acknowledged", held=3)[0]


def test_increments_before_the_topic_was_lost_do_not_count() -> None:
    assert not counted("acknowledged", "acknowledged", "acknowledged", held=1, lost_at=3_500)
