"""The topics of a run: those that do not fit together are refused, and offsets say of which topics they are."""

from dataclasses import replace

import pytest
from coldnotify_matcher.epoch import epoch_of
from coldnotify_matcher.run_topics import cluster_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.errors import RunFailure
from coldnotify_testkit.engine_bench import CLUSTER
from coldnotify_testkit.matcher_process import PARTITIONS
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient, NewPartitions

TOPICS = TopicNames()


def test_offsets_are_marked_with_the_topics_and_an_epoch_that_an_operator_began() -> None:
    first = replace(CLUSTER, epoch=epoch_of("objects-id", CLUSTER.partitions, 0))
    assert first.marks == {TOPICS.requests: "requests-id", TOPICS.objects: "objects-id"}
    assert replace(first, epoch=0xBEEF).marks[TOPICS.objects] == "objects-id/0000beef"


def add_partitions(admin: AdminClient, topic: str, total: int) -> None:
    for answer in admin.create_partitions([NewPartitions(topic, total)]).values():
        answer.result(60)


@pytest.mark.kafka
def test_topics_that_do_not_fit_together_are_refused(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = cluster_of(admin, TOPICS, 0)
    assert before.partitions == PARTITIONS
    assert cluster_of(admin, TOPICS, 0) == before
    assert cluster_of(admin, TOPICS, 1).epoch != before.epoch
    add_partitions(admin, TOPICS.sessions, PARTITIONS + 1)

    def refused() -> bool:
        """Not at once: the broker that is asked may not have heard of it yet."""
        try:
            return cluster_of(admin, TOPICS, 0) != before
        except RunFailure as error:
            return f"{TOPICS.sessions} has {PARTITIONS + 1} partitions, {TOPICS.objects} has" in str(error)

    wait_for(refused, "its being refused")
