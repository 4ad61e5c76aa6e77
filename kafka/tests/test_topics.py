import json
from importlib.resources import files

import pytest
import yaml
from coldnotify_kafka.errors import TopicsFileError
from coldnotify_kafka.topics import TopicSpec, load
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

TEXT = files("coldnotify_kafka").joinpath("topics.yaml").read_text()


def by_name(specs: list[TopicSpec]) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in specs}


def edited(topic: str, key: str, value: object) -> str:
    """topics.yaml with one field of a topic (or one of its settings, if it has a dot) replaced."""
    document = yaml.safe_load(TEXT)
    entry = document["topics"][topic]
    (entry["settings"] if "." in key else entry)[key] = value
    return yaml.safe_dump(document)


def test_topics_yaml_contains_every_topic_as_designed() -> None:
    specs = by_name(load())
    assert {spec.name for spec in specs.values() if spec.co_partitioned} == set(TOPICS.co_partitioned)
    assert {specs[name].partitions for name in TOPICS.co_partitioned} == {32}
    policies = {name: spec.settings["cleanup.policy"] for name, spec in specs.items()}
    compacted = {name for name, policy in policies.items() if policy == "compact"}
    state = {TOPICS.registrations, TOPICS.sessions, TOPICS.channels_state, TOPICS.shares}
    assert compacted == {TOPICS.objects, *state, TOPICS.tenants, TOPICS.verdicts, TOPICS.usage_state, *TOPICS.of_hooks}
    expiring = {name for name, policy in policies.items() if policy == "compact,delete"}
    assert expiring == {TOPICS.usage_history, TOPICS.nodes}
    day = 24 * 3600 * 1000
    assert specs[TOPICS.objects].settings["min.compaction.lag.ms"] == str(day)
    retention = {name: specs[name].settings["retention.ms"] for name in policies if name not in compacted}
    assert retention == {
        TOPICS.requests: str(day),
        TOPICS.notifications: str(day // 24),
        TOPICS.rejected: str(7 * day),
        TOPICS.channels_1h: str(day // 24),
        TOPICS.channels_1d: str(day),
        TOPICS.channels_30d: str(30 * day),
        TOPICS.usage: str(2 * day),
        TOPICS.usage_history: str(400 * day),
        TOPICS.nodes: str(day // 24),
    }


def test_topics_of_tenants_have_one_partition() -> None:
    specs = by_name(load(partitions=3))
    assert {specs[name].partitions for name in (TOPICS.tenants, TOPICS.verdicts, TOPICS.usage_history)} == {1}
    assert specs[TOPICS.usage].partitions == specs[TOPICS.usage_state].partitions == 8
    assert specs[TOPICS.usage].settings["message.timestamp.type"] == "LogAppendTime"


def test_the_number_of_partitions_can_be_passed() -> None:
    specs = by_name(load(partitions=3))
    assert {specs[name].partitions for name in TOPICS.co_partitioned} == {3}
    assert specs[TOPICS.notifications].partitions == 16
    with pytest.raises(TopicsFileError, match="partitions: must be a whole number of at least 1, not 0"):
        load(partitions=0)


def test_with_three_replicas_two_must_have_a_record() -> None:
    assert {spec.settings.get("min.insync.replicas") for spec in load(replication_factor=2)} == {None}
    for spec in load(replication_factor=3):
        assert (spec.replication_factor, spec.settings["min.insync.replicas"]) == (3, "2")
    with pytest.raises(TopicsFileError, match="replication_factor"):
        load(replication_factor=0)


@pytest.mark.parametrize(
    ("topic", "key", "value", "words"),
    [
        (TOPICS.objects, "segment.byte", 1, "segment.byte: is not a setting"),
        (TOPICS.objects, "segment.bytes", [1], r"segment.bytes: must be a number.*not \[1\]"),
        (TOPICS.objects, "cleanup.policy", "keep", "cleanup.policy: must be compact or delete"),
        (TOPICS.objects, "co_partitioned", False, "co_partitioned: must be true"),
        (TOPICS.rejected, "co_partitioned", True, "co_partitioned: must be false"),
        (TOPICS.objects, "partitions", 4, "partitions: a co-partitioned topic"),
        (TOPICS.rejected, "partitions", "many", "partitions: must be a whole number of at least 1, not 'many'"),
        (TOPICS.rejected, "partitions", True, "partitions: must be a whole number"),
        (TOPICS.rejected, "color", "red", "color: is not known here"),
        (TOPICS.rejected, "settings", 7, "settings: must be a mapping"),
    ],
)
def test_a_mistake_is_reported_with_topic_and_key(topic: str, key: str, value: object, words: str) -> None:
    with pytest.raises(TopicsFileError, match=f"{topic}: {words}"):
        load(text=edited(topic, key, value))


def test_a_surplus_or_missing_topic_is_reported() -> None:
    document = yaml.safe_load(TEXT)
    document["topics"]["coldnotify.other"] = document["topics"].pop(TOPICS.rejected)
    with pytest.raises(TopicsFileError, match=r"coldnotify\.other: is no topic of ColdNotify's"):
        load(text=yaml.safe_dump(document))
    del document["topics"]["coldnotify.other"]
    with pytest.raises(TopicsFileError, match=rf"{TOPICS.rejected} is missing"):
        load(text=yaml.safe_dump(document))


@pytest.mark.parametrize(("text", "words"), [("a: [", "is not YAML"), ("7", "mapping"), ("a: 1", "a: is not known")])
def test_another_kind_of_file_is_reported(text: str, words: str) -> None:
    with pytest.raises(TopicsFileError, match=words):
        load(text=text)


PLANTED = "coldnotify.planted: {co_partitioned: true, settings: {cleanup.policy: compact}}"


def test_topics_of_jobs_have_as_many_partitions_as_the_others() -> None:
    *own, planted = load(3, 3, more=[PLANTED])
    assert own == load(3, 3)
    expected = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert planted == TopicSpec("coldnotify.planted", 3, 3, co_partitioned=True, settings=expected)


def test_a_part_may_have_a_topic_that_the_file_has_in_the_same_words() -> None:
    requests = read_yaml(TEXT)["topics"]["coldnotify.requests"]
    assert load(more=[json.dumps({"coldnotify.requests": requests})]) == load()
    with pytest.raises(TopicsFileError, match=r"coldnotify\.requests: the name of a part's topic"):
        load(more=[json.dumps({"coldnotify.requests": {**requests, "settings": {"cleanup.policy": "delete"}}})])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other.planted: {}", "other.planted: the name of a part's topic must begin with coldnotify."),
        ("coldnotify.objects: {}", "coldnotify.objects: the name of a part's topic"),
        ("coldnotify.planted: {partitions: 0}", "coldnotify.planted: partitions: must be a whole number"),
        ("[", "topics of a part: not YAML"),
        ("planted", "topics of a part: must be a mapping"),
    ],
)
def test_a_mistake_in_a_jobs_topics_is_reported(text: str, words: str) -> None:
    with pytest.raises(TopicsFileError) as caught:
        load(more=[text])
    assert words in str(caught.value)
