"""P8 of the logs themselves: a message that was acknowledged is in a dump of them, or may have gone."""

from typing import Any

from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Event,
    LogTrimmed,
    MessageTold,
    Published,
    Record,
    Send,
    Started,
    Subscribe,
    Topic,
    TopicLost,
)
from coldnotify_checker.judging import judge
from coldnotify_checker.messages_kept import NEEDS_A_DUMP
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

CHANNEL = "animal.observer/region-1/tasks"
S = 1_000_000
PARTITIONS = 4
OWN = partition_of("animal.observer", "region-1", PARTITIONS)


def sent(t: int, offset: int, **fields: Any) -> list[Event]:
    """A message that is named after its offset, sent and acknowledged in a second."""
    send = Send(t=t * S, publisher="p", id=t, channel=CHANNEL, message=f"m{offset}", payload=1, **fields)
    return [send, Published(t=(t + 1) * S, publisher="p", id=t, outcome="acknowledged", offset=offset)]


def held(*offsets: int, topic: str = TOPICS.channels_1d, partition: int = OWN) -> list[Event]:
    return [
        Record(topic=topic, partition=partition, offset=one, key=CHANNEL, headers={"id": f"m{one}"}) for one in offsets
    ]


def dump(t: int = 100, **begins: int) -> list[Event]:
    """As of this second; `begins`: where the own partition of a retention's topic begins."""
    starts = {topic: [0] * PARTITIONS for topic in TOPICS.channels}
    for retention, start in begins.items():
        starts[f"coldnotify.channels.{retention.strip('_')}"][OWN] = start
    return [Topic(t=t * S, topic=topic, partitions=PARTITIONS, starts=starts[topic]) for topic in TOPICS.channels]


def violations(*events: list[Event]) -> list[str]:
    return [violation.what for violation in judge([one for part in events for one in part]).of("P8")]


def test_an_acknowledged_message_missing_from_the_dump_is_lost() -> None:
    assert violations(sent(1, 0), sent(3, 1), held(0, 1), dump()) == []
    (words,) = violations(sent(1, 0), sent(3, 1), held(0), dump())
    assert words == f"m1 of {CHANNEL} was acknowledged at 1, and no log holds it"


def test_a_message_may_be_in_any_of_the_logs() -> None:
    assert violations(sent(1, 0), held(0, topic=TOPICS.channels_1h), dump()) == []


def test_a_message_that_retention_may_have_removed_is_not_lost() -> None:
    assert violations(sent(1, 0), sent(3, 1), held(1), dump(_1d=1)) == []
    (words,) = violations(sent(1, 0), sent(3, 1), dump(_1d=1))
    assert "m1 of" in words
    trimmed: list[Event] = [LogTrimmed(t=9 * S, topic=TOPICS.channels_1d, partition=OWN, offset=1)]
    assert violations(sent(1, 0), trimmed, dump()) == []
    elsewhere: list[Event] = [LogTrimmed(t=9 * S, topic=TOPICS.channels_1d, partition=(OWN + 1) % PARTITIONS, offset=1)]
    assert len(violations(sent(1, 0), elsewhere, dump())) == 1


def test_a_stray_may_be_in_any_partition() -> None:
    other = (OWN + 1) % PARTITIONS
    assert violations(sent(1, 0, path="stray"), held(0, partition=other), dump()) == []
    elsewhere: list[Event] = [LogTrimmed(t=9 * S, topic=TOPICS.channels_1d, partition=other, offset=1)]
    assert violations(sent(1, 0, path="stray"), elsewhere, dump()) == []
    assert len(violations(sent(1, 0, path="stray"), dump())) == 1


def test_a_message_acknowledged_after_the_dump_began_may_be_missing() -> None:
    assert violations(sent(1, 0), held(0), dump(t=50), sent(50, 1)) == []


def test_messages_of_a_lost_topic_are_not_lost_by_the_service() -> None:
    lost: list[Event] = [TopicLost(t=5 * S, topic=TOPICS.channels_1d)]
    assert violations(sent(1, 0), lost, dump()) == []
    assert len(violations(sent(1, 0), lost, sent(7, 1), dump())) == 1


def test_without_a_dump_of_all_logs_the_verdict_names_what_it_needs() -> None:
    for topics in ([], dump()[:2]):
        verdict = judge([*sent(1, 0), *topics])
        assert verdict.clean
        assert verdict.judged_in_part["P8"] == NEEDS_A_DUMP
    assert "P8" not in judge(dump()).judged_in_part


def test_a_dump_with_a_later_beginning_shows_a_trimmed_log() -> None:
    """A subscriber from the oldest message on is not owed what retention had taken, though no line says when."""
    client = "animal.observer/region-1/observer-1"
    wake: list[Event] = [
        Started(t=10 * S, client=client),
        Subscribe(t=11 * S, client=client, channel=CHANNEL, since="oldest"),
        Connecting(t=12 * S, client=client),
        MessageTold(t=13 * S, client=client, channel=CHANNEL, offset=1, message="m1", payload=1),
        CaughtUp(t=14 * S, client=client, since=12 * S),
    ]
    assert violations(sent(1, 0), sent(3, 1), wake, held(1), dump(_1d=1)) == []
    (words,) = violations(sent(1, 0), sent(3, 1), wake, held(0, 1), dump())
    assert "m0 at 0" in words
