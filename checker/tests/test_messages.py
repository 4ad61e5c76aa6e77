"""P8, by histories: what is in order, and each way in which it may be broken.

Stands for: messages, log_periods
"""

from typing import Any

import pytest
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    End,
    Event,
    Killed,
    LogTrimmed,
    MessageTold,
    MissedTold,
    Published,
    Record,
    Send,
    Started,
    Subscribe,
    Topic,
    TopicLost,
    Unsubscribe,
)
from coldnotify_checker.judging import judge
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

CHANNEL = "animal.observer/region-1/tasks"
CLIENT = "animal.observer/region-1/observer-1"
S = 1_000_000


class Story:
    """A history, a second for each line."""

    def __init__(self, since: Any = "oldest", attributes: tuple[str, ...] = ()) -> None:
        self.events: list[Event] = []
        self.t = 0
        self.sends = 0
        self.say(Started(client=CLIENT))
        self.say(Subscribe(client=CLIENT, channel=CHANNEL, since=since, attributes=list(attributes)))

    def say(self, event: Event) -> "Story":
        self.t += S
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        self.events.append(type(event)(**fields | {"t": self.t}))
        return self

    def sent(self, offset: int | None, message: str = "", outcome: Any = "acknowledged", **fields: Any) -> "Story":
        self.sends += 1
        message = message or f"m{offset}"
        fields = {"payload": message, **fields}
        self.say(Send(publisher="p", id=self.sends, channel=CHANNEL, message=message, **fields))
        return self.say(Published(publisher="p", id=self.sends, outcome=outcome, offset=offset))

    def told(self, *offsets: int, **fields: Any) -> "Story":
        for offset in offsets:
            fields_now = {"message": f"m{offset}", "payload": f"m{offset}", **fields}
            self.say(MessageTold(client=CLIENT, channel=CHANNEL, offset=offset, **fields_now))
        return self

    def missed(self, after: int | None, before: int, reason: str) -> "Story":
        return self.say(MissedTold(client=CLIENT, channel=CHANNEL, after=after, before=before, reason=reason))

    def wake(self) -> "Story":
        self.say(Connecting(client=CLIENT))
        return self.say(CaughtUp(client=CLIENT, since=self.t))

    def end(self) -> list[str]:
        self.say(End(connected=[CLIENT]))
        return [violation.what for violation in judge(self.events).of("P8")]


def test_a_history_in_order_is_clean() -> None:
    assert Story().sent(0).sent(1).told(0, 1).sent(5).told(5).end() == []


def test_statistics_count_the_events() -> None:
    story = Story().sent(0).sent(1).told(1).missed(0, 1, "retention")
    story.say(End(connected=[CLIENT]))
    statistics = judge(story.events).statistics
    assert (statistics.sent, statistics.messages, statistics.missed) == (2, 1, {"retention": 1})


def test_a_skipped_message_is_found_at_the_next_one_and_at_the_end() -> None:
    (words,) = Story().sent(0).sent(1).sent(2).told(0, 2).end()
    assert "not told 1 messages" in words
    assert "m1 at 1" in words
    (words,) = Story().sent(0).sent(1).told(0).end()
    assert "when it was complete: m1 at 1" in words


def test_a_wake_includes_every_message_sent_before_it() -> None:
    story = Story().sent(0).told(0).wake().sent(1)
    connecting = story.t + S
    story.say(Connecting(client=CLIENT))
    story.say(CaughtUp(client=CLIENT, since=connecting))
    story.told(1)
    (words,) = story.end()
    assert "when it was complete" in words


@pytest.mark.parametrize(
    ("path", "expires_at", "violations"), [("session", 1, 0), ("kafka", 1, 1), ("session", None, 1)]
)
def test_a_sessions_repeat_of_an_expired_message_is_not_owed(
    path: str, expires_at: int | None, violations: int
) -> None:
    """Its first record lies at 1, and only the repeat at 3 is acknowledged."""
    story = Story().sent(0).told(0)
    story.say(Send(publisher="p", id=9, channel=CHANNEL, message="m", payload="m", path=path, expires_at=expires_at))
    story.missed(0, 2, "expired").say(Published(publisher="p", id=9, outcome="acknowledged", offset=3))
    assert len(story.sent(4).told(4).end()) == violations


def test_a_missed_message_is_not_owed() -> None:
    story = Story().sent(0).sent(1).sent(2).say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=2))
    assert story.missed(None, 2, "retention").told(2).end() == []


@pytest.mark.parametrize(("offset", "what"), [(1, "twice"), (0, "behind what lies at 1")])
def test_no_message_is_told_twice_or_too_late(offset: int, what: str) -> None:
    story = Story(since="now").sent(0).sent(1).told(1)
    (words,) = story.told(offset).end()
    assert what in words


