from importlib.resources import files

import pytest
import yaml
from coldnotify_kafka.errors import TopicsFileError
from coldnotify_kafka.topics import TopicSpec, co_partitions, load
from coldnotify_schemas import topics as names

TEXT = files("coldnotify_kafka").joinpath("topics.yaml").read_text()


def by_name(specs: list[TopicSpec]) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in specs}


def edited(topic: str, key: str, value: object) -> str:
    """topics.yaml with one field of a topic (or one of its settings, if it has a dot) replaced."""
    document = yaml.safe_load(TEXT)
    entry = document["topics"][topic]
    (entry["settings"] if "." in key else entry)[key] = value
    return yaml.safe_dump(document)


def test_every_topic_is_there_as_designed() -> None:
    specs = by_name(load())
    assert {spec.name for spec in specs.values() if spec.co_partitioned} == set(names.CO_PARTITIONED)
    assert {specs[name].partitions for name in names.CO_PARTITIONED} == {co_partitions()} == {8}
    policies = {name: spec.settings["cleanup.policy"] for name, spec in specs.items()}
    compacted = {name for name, policy in policies.items() if policy == "compact"}
    state = {names.REGISTRATIONS, names.SESSIONS, names.CHANNELS_STATE}
    assert compacted == {names.OBJECTS, *state, names.TENANTS, names.VERDICTS, names.USAGE_STATE}
    assert {name for name, policy in policies.items() if policy == "compact,delete"} == {names.USAGE_HISTORY}
    day = 24 * 3600 * 1000
    assert specs[names.OBJECTS].settings["min.compaction.lag.ms"] == str(day)
    retention = {name: specs[name].settings["retention.ms"] for name in policies if name not in compacted}
    assert retention == {
        names.REQUESTS: str(day),
        names.NOTIFICATIONS: str(day // 24),
        names.REJECTED: str(7 * day),
        names.CHANNELS_1H: str(day // 24),
        names.CHANNELS_1D: str(day),
        names.CHANNELS_30D: str(30 * day),
        names.USAGE: str(2 * day),
        names.USAGE_HISTORY: str(400 * day),
    }


def test_the_order_of_tenants_records_is_one_order() -> None:
    specs = by_name(load(partitions=3))
    assert {specs[name].partitions for name in (names.TENANTS, names.VERDICTS, names.USAGE_HISTORY)} == {1}
    assert specs[names.USAGE].partitions == specs[names.USAGE_STATE].partitions == 8
    assert specs[names.USAGE].settings["message.timestamp.type"] == "LogAppendTime"


def test_partitions_can_be_given() -> None:
    specs = by_name(load(partitions=3))
    assert {specs[name].partitions for name in names.CO_PARTITIONED} == {3}
    assert specs[names.NOTIFICATIONS].partitions == 16
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
        (names.OBJECTS, "segment.byte", 1, "segment.byte: is no setting"),
        (names.OBJECTS, "segment.bytes", [1], r"segment.bytes: must be a number.*not \[1\]"),
        (names.OBJECTS, "cleanup.policy", "keep", "cleanup.policy: must be compact or delete"),
        (names.OBJECTS, "co_partitioned", False, "co_partitioned: must be true"),
        (names.REJECTED, "co_partitioned", True, "co_partitioned: must be false"),
        (names.OBJECTS, "partitions", 4, "partitions: a co-partitioned topic"),
        (names.REJECTED, "partitions", "many", "partitions: must be a whole number of at least 1, not 'many'"),
        (names.REJECTED, "partitions", True, "partitions: must be a whole number"),
        (names.REJECTED, "color", "red", "color: is not known here"),
        (names.REJECTED, "settings", 7, "settings: must be a mapping"),
    ],
)
def test_a_mistake_is_told_with_topic_and_key(topic: str, key: str, value: object, words: str) -> None:
    with pytest.raises(TopicsFileError, match=f"{topic}: {words}"):
        load(text=edited(topic, key, value))


def test_a_topic_too_many_or_too_few_is_told() -> None:
    document = yaml.safe_load(TEXT)
    document["topics"]["coldnotify.other"] = document["topics"].pop(names.REJECTED)
    with pytest.raises(TopicsFileError, match=r"coldnotify\.other: is no topic of ColdNotify's"):
        load(text=yaml.safe_dump(document))
    del document["topics"]["coldnotify.other"]
    with pytest.raises(TopicsFileError, match=rf"{names.REJECTED} is missing"):
        load(text=yaml.safe_dump(document))


@pytest.mark.parametrize(("text", "words"), [("a: [", "is not YAML"), ("7", "mapping"), ("a: 1", "a: is not known")])
def test_what_is_no_such_file_is_told(text: str, words: str) -> None:
    with pytest.raises(TopicsFileError, match=words):
        load(text=text)


PLANTED = "coldnotify.planted: {co_partitioned: true, settings: {cleanup.policy: compact}}"


def test_topics_of_jobs_are_as_many_partitions_as_the_others() -> None:
    *own, planted = load(3, 3, more=[PLANTED])
    assert own == load(3, 3)
    expected = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert planted == TopicSpec("coldnotify.planted", 3, 3, co_partitioned=True, settings=expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other.planted: {}", "other.planted: the name of a job's topic must begin with coldnotify."),
        ("coldnotify.objects: {}", "coldnotify.objects: the name of a job's topic"),
        ("coldnotify.planted: {partitions: 0}", "coldnotify.planted: partitions: must be a whole number"),
        ("[", "topics of a job: not YAML"),
        ("planted", "topics of a job: must be a mapping"),
    ],
)
def test_a_mistake_in_a_jobs_topics_is_told(text: str, words: str) -> None:
    with pytest.raises(TopicsFileError) as caught:
        load(more=[text])
    assert words in str(caught.value)
