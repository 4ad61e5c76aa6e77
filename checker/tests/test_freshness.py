"""P11, by histories: what is in order, what is owed to nobody, and each way in which it may be broken."""

from typing import Any

import pytest
from coldnotify_checker.histories import (
    Connecting,
    Deposed,
    Describe,
    End,
    Event,
    Fresh,
    Members,
    MessageTold,
    MissedTold,
    Publish,
    Published,
    Register,
    RegisterQuery,
    Removed,
    Send,
    Started,
    Stopped,
    Subscribe,
    Told,
    TopicLost,
    Unregister,
)
from coldnotify_checker.judging import judge

CLIENT, OBJECT, CHANNEL, QUERY = "d/g/c", "d/g/o", "d/g/news", "Room = 1"
S = 1_000_000
CONNECTED_S, SETTLED_S, TOLD_S = 1, 5, 30


class Story:
    """A client is connected and settled after a few seconds; something is acknowledged in the 11th."""

    def __init__(self, *registers: Event) -> None:
        self.events: list[Event] = [
            Started(t=0, client=CLIENT, life=1),
            *(registers or [Register(t=0, client=CLIENT, object=OBJECT)]),
            Connecting(t=CONNECTED_S * S, client=CLIENT),
        ]
        self.says(SETTLED_S, CONNECTED_S)

    def at(self, s: float, event: Event) -> "Story":
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        self.events.append(type(event)(**fields | {"t": round(s * S)}))
        return self

    def published(self, s: float = 10, version: int = 1, **fields: Any) -> "Story":
        outcome = fields.pop("outcome", "acknowledged")
        self.at(s, Publish(publisher="p", id=str(s), object=OBJECT, version=version, **fields))
        return self.at(s + 1, Published(publisher="p", id=str(s), outcome=outcome))

    def sent(self, s: float = 10, offset: int = 3, **fields: Any) -> "Story":
        self.at(s, Send(publisher="p", id=str(s), channel=CHANNEL, message=f"m{s}", payload=1, **fields))
        return self.at(s + 1, Published(publisher="p", id=str(s), outcome="acknowledged", offset=offset))

    def told(self, s: float, version: int = 1, **fields: Any) -> "Story":
        return self.at(s, Told(client=CLIENT, object=OBJECT, version=version, incarnation=0, **fields))

    def says(self, s: float, as_of_s: float | None, *, caught_up: bool = True, **fields: Any) -> "Story":
        as_of = None if as_of_s is None else round(as_of_s * S)
        fields = {"asked": round(s * S), "fresh_s": 25.0, "keepalive_s": 2.0} | fields
        return self.at(s, Fresh(client=CLIENT, as_of=as_of, caught_up=caught_up, **fields))

    def found(self, **how: Any) -> list[str]:
        verdict = judge(self.events, **how)
        assert verdict.statistics.fresh
        return [f"{violation.promise}: {violation.what}" for violation in verdict.violations]


def has(found: list[str], words: str) -> bool:
    return len(found) == 1 and found[0].startswith("P11") and words in found[0]


def test_whoever_was_told_may_say_so() -> None:
    assert not Story().published().told(12).says(20, 14).found()


def test_a_version_that_was_not_told_is_not_passed_over() -> None:
    assert has(Story().published().says(20, 14).found(), "version 1")


def test_an_older_version_is_not_enough_and_a_newer_one_is() -> None:
    assert has(Story().published(7).told(9).published(10, 2).says(20, 14).found(), "it knew version 1")
    assert not Story().published(7).published(10, 2).told(12, 2).says(20, 14).found()


@pytest.mark.parametrize("as_of_s", [None, 9, 10.5])
def test_a_version_acknowledged_later_is_not_owed(as_of_s: float | None) -> None:
    assert not Story().published().says(20, as_of_s, caught_up=False).found()


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_a_version_without_acknowledgement_is_not_owed(outcome: str) -> None:
    assert not Story().published(outcome=outcome).says(20, 14).found()


def test_a_record_in_a_wrong_partition_counts_once_it_is_moved() -> None:
    assert not Story().published(path="raw").says(20, 14).found()


def test_outdone_removed_and_own_versions_are_not_owed() -> None:
    assert not Story().published(7, 5).told(9, 5).published(10, 2).says(20, 14).found()
    assert not Story().published(source="c").says(20, 14).found()
    removed = Story().published()
    assert not removed.at(12, Removed(object=OBJECT)).says(20, 14).found()


def test_only_what_was_settled_by_then_is_owed() -> None:
    late = Story().at(6, Unregister(client=CLIENT, object=OBJECT)).at(13, Register(client=CLIENT, object=OBJECT))
    assert not late.published().says(20, 14, pending=1, caught_up=False).says(21, 15, caught_up=False).found()
    assert not late.says(22, 20.5).found()  # settled is what was so by 21, as far as anybody knows
    assert has(late.says(23, 21.5).found(), "version 1")


def test_a_new_process_settles_anew() -> None:
    story = Story().at(7, Stopped(client=CLIENT)).at(8, Started(client=CLIENT, life=1))
    assert not story.published().at(9, Connecting(client=CLIENT)).says(20, 14, caught_up=False).found()


