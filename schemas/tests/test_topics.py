"""The topics' names are part of the outer contract: back-ends write to one of them."""

from dataclasses import FrozenInstanceError

import pytest
from coldnotify_schemas.topics import PREFIX_CHARS_MAX, TopicNames

TOPICS = TopicNames()
NAMES = {
    "objects",
    "requests",
    "registrations",
    "sessions",
    "notifications",
    "rejected",
    "channels.1h",
    "channels.1d",
    "channels.30d",
    "channels_state",
    "shares",
    "tenants",
    "usage",
    "verdicts",
    "usage_history",
    "usage_state",
    "nodes",
    "hooks",
    "hooks_state",
}


@pytest.mark.parametrize("prefix", ["coldnotify.", "acme.", "team-x_"])
def test_the_names(prefix: str) -> None:
    topics = TopicNames(prefix)
    names = {value for name, value in vars(topics).items() if name != "prefix"}

    assert names == {prefix + name for name in NAMES}
    assert set(topics.all) == names
    assert len(topics.all) == len(names)


def test_the_topics_of_one_matcher_are_co_partitioned() -> None:
    inputs = (TOPICS.objects, TOPICS.requests, TOPICS.registrations, TOPICS.sessions)
    assert (*inputs, *TOPICS.channels, TOPICS.channels_state, TOPICS.shares) == TOPICS.co_partitioned


def test_groups_begin_with_the_prefix_but_those_of_release_010() -> None:
    assert TOPICS.group("matcher") == "coldnotify-matcher"
    assert TopicNames("acme.").group("matcher") == "acme.matcher"


def test_the_prefix_replaces_the_default_one_in_a_name() -> None:
    acme = TopicNames("acme.")
    assert acme.renamed("coldnotify.channels.1h") == acme.channels_1h
    assert acme.renamed("coldnotify-tenancy") == acme.group("tenancy")
    assert all(TOPICS.renamed(name) == name for name in (*TOPICS.all, "coldnotify-matcher"))
    with pytest.raises(ValueError, match="other"):
        acme.renamed("other.objects")


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("", "is empty"),
        ("acme", "must end with"),
        ("acme/east.", "contains '/'"),
        ("ac me.", "contains ' '"),
        ("acmé.", "contains 'é'"),
        ("a" * PREFIX_CHARS_MAX + ".", "the most allowed are"),
        ("coldnotify-", "consumer groups"),
    ],
)
def test_an_invalid_prefix_is_refused(prefix: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TopicNames(prefix)


def test_the_longest_prefix_leaves_room_for_every_topic() -> None:
    assert max(map(len, TopicNames("a" * (PREFIX_CHARS_MAX - 1) + ".").all)) <= 249


def test_names_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TOPICS.objects = "other"  # type: ignore[misc]
