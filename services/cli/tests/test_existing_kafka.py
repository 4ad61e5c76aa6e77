"""`coldnotify up --kafka`: what it creates in a Kafka that is there, what it leaves alone, and what it says of both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_cli import parts_in_kafka
from coldnotify_cli.existing_kafka import ExistingKafka, KafkaNotUsable
from coldnotify_cli.settings import UpSettings
from coldnotify_common.stop import StopFlag
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.kafka import delete_topics
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

NOWHERE = "127.0.0.1:1"
ACME = TopicNames("acme.")


@pytest.fixture
def acme(kafka: EmbeddedBroker) -> Iterator[str]:
    """A Kafka with topics of others; those of acme. are gone at the end."""
    yield kafka.bootstrap
    delete_topics(kafka.bootstrap, ACME)


def prepared(kafka: str, **settings: object) -> list[str]:
    """Prepares the Kafka; returns the lines that this logs."""
    up = UpSettings(kafka=kafka, topics_prefix="acme.", **{"partitions": 2, **settings})  # type: ignore[arg-type]
    specs = parts_in_kafka.topics(up.partitions or None, up.replication, up.topics)
    with capture_logs() as logs:
        ExistingKafka(up, specs).prepare(StopFlag())
    return [f"{line['log_level']}: {line['event']} {line.get('topic', '')}".strip() for line in logs]


@pytest.mark.kafka
def test_missing_topics_are_created_and_all_others_left_as_they_are(acme: str) -> None:
    admin = AdminClient({"bootstrap.servers": acme})
    before = set(admin.list_topics(timeout=60).topics)

    lines = prepared(acme)

    assert {f"info: topic created {topic}" for topic in ACME.all} == set(lines[1:])
    assert set(admin.list_topics(timeout=60).topics) == before | set(ACME.all)
    admin.delete_topics([ACME.usage])[ACME.usage].result(60)
    assert prepared(acme)[1:] == [f"info: topic created {ACME.usage}"]
    assert prepared(acme)[1:] == []


@pytest.mark.kafka
def test_differences_are_named_as_by_doctor_and_not_changed(acme: str) -> None:
    plan = ("--kafka", acme, "--topics-prefix=acme.", "--partitions=2")
    prepared(acme)
    coldnotify("kafka-tool", "configs", "--bootstrap-server", acme, "--alter", "--topic", ACME.rejected,
               "--add-config", "retention.ms=1000")  # fmt: skip
    (change,) = coldnotify("topics", "plan", *plan).stdout.splitlines()
    assert change.startswith(f"~ {ACME.rejected}: retention.ms: 1000 ->")

    assert prepared(acme)[1:] == [f"warning: {change}"]
    assert coldnotify("topics", "plan", *plan).stdout.splitlines() == [change], "it is as it was"


@pytest.mark.kafka
def test_another_number_of_partitions_is_told_with_its_setting_and_nothing_is_created(acme: str) -> None:
    admin = AdminClient({"bootstrap.servers": acme})
    prepared(acme)
    admin.delete_topics([ACME.sessions])[ACME.sessions].result(60)
    with pytest.raises(KafkaNotUsable, match=r"^COLDNOTIFY_PARTITIONS / --partitions: nothing was changed"):
        prepared(acme, partitions=3)
    assert ACME.sessions not in admin.list_topics(timeout=60).topics
    with pytest.raises(KafkaNotUsable, match=r"^--replication .*: 3 copies of each partition need as many brokers"):
        prepared(acme, replication=3)


def test_nobody_answers_is_told_with_the_setting(tmp_path: Path) -> None:
    up = ("up", f"--data={tmp_path}", "--kafka", NOWHERE, "--up-ready-timeout-s=1")
    done = coldnotify(*up, gateway_port="0", http_port="0", matcher_port="0")
    assert done.returncode == 1
    assert f"COLDNOTIFY_KAFKA / --kafka: nobody answers at {NOWHERE} within 1 s" in done.stderr
    assert not (tmp_path / "meta.properties").exists()


def test_settings_that_cannot_be_are_told(tmp_path: Path) -> None:
    config = tmp_path / "kafka.properties"
    config.write_text("security.protokol=SSL\n")
    for flags, words in (
        (("--kafka-nodes=3",), "COLDNOTIFY_KAFKA_NODES / --kafka-nodes: 3 is for the embedded Kafka"),
        ((f"--kafka-config={config}",), "COLDNOTIFY_KAFKA_CONFIG / --kafka-config"),
        (("--topics-prefix=acme",), "COLDNOTIFY_TOPICS_PREFIX / --topics-prefix: 'acme' must end with"),
    ):
        done = coldnotify("up", f"--data={tmp_path}", "--kafka", NOWHERE, *flags, gateway_port="0", http_port="0",
                          matcher_port="0")  # fmt: skip
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_preparing_stops_waiting_for_kafka_on_request() -> None:
    stop = StopFlag()
    stop.set()
    ExistingKafka(UpSettings(kafka=NOWHERE), parts_in_kafka.topics(None, 1, ACME)).prepare(stop)