def test_while_something_is_pending_nothing_is_known_to_be_settled() -> None:
    assert not Story().published().says(20, 14, pending=1, caught_up=False).found()


def test_parked_objects_are_not_owed() -> None:
    assert not Story().published().says(20, 14, parked=["o"]).found()


@pytest.mark.parametrize(("as_of_s", "wrong"), [(9.5, False), (12, False), (16.9, False), (17.1, True)])
@pytest.mark.parametrize("topic", ["objects", "registrations"])
def test_a_topic_made_anew_counts_after_5_s(topic: str, as_of_s: float, wrong: bool) -> None:
    story = Story().at(12, TopicLost(topic=f"coldnotify.{topic}", begun=9 * S)).published(13)
    assert bool(story.says(30, as_of_s, caught_up=False).found()) == wrong


@pytest.mark.parametrize(("as_of_s", "wrong"), [(14, False), (25, False), (26.1, True), (36, True)])
def test_a_deposed_node_counts_after_15_s(as_of_s: float, wrong: bool) -> None:
    story = Story().at(20, Deposed(begun=9 * S)).published()
    assert bool(story.says(60, as_of_s, caught_up=False).found()) == wrong


def test_clocks_may_differ_as_far_as_it_is_said() -> None:
    story = Story().published().says(20, 11.5)
    assert has(story.found(), "version 1")
    assert not story.found(clock_skew_s=1)


@pytest.mark.parametrize(("age_s", "wrong"), [(24.9, False), (25.1, True)])
def test_caught_up_is_proved_within_fresh_s(age_s: float, wrong: bool) -> None:
    assert bool(Story().says(60, 60 - age_s).found()) == wrong


def test_caught_up_is_nobody_of_whom_nothing_is_proved() -> None:
    assert has(Story().says(20, None).found(), "nothing proved")


def test_nor_who_has_disconnected() -> None:
    assert has(Story().at(15, Stopped(client=CLIENT)).says(20, 14).found(), "not connected")


def test_nobody_is_fresh_in_the_future() -> None:
    assert has(Story().says(20, 20.1).found(), "a time to come")


def test_at_rest_a_client_is_as_fresh_as_it_should_be() -> None:
    end = End(connected=[CLIENT])
    assert not Story().says(30, 16.5).at(31, end).found()
    assert has(Story().says(30, 15.5).at(31, end).found(), "connected")
    assert has(Story().says(30, None, caught_up=False).at(31, end).found(), "connected")


def subscribed(since: Any = "now") -> Story:
    return Story(Subscribe(t=0, client=CLIENT, channel=CHANNEL, since=since))


def test_a_message_was_told_or_said_to_be_missed() -> None:
    story = subscribed().sent()
    told = MessageTold(client=CLIENT, channel=CHANNEL, offset=3, message="m10", payload=1)
    assert has(story.says(20, 14).found(), "was not told 1 messages")
    assert not subscribed().sent().at(12, told).says(20, 14).found()
    missed = MissedTold(client=CLIENT, channel=CHANNEL, after=1, before=4, reason="retention")
    assert not subscribed().sent().at(12, missed).says(20, 14).found()
    assert not subscribed().sent().says(20, 10.5).found()
    assert not subscribed().sent().says(20, 14, parked=["news"]).found()
    assert not subscribed().sent(path="stray").says(20, 14).found()
    assert not subscribed().sent(4).says(20, 14).found()  # sent before it was settled: its `now` may lie behind


def test_a_log_made_anew_counts_after_5_s() -> None:
    lost = TopicLost(topic="coldnotify.channels.1d", begun=9 * S, domains=["d"])
    assert not subscribed("oldest").at(12, lost).sent(13).says(30, 16, caught_up=False).found()


def members(*, leaves: bool) -> Story:
    story = Story(RegisterQuery(t=0, client=CLIENT, query=QUERY))
    for s, room in ((2, 1), (10, 2)):
        story.at(s, Describe(publisher="p", id=str(s), object=OBJECT, description={"Room": room}, timestamp=s))
        story.at(s + 0.5, Published(publisher="p", id=str(s), outcome="acknowledged"))
    story.at(3, Members(client=CLIENT, query=QUERY, added=["o"]))
    return story.at(12, Members(client=CLIENT, query=QUERY, removed=["o"])) if leaves else story


def test_members_are_those_of_some_time_since() -> None:
    assert not members(leaves=True).says(20, 14).found()
    assert has(members(leaves=False).says(20, 14).found(), "as a member")
    assert not members(leaves=False).says(20, 10.2).found()


def test_a_member_has_its_versions_once_it_was_told_before() -> None:
    story = Story(RegisterQuery(t=0, client=CLIENT, query=QUERY))
    story.at(2, Describe(publisher="d", id=1, object=OBJECT, description={"Room": 1}, timestamp=2))
    story.at(3, Published(publisher="d", id=1, outcome="acknowledged"))
    story.at(4, Members(client=CLIENT, query=QUERY, added=["o"])).published()
    assert not story.says(12, 10.5).found()
    assert has(story.says(20, 14).found(), "version 1")
