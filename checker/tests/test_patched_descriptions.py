"""P9 and P1 of descriptions that devices patch, by histories: what is in order, and each way to break it."""

from typing import Any

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Describe,
    End,
    Event,
    Members,
    Publish,
    Published,
    Record,
    RegisterQuery,
    Started,
    Told,
    Topic,
)
from coldnotify_schemas.descriptions import KEY_PREFIX

CLIENT, QUERY, OBJECT = "d/g/c", "Room = 1", "d/g/lamp"


class PatchStory:
    """What happens, a second after the other, to one object, and what a client is told that asks for descriptions."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.s = 0
        self.calls = 0
        self.note(Started, client=CLIENT, life=1)
        self.note(RegisterQuery, client=CLIENT, query=QUERY, descriptions=True)

    def note(self, kind: type[Event], **fields: Any) -> int:
        self.s += 1
        self.events.append(kind(t=self.s * 1_000_000, **fields))
        return self.s * 1_000_000

    def patch(self, outcome: str | None = "acknowledged", publisher: str = "d/g/lamp-1", **said: Any) -> "PatchStory":
        return self.call(Describe, outcome, publisher, description=said, merges=True)

    def publish(self, version: int, outcome: str | None = "acknowledged", **said: Any) -> "PatchStory":
        return self.call(Publish, outcome, "d/g/lamp-1", version=version, patch=said or None)

    def call(self, kind: type[Event], outcome: str | None, publisher: str, **fields: Any) -> "PatchStory":
        self.calls += 1
        call = {"publisher": publisher, "id": self.calls}
        self.note(kind, **call, object=OBJECT, path="session", **fields)
        if outcome is not None:
            self.note(Published, **call, outcome=outcome)
        return self

    def enters(self) -> "PatchStory":
        self.note(Members, client=CLIENT, query=QUERY, added=["lamp"])
        return self

    def told(self, version: int | None = None, **description: Any) -> "PatchStory":
        self.note(Told, client=CLIENT, object=OBJECT, version=version, described=True, description=description)
        return self

    def wake(self) -> "PatchStory":
        since = self.note(Connecting, client=CLIENT)
        self.note(CaughtUp, client=CLIENT, since=since)
        return self

    def holds(self, **description: Any) -> "PatchStory":
        """The topic at the end."""
        said = {"description": description}
        self.note(Record, topic="coldnotify.objects", partition=0, offset=1, key=f"{KEY_PREFIX}{OBJECT}", value=said)
        self.note(Topic, topic="coldnotify.objects", partitions=1, starts=[0], ends=[2])
        return self

    def broken(self) -> list[str]:
        return [f"{one.promise}: {one.what}" for one in judge(self.events).violations]


def test_patches_are_merged_in_their_order() -> None:
    story = PatchStory().patch(Room=1, Level=1).patch(Level=2, Kind="lamp").patch(Kind=None)
    assert story.enters().told(Room=1, Level=2).wake().broken() == []


@pytest.mark.parametrize(
    "told",
    [
        {"Room": 1, "Level": 1},  # the first patch alone
        {"Level": 2},  # the last one in place of what was there
        {"Room": 1, "Level": 2, "Kind": "heater"},  # what nobody said
        {"Room": 1, "Level": 2, "Gone": 1},  # what was removed
    ],
)
def test_a_patch_that_is_lost_or_merged_wrongly_is_found(told: dict[str, Any]) -> None:
    story = PatchStory().patch(Room=1, Level=1, Gone=1).patch(Level=2, Gone=None).enters().told(**told).wake()
    assert any(one.startswith("P9") and "how d/g/lamp is described" in one for one in story.broken())


def test_nothing_that_was_refused_is_in_force() -> None:
    story = PatchStory().patch(Room=1).patch("failed", Level=9).enters()
    assert story.told(Room=1).wake().broken() == []
    assert story.told(Room=1, Level=9).wake().broken()


def test_an_unanswered_patch_may_be_in_force_or_not() -> None:
    for told in ({"Room": 1, "Level": 1}, {"Room": 1, "Level": 2}):
        assert PatchStory().patch(Room=1, Level=1).patch(None, Level=2).enters().told(**told).wake().broken() == []
    assert PatchStory().patch(Room=1, Level=1).patch(None, Level=2).enters().told(Room=1, Level=3).wake().broken()


def test_members_follow_from_patches() -> None:
    assert PatchStory().patch(Room=1).wake().broken(), "it never entered"
    assert PatchStory().patch(Room=1).patch(Room=2).wake().broken() == []
    assert PatchStory().patch(Room=1).patch(Room=2).enters().told(Room=2).wake().broken(), "it had left"


def test_a_version_is_told_behind_its_patch() -> None:
    story = PatchStory().patch(Room=1, Level=1).publish(1).enters().told(1, Room=1, Level=1)
    assert story.publish(2, Level=2).told(2, Room=1, Level=2).wake().broken() == []
    (words,) = story.publish(3, None, Level=3).told(3, Room=1, Level=2).broken()
    assert "without the patch" in words


def test_a_patch_is_in_force_once_its_version_is_told() -> None:
    story = PatchStory().patch(Room=1, Level=1).enters().publish(1, None, Level=2).told(1, Room=1, Level=2)
    assert any("how d/g/lamp is described" in one for one in story.told(1, Room=1, Level=1).wake().broken())


@pytest.mark.parametrize(("held", "clean"), [({"Room": 1, "Level": 2}, True), ({"Room": 1, "Level": 1}, False)])
def test_the_topic_holds_what_the_patches_say(held: dict[str, Any], *, clean: bool) -> None:
    story = PatchStory().patch(Room=1, Level=1).patch(Level=2).enters().told(**held).holds(**held)
    story.note(End, connected=[])
    assert [one.startswith("P1") for one in story.broken()] == ([] if clean else [True])


def test_objects_that_others_describe_as_well_are_not_judged() -> None:
    for other in (Describe(publisher="q", id=1, object=OBJECT, description={"Level": 7}), None):
        story = PatchStory().patch(Room=1)
        if other is None:
            story.patch(publisher="d/g/another", Level=7)
        else:
            story.events.append(other)
        assert story.enters().told(Room=1).wake().broken() == []