def test_after_a_kill_the_last_messages_may_repeat_but_no_older_ones() -> None:
    story = Story().sent(0).sent(1).told(0, 1).say(Killed(client=CLIENT)).say(Started(client=CLIENT))
    assert story.told(0, 1).end() == []
    story = Story().sent(0).sent(1).told(0, 1)
    story.t += 60 * S
    story.say(Killed(client=CLIENT)).say(Started(client=CLIENT))
    (words,) = story.told(1).end()
    assert "twice" in words


def test_a_client_that_lost_its_state_starts_over() -> None:
    story = Story().sent(0).told(0).say(Killed(client=CLIENT)).say(Started(client=CLIENT, life=1))
    story.say(Subscribe(client=CLIENT, channel=CHANNEL, since="oldest"))
    assert story.told(0).end() == []


def test_a_repeat_must_not_be_told() -> None:
    story = Story().sent(0, "m").sent(7, "m")
    (words,) = story.told(0, 7, message="m", payload="m").end()
    assert "once more" in words
    assert Story().sent(0, "m").sent(7, "m").told(0, message="m", payload="m").end() == []


def test_a_repeat_of_a_removed_message_counts_as_a_message() -> None:
    for offset, words in ((1, 0), (0, 1)):
        story = Story().sent(0, "m").told(0, message="m", payload="m")
        story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=offset)).sent(7, "m")
        assert len(story.told(7, message="m", payload="m").end()) == words


def test_a_repeat_may_be_acknowledged_at_an_offset_that_is_never_told() -> None:
    """Its sender had no answer the first time; that one is told."""
    assert Story().sent(None, "m", outcome="unknown").sent(7, "m").told(3, message="m", payload="m").end() == []


def test_unsent_messages_and_messages_for_others_are_violations() -> None:
    (words,) = Story().told(3).end()
    assert "nobody sent" in words
    (words,) = Story().sent(3).told(3, payload="other").end()
    assert "another payload" in words
    (words,) = Story(attributes=("solar",)).sent(3, to=["camera"]).told(3).end()
    assert "for others" in words
    assert Story(attributes=("solar",)).sent(3, to=["camera"]).sent(4, to=["solar"]).told(4).end() == []


def test_the_beginning_of_a_subscription_decides_what_is_owed() -> None:
    assert Story(since="now").sent(0).end() == []
    assert Story(since="now").wake().sent(0).end() != []
    assert Story(since=3).sent(3).sent(4).told(4).end() == []
    assert len(Story(since=3).sent(3).sent(4).end()) == 1
    assert Story(since="newest").sent(0).sent(1).told(1).end() == []


def test_a_wrong_previous_offset_is_a_violation() -> None:
    (words,) = Story().sent(0).sent(4).told(0).told(4, previous=2).end()
    assert "came before" in words
    assert Story().sent(0).sent(4).told(0).told(4, previous=0).end() == []


def test_reasons_for_missing_messages_must_hold() -> None:
    (words,) = Story().sent(0, expires_at=10**15).missed(None, 1, "expired").end()
    assert "had not expired" in words
    assert Story().sent(0, expires_at=1).missed(None, 1, "expired").end() == []
    (words,) = Story().sent(0).missed(None, 1, "whim").end()
    assert "no reason" in words
    (words,) = Story().missed(None, 1, "lost").end()
    assert "no topic was" in words
    story = Story().sent(0).missed(None, 1, "retention")
    story.say(Record(topic=TOPICS.channels_1d, partition=0, offset=0, key=CHANNEL, headers={"id": "m0"}))
    (words,) = story.end()
    assert "still there" in words


def test_a_missed_report_does_not_cover_messages_for_others() -> None:
    story = Story(attributes=("solar",)).sent(0, to=["camera"]).sent(1, expires_at=1)
    assert story.missed(None, 2, "expired").end() == []


def test_a_removed_message_may_reappear_after_its_broker_was_killed() -> None:
    there = Record(topic=TOPICS.channels_1d, partition=0, offset=0, key=CHANNEL, headers={"id": "m0"})
    story = (
        Story().sent(0).say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1)).missed(None, 1, "retention")
    )
    assert story.say(there).end() == []


