"""P8 of patterns of channels, by histories: what is in order, and each way in which it may be broken."""

from typing import Any

import pytest
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    End,
    Event,
    Fresh,
    LogTrimmed,
    MessageTold,
    MissedTold,
    Published,
    Record,
    Send,
    Started,
    Subscribe,
    Topic,
    Unsubscribe,
)
from coldnotify_checker.judging import judge
from coldnotify_schemas.topics import TopicNames

GROUP = "animal.observer/region-1"
CLIENT = f"{GROUP}/observer-1"
PATTERN = "^(alarms|tasks)"
OF_PATTERN: dict[str, Any] = {"client": CLIENT, "channel": f"{GROUP}/{PATTERN}", "pattern": PATTERN}
S = 1_000_000


class PatternStory:
    """A history, a second for each line. A message is named by its channel and its offset, `alarms 3`."""

    def __init__(self, since: Any = "oldest") -> None:
        self.events: list[Event] = []
        self.t = 0
        self.say(Started(client=CLIENT))
        self.say(Subscribe(**OF_PATTERN, since=since))

    def say(self, *events: Event) -> "PatternStory":
        for event in events:
            self.t += S
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            self.events.append(type(event)(**fields | {"t": self.t}))
        return self

    def sent(self, *messages: str) -> "PatternStory":
        for one in messages:
            channel, offset = one.split()
            of: dict[str, Any] = {"publisher": "p", "id": one}
            self.say(Send(**of, channel=f"{GROUP}/{channel}", message="m", payload=one))
            self.say(Published(**of, outcome="acknowledged", offset=int(offset)))
        return self

    def told(self, *messages: str, pattern: str | None = PATTERN) -> "PatternStory":
        for one in messages:
            channel, offset = one.split()
            what: dict[str, Any] = {
                "channel": f"{GROUP}/{channel}",
                "offset": int(offset),
                "message": "m",
                "payload": one,
            }
            self.say(MessageTold(client=CLIENT, pattern=pattern, **what))
        return self

    def wake(self) -> "PatternStory":
        self.say(Connecting(client=CLIENT))
        return self.say(CaughtUp(client=CLIENT, since=self.t))

    def end(self, promise: Any = "P8") -> list[str]:
        self.say(End(connected=[CLIENT]))
        return [violation.what for violation in judge(self.events).of(promise)]


ALL = ("alarms/fire 0", "tasks 1", "news 2", "alarms/door 5")
FITTING = tuple(one for one in ALL if not one.startswith("news"))


def test_fitting_channels_are_owed_and_no_others() -> None:
    assert PatternStory().sent(*ALL).told(*FITTING).wake().end() == []


def test_a_pattern_counts_each_message_once() -> None:
    story = PatternStory().sent(*ALL).told(*FITTING)
    assert judge(story.events).statistics.sent == len(ALL)


def test_a_message_of_a_fitting_channel_that_is_skipped_is_found() -> None:
    (words,) = PatternStory().sent(*ALL).told("alarms/fire 0", "alarms/door 5").end()
    assert "not told 1 messages" in words
    assert "m of tasks at 1" in words
    assert "\x00" not in words


def test_a_channel_that_is_left_out_is_found_at_a_wake_and_at_the_end() -> None:
    assert len(PatternStory().sent(*ALL).told("alarms/fire 0", "tasks 1").wake().end()) == 1


def test_a_channel_that_came_later_is_owed() -> None:
    story = PatternStory().sent("tasks 1").told("tasks 1").wake().sent("alarms/new 7")
    assert len(story.end()) == 1


def test_the_order_is_that_of_the_log_over_all_channels() -> None:
    words = PatternStory().sent(*ALL).told("tasks 1", "alarms/fire 0", "alarms/door 5").end()
    assert any("behind what lies at 1" in one for one in words)


def test_no_other_channel_is_told() -> None:
    (words,) = PatternStory().sent(*ALL).told("alarms/fire 0", "tasks 1", "news 2", "alarms/door 5").end()
    assert "nobody sent" in words


def test_a_message_is_told_once_for_each_subscription() -> None:
    story = PatternStory().say(Subscribe(client=CLIENT, channel=f"{GROUP}/tasks", since="oldest"))
    story.sent("tasks 1").told("tasks 1").told("tasks 1", pattern=None)
    assert story.end() == []
    (words,) = PatternStory().sent("tasks 1").told("tasks 1", "tasks 1").end()
    assert "twice" in words


def test_the_pattern_does_not_stand_for_the_channel() -> None:
    story = PatternStory().say(Subscribe(client=CLIENT, channel=f"{GROUP}/tasks", since="oldest"))
    assert len(story.sent("tasks 1").told("tasks 1").end()) == 1


@pytest.mark.parametrize(("trimmed", "violations"), [(True, 0), (False, 1)])
def test_a_reason_for_missing_must_hold(*, trimmed: bool, violations: int) -> None:
    story = PatternStory().sent(*ALL)
    topic = TopicNames().channels[0]
    if trimmed:
        story.say(LogTrimmed(topic=topic, partition=0, offset=2))
    story.say(MissedTold(**OF_PATTERN, after=None, before=2, reason="retention")).told("alarms/door 5")
    for one in ALL:
        channel, offset = one.split()
        if not trimmed or int(offset) >= 2:
            key = f"{GROUP}/{channel}"
            story.say(Record(topic=topic, partition=0, offset=int(offset), key=key, headers={"id": "m"}))
    for name in TopicNames().channels:
        story.say(Topic(topic=name, partitions=1, starts=[0], ends=[9]))
    assert len(story.end()) >= violations
    assert bool(story.end()) is bool(violations)


def test_nothing_is_owed_once_it_is_unsubscribed() -> None:
    assert PatternStory().say(Unsubscribe(**OF_PATTERN)).sent(*ALL).end() == []


def test_an_expression_that_is_not_understood_is_not_judged() -> None:
    story = PatternStory()
    story.events[-1] = Subscribe(t=story.t, client=CLIENT, channel=f"{GROUP}/\\pN", pattern="\\pN", since="oldest")
    assert story.sent("tasks 1").end() == []


@pytest.mark.parametrize(("parked", "violations"), [([], 1), ([PATTERN], 0)])
def test_a_client_that_is_fresh_has_been_told_what_its_pattern_fits(parked: list[str], violations: int) -> None:
    story = PatternStory().sent("tasks 1").told("tasks 1").wake()
    story.say(Fresh(client=CLIENT, asked=story.t, as_of=story.t)).sent("alarms/door 5")
    as_of = story.t + S
    story.say(Started(client=f"{GROUP}/other"))
    story.say(Fresh(client=CLIENT, asked=story.t, as_of=as_of, parked=parked))
    assert len(story.end("P11")) == violations
