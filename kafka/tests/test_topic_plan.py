from collections.abc import Mapping
from dataclasses import replace

import pytest
from coldnotify_kafka import topic_plan
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.errors import TopicsNotAppliedError, TopicsRefusedError
from coldnotify_kafka.topic_plan import (
    AddPartitions,
    AlterSetting,
    CreateTopic,
    ExistingTopic,
    PlanRefusal,
    compare,
    kept,
)
from coldnotify_kafka.topics import EMBEDDED_PARTITIONS, TopicSpec, load
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

TOPICS = TopicNames()

SPEC = TopicSpec("t", 4, 1, co_partitioned=False, settings={"cleanup.policy": "delete", "retention.ms": "1000"})


def existing(spec: TopicSpec, partitions: int | None = None, copies: int = 1, **settings: str) -> ExistingTopic:
    changed = {key.replace("_", "."): value for key, value in settings.items()}
    return ExistingTopic(partitions or spec.partitions, copies, {**spec.settings, **changed})


def refusals(spec: TopicSpec, found: ExistingTopic) -> Mapping[str, str]:
    """Why, by key, of a plan that has nothing but refusals."""
    plan = compare([spec], {spec.name: found})
    assert not plan.changes
    return {refusal.key: refusal.why for refusal in plan.refusals}


def test_missing_topics_are_created() -> None:
    plan = compare([SPEC], {})
    assert plan.changes == (CreateTopic(SPEC),)
    assert str(plan) == (
        "+ t: create with 4 partitions, replication factor 1\n      cleanup.policy = delete\n      retention.ms = 1000"
    )


def test_correct_topics_are_left_alone() -> None:
    plan = compare([SPEC], {"t": existing(SPEC, segment_bytes="77")})
    assert (plan.changes, plan.refusals, str(plan)) == ((), (), "nothing to change")


def test_a_setting_is_shown_with_its_old_and_new_value() -> None:
    plan = compare([SPEC], {"t": existing(SPEC, retention_ms="999")})
    assert plan.changes == (AlterSetting("t", "retention.ms", "999", "1000"),)
    assert str(plan) == "~ t: retention.ms: 999 -> 1000"


def test_numbers_are_compared_as_numbers() -> None:
    spec = replace(SPEC, settings={"min.cleanable.dirty.ratio": "0.10"})
    found = ExistingTopic(4, 1, {"min.cleanable.dirty.ratio": "0.1"})
    assert not compare([spec], {"t": found}).changes


def test_partitions_may_be_added_where_they_mean_nothing() -> None:
    plan = compare([SPEC], {"t": existing(SPEC, partitions=2)})
    assert plan.changes == (AddPartitions("t", 2, 4),)
    assert str(plan) == "~ t: partitions: 2 -> 4"
    assert refusals(SPEC, existing(SPEC, partitions=5)) == {"partitions": "Kafka cannot take partitions away"}


@pytest.mark.parametrize("partitions", [2, 5])
def test_another_number_of_co_partitions_is_refused(partitions: int) -> None:
    spec = replace(SPEC, co_partitioned=True)
    assert f"Keep {partitions}" in refusals(spec, existing(spec, partitions=partitions))["partitions"]


def test_a_number_that_nobody_said_is_the_one_that_is_there() -> None:
    spec, other = replace(SPEC, co_partitioned=True), replace(SPEC, name="u", co_partitioned=True)
    apart = replace(SPEC, name="v")
    assert kept([spec, other, apart], {"u": existing(other, partitions=2)}) == [
        replace(spec, partitions=2),
        replace(other, partitions=2),
        apart,
    ]
    assert kept([spec, apart], {"v": existing(apart, partitions=2)}) == [spec, apart]


@pytest.mark.parametrize(
    ("key", "old", "new", "words"),
    [
        ("cleanup.policy", "compact", "delete", "kept for ever"),
        ("cleanup.policy", "compact", "compact,delete", "kept for ever"),
        ("cleanup.policy", "delete", "compact", "all but the last would be deleted"),
        ("retention.ms", "1001", "1000", "would be deleted"),
        ("retention.ms", "-1", "1000", "would be deleted"),
        ("retention.bytes", "-1", "1000", "would be deleted"),
        ("min.insync.replicas", "2", "1", "fewer replicas"),
        ("unclean.leader.election.enable", "false", "true", "could become leader"),
    ],
)
def test_changes_that_would_lose_data_are_refused(key: str, old: str, new: str, words: str) -> None:
    spec = replace(SPEC, settings={key: new})
    assert words in refusals(spec, ExistingTopic(4, 1, {key: old}))[key]


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("retention.ms", "1000", "1001"),
        ("retention.ms", "1000", "-1"),
        ("min.insync.replicas", "1", "2"),
        ("unclean.leader.election.enable", "true", "false"),
    ],
)
def test_changes_that_lose_nothing_are_not_refused(key: str, old: str, new: str) -> None:
    spec = replace(SPEC, settings={key: new})
    assert not compare([spec], {"t": ExistingTopic(4, 1, {key: old})}).refusals