def test_retention_in_another_partition_is_not_a_reason() -> None:
    there = Record(topic=TOPICS.channels_1d, partition=0, offset=0, key=CHANNEL, headers={"id": "m0"})
    for topic, partition, words in ((TOPICS.channels_1d, 1, 1), (TOPICS.channels_1h, 0, 1), (TOPICS.channels_1d, 0, 0)):
        story = Story().sent(0).say(LogTrimmed(topic=topic, partition=partition, offset=9)).missed(None, 1, "retention")
        story.say(there)
        for one in TOPICS.channels:
            story.say(Topic(topic=one, partitions=2))
        assert len(story.end()) == words, (topic, partition)


def test_a_new_log_starts_over() -> None:
    story = Story().sent(0).sent(1).told(0).say(TopicLost(topic=TOPICS.channels_1d)).sent(0, "n0")
    assert story.missed(None, 0, "lost").told(0, message="n0", payload="n0").end() == []
    story = Story().sent(0).told(0).say(TopicLost(topic=TOPICS.channels_1d)).sent(0, "n0").missed(None, 0, "lost")
    assert len(story.end()) == 1


def lost(domains: tuple[str, ...] = (), begun: int | None = None) -> TopicLost:
    return TopicLost(topic=TOPICS.channels_1d, domains=list(domains), begun=begun)


def test_the_loss_of_another_domains_topic_does_not_count() -> None:
    story = Story().sent(0).told(0).say(lost(("other",))).sent(1).told(1)
    assert story.end() == []
    (words,) = Story().sent(0).say(lost(("other",))).sent(1).told(1).end()
    assert "m0 at 0" in words
    (words,) = Story().sent(0).told(0).say(lost(("other",))).missed(None, 1, "lost").end()
    assert "no topic was" in words


def test_messages_read_before_a_loss_may_be_told_for_a_while() -> None:
    story = Story().sent(0).sent(1).told(0).say(lost()).told(1).sent(0, "n0")
    assert story.missed(None, 0, "lost").told(0, message="n0", payload="n0").end() == []


def test_a_message_sent_during_a_loss_may_be_in_either_log() -> None:
    for outcome in ("acknowledged", "unknown"):
        story = Story().sent(0).told(0).sent(1, "m", outcome=outcome)
        story.say(lost(begun=story.t)).missed(None, 0, "lost")
        assert story.told(0, message="m", payload="m").end() == []
        story = Story().sent(0).told(0).sent(1, "m", outcome=outcome)
        assert story.say(lost(begun=story.t)).missed(None, 0, "lost").end() == []


def test_messages_of_the_lost_log_are_not_in_the_next_one() -> None:
    story = Story().sent(0).told(0).say(lost()).missed(None, 0, "lost")
    (words,) = story.told(0).end()
    assert "of another log" in words


def test_a_client_that_is_not_told_of_a_loss_is_a_violation() -> None:
    (words,) = Story().sent(0).told(0).say(lost()).sent(0, "n0").end()
    assert "not told that a log" in words
    (words,) = Story().sent(0).told(0).say(lost()).sent(0, "n0").told(0, message="n0", payload="n0").end()
    assert "and not that one was lost" in words
    assert Story().sent(0).told(0).say(lost()).end() == [], "there is nothing to tell it with"


def test_a_subscription_made_before_a_loss_may_begin_in_the_next_log() -> None:
    """The service had not heard of it before: there is nothing that it could have lost."""
    story = (
        Story(since="now")
        .say(lost())
        .wake()
        .sent(2, "n2")
        .say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=3))
    )
    story.missed(1, 3, "retention").sent(3, "n3").told(3, message="n3", payload="n3")
    assert story.end() == []
    story = Story(since="now").say(lost()).wake().sent(2, "n2")
    story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=3))
    assert story.missed(1, 3, "retention").end() == [], "it was confirmed when the next log was there"
    (words,) = Story(since="now").wake().say(lost()).wake().sent(0, "n0").end()
    assert "not told that a log" in words, "it was confirmed before"


def test_oldest_means_the_oldest_when_the_service_learns_of_the_subscription() -> None:
    story = Story().sent(0).sent(1).say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1)).told(1)
    assert story.end() == []
    story = Story().sent(0).sent(1).told(1).say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1))
    assert len(story.end()) == 1


def test_a_wake_that_began_before_a_loss_may_end_after_it() -> None:
    story = Story(since="now").wake().sent(0).told(0).say(Connecting(client=CLIENT))
    since = story.t
    story.say(lost()).missed(None, 0, "lost").sent(0, "n0").told(0, message="n0", payload="n0")
    assert story.say(CaughtUp(client=CLIENT, since=since)).end() == []


def test_messages_removed_during_the_first_wake_are_not_owed() -> None:
    story = Story().sent(0).say(Connecting(client=CLIENT))
    since = story.t
    story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1)).say(CaughtUp(client=CLIENT, since=since))
    assert story.end() == []


