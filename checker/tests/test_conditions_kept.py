"""P12, by histories: what is in order, and each way in which conditions and sets may be broken."""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Event,
    Publish,
    Published,
    Record,
    Register,
    Started,
    Told,
    Topic,
    TopicLost,
    Wire,
)

DOMAIN_GROUP = "animal.observer/conditions"
COUNTER = f"{DOMAIN_GROUP}/counter"
A, B = f"{DOMAIN_GROUP}/a", f"{DOMAIN_GROUP}/b"
READER = f"{DOMAIN_GROUP}/reader"
TOPIC = "coldnotify.objects"


class Story:
    """A history, event by event, each a millisecond behind the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._calls = 0

    @property
    def t(self) -> int:
        return 1_000 * (len(self.events) + 1)

    def begin(self, object_: str, payload: Any, *, publisher: str = "p", **said: Any) -> dict[str, Any]:
        self._calls += 1
        names: dict[str, Any] = {"publisher": publisher, "id": self._calls}
        self.events.append(Publish(t=self.t, object=object_, payload=payload, **names, **said))
        return names

    def done(self, call: dict[str, Any], answered: int | None = None) -> None:
        self.events.append(Published(t=self.t, outcome="acknowledged", version=answered, **call))

    def lost(self, call: dict[str, Any], newest: int | None = None) -> None:
        self.events.append(Published(t=self.t, outcome="failed", lost=True, newest=newest, **call))

    def publish(self, object_: str, payload: Any, answered: int, **said: Any) -> None:
        self.done(self.begin(object_, payload, **said), answered)

    def refuse(self, object_: str, payload: Any, newest: int | None, **said: Any) -> None:
        self.lost(self.begin(object_, payload, **said), newest)

    def reads(self, *objects: str, together: bool = True) -> None:
        self.events.append(Started(t=self.t, client=READER, together=together))
        self.events += [Register(t=self.t, client=READER, object=one) for one in objects]
        connecting = Connecting(t=self.t, client=READER)
        self.events += [connecting]
        self.events.append(CaughtUp(t=self.t, client=READER, since=connecting.t))

    def sent(self, object_: str, version: int) -> None:
        self.events.append(Wire(t=self.t, client=READER, object=object_, version=version))

    def told(self, object_: str, version: int, payload: Any, **said: Any) -> None:
        self.events.append(Told(t=self.t, client=READER, object=object_, version=version, payload=payload, **said))

    def dump(self, *held: tuple[str, int, Any]) -> None:
        t = self.t
        for offset, (object_, version, payload) in enumerate(held):
            value = {"version": version, "payload": payload}
            self.events.append(Record(t=t, topic=TOPIC, partition=0, offset=offset, key=object_, value=value))
        self.events.append(Topic(t=t, topic=TOPIC, partitions=1))

    def wrong(self) -> list[str]:
        return [one.what for one in judge(self.events).violations if one.promise == "P12"]


def counting() -> Story:
    """Two writers count, and one of them is refused once."""
    story = Story()
    story.publish(COUNTER, 0, 1, version=1)
    first, second = (story.begin(COUNTER, [1, name], publisher=name, if_version=1) for name in "xy")
    story.done(first, 2)
    story.lost(second, 2)
    story.publish(COUNTER, [2, "y"], 3, publisher="y", if_version=2)
    return story


def one_set(*, members: int = 2) -> tuple[Story, list[dict[str, Any]]]:
    story = Story()
    story.publish(A, "a1", 1, version=1)
    story.publish(B, "b1", 1, version=1)
    names: dict[str, Any] = {"atomic": "s1", "if_version": 1}
    return story, [story.begin(one, f"{one[-1]}2", **names) for one in (A, B)[:members]]


def test_writers_that_take_turns_are_in_order() -> None:
    story = counting()
    story.dump((COUNTER, 3, [2, "y"]))
    verdict = judge(story.events)
    assert verdict.clean
    assert verdict.statistics.decided == 3


def test_an_unanswered_one_may_be_done_or_not() -> None:
    story = counting()
    story.begin(COUNTER, [3, "x"], publisher="x", if_version=3)
    story.begin(COUNTER, [3, "y"], publisher="y", if_version=3)
    assert not story.wrong()
    story.reads(COUNTER)
    story.told(COUNTER, 4, [3, "y"])
    assert not story.wrong()


def test_conditions_hold_after_a_deletion_and_a_loss() -> None:
    story = Story()
    story.publish(A, 1, 1, if_absent=True)
    story.publish(A, None, 2, version=2, deleted=True)
    story.publish(A, 2, 3, if_absent=True)
    story.events.append(TopicLost(t=story.t, topic=TOPIC))
    story.publish(A, 3, 1, if_absent=True)
    story.publish(A, 4, 2, if_version=1)
    assert not story.wrong()


def told_one_set(*sent: str, **how: Any) -> list[str]:
    """Returns what is wrong, if a reader of two members was sent these before it was told the first one."""
    story = Story()
    story.reads(A, B, **how)
    names: dict[str, Any] = {"atomic": "s1", "version": 2}
    for object_ in (A, B):
        story.publish(object_, f"{object_[-1]}2", 2, **names)
    story.publish(B, "later", 3, version=3)
    for object_ in sent:
        story.sent(object_, 2)
    story.told(A, 2, "a2")
    story.sent(B, 3)
    story.told(B, 3, "later")
    story.dump((A, 2, "a2"), (B, 3, "later"))
    return story.wrong()


def test_a_set_that_comes_together_is_in_order() -> None:
    assert not told_one_set(A, B)
    assert not told_one_set(A, together=False)
    assert not told_one_set()


def test_a_member_that_is_told_before_the_other_is_sent_is_found() -> None:
    (found,) = told_one_set(A)
    assert "before it was sent version 2" in found


def test_the_version_in_force_that_says_the_same_is_the_answer() -> None:
    story = Story()
    story.publish(A, "same", 4, version=4)
    story.publish(A, "same", 4, version=9, if_changed=True)
    story.dump((A, 4, "same"))
    assert judge(story.events).clean


# --- bugs


def two_name_one_version(story: Story) -> None:
    story.publish(COUNTER, [3, "x"], 4, publisher="x", if_version=2)


def an_unanswered_rival_is_done_too(story: Story) -> None:
    story.begin(COUNTER, [3, "x"], publisher="x", if_version=3)
    story.publish(COUNTER, [3, "y"], 4, publisher="y", if_version=3)
    story.reads(COUNTER)
    story.told(COUNTER, 5, [3, "x"])


def a_stale_version_is_named(story: Story) -> None:
    story.publish(COUNTER, "plain", 9, version=9)
    story.publish(COUNTER, [3, "x"], 10, publisher="x", if_version=3)


def nobody_published_what_is_named(story: Story) -> None:
    story.publish(COUNTER, [3, "x"], 78, publisher="x", if_version=77)


def it_is_made_twice(story: Story) -> None:
    story.publish(A, 1, 1, if_absent=True)
    story.publish(A, 2, 2, if_absent=True)


def it_was_there_before(story: Story) -> None:
    story.publish(COUNTER, "made", 4, if_absent=True)


def a_refused_one_is_told(story: Story) -> None:
    story.reads(COUNTER)
    story.told(COUNTER, 2, [1, "y"])


def a_refused_one_is_in_the_topic(story: Story) -> None:
    story.dump((COUNTER, 4, [1, "y"]))


def it_is_refused_for_no_reason(story: Story) -> None:
    story.refuse(COUNTER, [3, "x"], 3, publisher="x", if_version=3)


def a_refusal_is_answered_as_unknown(story: Story) -> None:
    call = story.begin(COUNTER, [3, "x"], publisher="x", if_version=2)
    story.events.append(Published(t=story.t, outcome="unknown", lost=True, **call))


def one_publish_is_done_twice(story: Story) -> None:
    story.begin(COUNTER, [3, "x"], publisher="x", if_changed=True)
    story.reads(COUNTER)
    story.told(COUNTER, 4, [3, "x"])
    story.told(COUNTER, 5, [3, "x"])


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (two_name_one_version, "that name version 2 are done"),
        (an_unanswered_rival_is_done_too, "that name version 3 are done"),
        (a_stale_version_is_named, "is done behind 9"),
        (nobody_published_what_is_named, "which nobody published"),
        (it_is_made_twice, "was made twice"),
        (it_was_there_before, "was there before"),
        (a_refused_one_is_told, "was refused, and"),
        (a_refused_one_is_in_the_topic, "was refused, and is in the topic"),
        (it_is_refused_for_no_reason, "which it names, was newest"),
        (a_refusal_is_answered_as_unknown, "is said to be unknown"),
        (one_publish_is_done_twice, "is version 4, and version 5"),
    ],
)
def test_a_bug_of_conditions_is_found(bug: Any, words: str) -> None:
    story = counting()
    assert not story.wrong()
    bug(story)
    found = story.wrong()
    assert found
    assert words in found[0]


def one_member_alone_is_answered(story: Story, calls: list[dict[str, Any]]) -> None:
    story.done(calls[0], 2)
    story.lost(calls[1], 2)


def one_member_is_not_in_the_topic(story: Story, calls: list[dict[str, Any]]) -> None:
    for call in calls:
        story.done(call, 2)
    story.dump((A, 2, "a2"), (B, 1, "b1"))


def one_member_of_an_unanswered_set_is_done(story: Story, _calls: list[dict[str, Any]]) -> None:
    story.dump((A, 2, "a2"), (B, 1, "b1"))


def a_refused_set_leaves_a_version(story: Story, calls: list[dict[str, Any]]) -> None:
    story.lost(calls[0])
    story.lost(calls[1], 2)
    story.dump((A, 2, "a2"), (B, 1, "b1"))


def a_set_is_done_twice(story: Story, _calls: list[dict[str, Any]]) -> None:
    story.dump((A, 2, "a2"), (A, 3, "a2"), (B, 3, "b2"))


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (one_member_alone_is_answered, "for some members alone"),
        (one_member_is_not_in_the_topic, f"without {B}"),
        (one_member_of_an_unanswered_set_is_done, f"without {B}"),
        (a_refused_set_leaves_a_version, "was refused, and is in the topic"),
        (a_set_is_done_twice, "is version 2, and version 3"),
    ],
)
def test_a_bug_of_sets_is_found(bug: Any, words: str) -> None:
    story, calls = one_set()
    assert not story.wrong()
    bug(story, calls)
    found = story.wrong()
    assert found
    assert words in found[0]