def test_another_replication_factor_is_refused_with_where_to_do_it() -> None:
    plan = compare([SPEC], {"t": existing(SPEC, copies=3)})
    why = "replicas are moved with Kafka's own tool (reassign-partitions), not here"
    assert plan.refusals == (PlanRefusal("t", "replication factor", "3", "1", why),)
    assert str(plan) == f"! t: replication factor: 3 -> 1 is refused: {why}"


@pytest.fixture
def admin(fresh_kafka: EmbeddedBroker) -> AdminClient:
    """A client of a broker with all of ColdNotify's topics as they should be."""
    return AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})


def alter(admin: AdminClient, topic: str, **settings: str) -> None:
    """What an operator does by hand."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)
    # The controller has it; brokers show it a moment later.
    plain = ConfigResource(ResourceType.TOPIC, topic)

    def shown() -> bool:
        found = admin.describe_configs([plain])[plain].result(30)
        return all(found[entry.name].value == entry.value for entry in entries)

    wait_for(shown, what=f"{topic} with {settings}")


def delete(admin: AdminClient, topic: str) -> None:
    for answer in admin.delete_topics([topic]).values():
        answer.result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=30).topics, what=f"the end of {topic}")


@pytest.mark.kafka
def test_an_applied_plan_leaves_nothing_to_change(admin: AdminClient) -> None:
    assert str(topic_plan.plan(admin, load(EMBEDDED_PARTITIONS))) == "nothing to change"
    alter(admin, TOPICS.objects, segment_bytes="1048576", max_compaction_lag_ms="90000000")
    delete(admin, TOPICS.rejected)

    done = topic_plan.apply(admin, load(EMBEDDED_PARTITIONS))

    assert AlterSetting(TOPICS.objects, "segment.bytes", "1048576", "33554432") in done.changes
    assert [change.spec.name for change in done.changes if isinstance(change, CreateTopic)] == [TOPICS.rejected]
    assert len(done.changes) == 2
    assert str(topic_plan.plan(admin, load(EMBEDDED_PARTITIONS))) == "nothing to change"
    # What topics.yaml does not name is the operator's.
    resource = ConfigResource(ResourceType.TOPIC, TOPICS.objects)
    entries = admin.describe_configs([resource])[resource].result(30)
    assert entries["max.compaction.lag.ms"].value == "90000000"


@pytest.mark.kafka
def test_topics_of_earlier_releases_also_keep_the_producers_compression(admin: AdminClient) -> None:
    assert {spec.settings["compression.type"] for spec in load()} == {"producer"}
    alter(admin, TOPICS.usage, compression_type="uncompressed")
    done = topic_plan.apply(admin, load(EMBEDDED_PARTITIONS))
    assert done.changes == (AlterSetting(TOPICS.usage, "compression.type", "uncompressed", "producer"),)
    shown = ConfigResource(ResourceType.TOPIC, TOPICS.usage)
    assert admin.describe_configs([shown])[shown].result(30)["compression.type"].value == "producer"


@pytest.mark.kafka
def test_every_partition_has_a_leader_after_apply(admin: AdminClient) -> None:
    more = [replace(spec, partitions=20) if spec.name == TOPICS.notifications else spec for spec in load(8)]
    assert topic_plan.apply(admin, more).changes == (AddPartitions(TOPICS.notifications, 16, 20),)
    topics = admin.list_topics(timeout=30).topics
    for spec in more:
        assert sum(partition.leader >= 0 for partition in topics[spec.name].partitions.values()) == spec.partitions


@pytest.mark.kafka
def test_one_refusal_keeps_everything_as_it_is(admin: AdminClient) -> None:
    alter(admin, TOPICS.requests, segment_bytes="1048576")
    with pytest.raises(TopicsRefusedError, match="nothing was changed") as caught:
        topic_plan.apply(admin, load(partitions=4))
    for name in TOPICS.co_partitioned:
        assert f"{name}: partitions: 8 -> 4 is refused" in str(caught.value)
    plan = topic_plan.plan(admin, load(4), keep=True)
    assert plan.changes == (AlterSetting(TOPICS.requests, "segment.bytes", "1048576", "33554432"),)


@pytest.mark.kafka
def test_kafkas_refusal_is_reported_with_the_topic(admin: AdminClient) -> None:
    delete(admin, TOPICS.rejected)
    with pytest.raises(TopicsNotAppliedError, match=r"--replication .* as many brokers.*[Nn]othing"):
        topic_plan.apply(
            admin, [replace(spec, replication_factor=2) for spec in load() if spec.name == TOPICS.rejected]
        )


def test_a_missing_kafka_is_reported_within_the_limit() -> None:
    silent = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(TopicsNotAppliedError, match="reading metadata"):
        topic_plan.plan(silent, load(), timeout=0.5)