def test_the_first_told_message_may_be_of_the_log_that_began_while_it_was_sent() -> None:
    story = Story(since="now").say(Send(publisher="p", id=99, channel=CHANNEL, message="m", payload="m"))
    story.say(lost()).say(Published(publisher="p", id=99, outcome="acknowledged", offset=4))
    story.told(4, message="m", payload="m").sent(5, "n5").told(5, message="n5", payload="n5")
    assert story.end() == []


def test_a_message_repeated_after_a_loss_may_be_told_from_the_next_log() -> None:
    story = Story(since="now").sent(4, "m").say(lost()).sent(0, "m").sent(1, "n1").told(0, message="m", payload="m")
    assert story.told(1, message="n1", payload="n1").end() == []


def test_a_repeated_message_may_be_in_the_log_that_began_meanwhile() -> None:
    story = Story(since="now").sent(4, "m").say(Send(publisher="p", id=99, channel=CHANNEL, message="m", payload="m"))
    story.say(lost()).say(Published(publisher="p", id=99, outcome="acknowledged", offset=0))
    story.told(0, message="m", payload="m").sent(5, "n5").told(5, message="n5", payload="n5")
    assert story.end() == []


def test_a_repeat_of_a_message_that_may_have_been_removed_is_not_owed() -> None:
    """The first call had no answer: its record may have been there, and a matcher may remember that."""
    for removed, words in ((True, 0), (False, 1)):
        story = Story().sent(None, "m", outcome="unknown")
        if removed:
            story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=5))
        assert len(story.sent(7, "m").end()) == words
        story = Story().sent(None, "m", outcome="unknown")
        if removed:
            story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=5))
        assert len(story.sent(7, "m").sent(8, expires_at=1).missed(None, 9, "expired").end()) == words


def test_a_repeat_of_a_stray_that_may_have_been_removed_is_not_owed() -> None:
    for path, removed, words in (("stray", True, 0), ("stray", False, 1), ("kafka", True, 1)):
        story = Story().sent(1).told(1).sent(None, "m", path=path)
        if removed:
            story.say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=4)).missed(1, 4, "retention")
        assert len(story.sent(6, "m").sent(7).told(7).end()) == words, (path, removed)


def test_a_repeat_of_a_stray_that_may_precede_the_beginning_is_not_owed() -> None:
    """The stray was moved nobody knows where to, and the service heard of the subscription later."""
    for path, caught_up, words in (("stray", False, 0), ("stray", True, 1), ("kafka", False, 1)):
        story = Story(since="now")
        if caught_up:
            story.wake()
        story.sent(None, "m", path=path).sent(2).told(2).sent(4, "m").sent(5).told(5)
        assert len(story.end()) == words, (path, caught_up)


def test_after_a_loss_all_of_the_next_log_is_owed_whatever_the_beginning() -> None:
    story = Story(since="now").sent(0).told(0).say(lost()).missed(None, 0, "lost").sent(0, "n0").sent(1, "n1")
    (words,) = story.told(1, message="n1", payload="n1").end()
    assert "n0 at 0" in words


def test_a_message_that_may_not_exist_is_not_owed() -> None:
    assert Story().sent(None, "m", outcome="failed").sent(None, "n", outcome="unknown").end() == []


def test_a_stray_is_owed_at_the_place_it_was_moved_to() -> None:
    story = Story().sent(77, "m", path="stray")
    story.say(Record(topic=TOPICS.channels_1d, partition=0, offset=4, key=CHANNEL, headers={"id": "m"}))
    for topic in TOPICS.channels:
        story.say(Topic(topic=topic, partitions=1))
    (words,) = story.end()
    assert "m at 4" in words


def test_a_stray_is_owed_to_a_wake_once_it_is_moved() -> None:
    """When that was nobody knows: at the end it is, and before what comes behind it is told."""
    moved = Record(topic=TOPICS.channels_1d, partition=0, offset=4, key=CHANNEL, headers={"id": "m"})
    topics = [Topic(topic=topic, partitions=1) for topic in TOPICS.channels]
    for told in ([], [4]):
        story = Story().sent(77, "m", path="stray").wake().told(*told, message="m", payload="m").say(moved)
        for topic in topics:
            story.say(topic)
        assert len(story.end()) == (0 if told else 1)
    story = Story().sent(77, "m", path="stray").sent(5).told(5).say(moved)
    (words,) = story.end()
    assert "m at 4" in words


def test_after_unsubscribing_nothing_is_owed() -> None:
    assert Story().say(Unsubscribe(client=CLIENT, channel=CHANNEL)).sent(0).told(0).end() == []
