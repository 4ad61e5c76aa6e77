"""What lacks in channels by what is in the topics."""

from typing import Any

from coldnotify_checker.histories import Record
from coldnotify_fault.logs_of_channels import lacking
from coldnotify_fault.schedule import DOMAINS, GROUPS
from coldnotify_fault.senders import right_partition, topic_of
from coldnotify_fault.told import FollowedChannel
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

CHANNEL = f"{DOMAINS[0]}/{GROUPS[0]}/orders"
CLIENT = f"{DOMAINS[0]}/{GROUPS[0]}/ou-1"


def record(offset: int, message: str, **more: Any) -> Record:
    place = {"topic": topic_of(TOPICS, CHANNEL), "partition": right_partition(CHANNEL), **more}
    return Record(offset=offset, key=CHANNEL, headers={"id": message, **more.pop("headers", {})}, **place)


def lacks(records: list[Record], position: int | None, since: str = "oldest", *attributes: str) -> list[str]:
    following = FollowedChannel(since, list(attributes), position)
    return list(lacking(TOPICS, records, {(CLIENT, CHANNEL): following}))


def test_each_domain_has_its_topic() -> None:
    assert [topic_of(TOPICS, f"{domain}/g/c") for domain in DOMAINS] == [TOPICS.channels_1h, TOPICS.channels_1d]


def test_a_message_after_the_last_told_one_is_lacking() -> None:
    (words,) = lacks([record(3, "m1"), record(5, "m2")], 3)
    assert words == f"{CLIENT} lacks 1 messages of {CHANNEL}: it knows all to 3, not 5"
    assert lacks([record(3, "m1"), record(5, "m2")], 5) == []
    assert len(lacks([record(3, "m1")], None)) == 1
    assert lacks([record(3, "m1")], None, "now") == [], "nobody knows where it began"


def test_repeats_strays_and_messages_for_others_are_not_lacking() -> None:
    assert lacks([record(3, "m1"), record(5, "m1")], 3) == []
    following = {(CLIENT, CHANNEL): FollowedChannel("oldest", [], 3)}
    assert list(lacking(TOPICS, [record(5, "m1")], following, {"m1"})) == [], "who knows what it repeats"
    wrong = right_partition(CHANNEL) + 1
    assert lacks([record(3, "m1", partition=wrong), record(3, "m2", topic=TOPICS.channels_1d)], None) == []
    for_solar = Record(
        topic=topic_of(TOPICS, CHANNEL), partition=right_partition(CHANNEL), offset=3, key=CHANNEL,
        headers={"id": "m1", "to": "solar"},
    )  # fmt: skip
    assert lacks([for_solar], None, "oldest", "camera") == []
    assert len(lacks([for_solar], None, "oldest", "solar")) == 1
