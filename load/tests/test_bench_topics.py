"""Topics of clients, by the options alone."""

from collections import Counter

import pytest
from coldnotify_load.bench_topics import ASSIGNMENTS, BenchTopics


@pytest.mark.parametrize("assign", ASSIGNMENTS)
def test_clients_have_different_topics_of_their_group(assign: str) -> None:
    topics = BenchTopics(topics=90, groups=3, per_client=2, assign=assign)
    assert topics.problem(30) == ""
    for client in range(30):
        own = topics.topics_of(client)
        assert len(set(own)) == 2
        assert {topics.group(topic) for topic in own} == {topics.group(client)}
        assert all(0 <= topic < 90 for topic in own)
        assert topics.objects(client) == tuple(f"topic-{topic}" for topic in own)


def test_own_topics_are_of_one_client() -> None:
    topics = BenchTopics(topics=90, groups=3, per_client=3, assign="own")
    counts = Counter(topic for client in range(30) for topic in topics.topics_of(client))
    assert set(counts.values()) == {1}


def test_round_robin_gives_each_topic_as_many_clients() -> None:
    topics = BenchTopics(topics=6, groups=2)
    counts = Counter(topic for client in range(60) for topic in topics.topics_of(client))
    assert set(counts.values()) == {10}
    assert len(counts) == 6


@pytest.mark.parametrize(
    ("options", "clients", "words"),
    [
        ({"topics": 2, "groups": 3}, 1, "--topics: 2 are fewer than the groups"),
        ({"topics": 5, "groups": 2, "per_client": 3}, 1, "--per-client: 3 of a group's topics"),
        ({"topics": 10, "assign": "own"}, 11, "--topics: with --assign own, 11 clients of 1 groups need 11, not 10"),
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, int], clients: int, words: str) -> None:
    assert words in BenchTopics(**options).problem(clients)  # type: ignore[arg-type]
