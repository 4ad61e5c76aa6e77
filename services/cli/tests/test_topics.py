import json
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.command import coldnotify
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.mark.kafka
def test_plan_shows_apply_makes_and_then_there_is_nothing_to_change(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    admin.delete_topics(["coldnotify.rejected"])["coldnotify.rejected"].result(60)
    planned = coldnotify("topics", "plan", kafka=fresh_kafka.bootstrap)
    assert planned.returncode == 0
    assert planned.stdout.startswith("+ coldnotify.rejected: create")
    (change,) = json.loads(coldnotify("topics", "plan", "--json", kafka=fresh_kafka.bootstrap).stdout)["changes"]
    assert (change["kind"], change["spec"]["name"]) == ("create", "coldnotify.rejected")
    assert coldnotify("topics", "apply", "--kafka", fresh_kafka.bootstrap).stdout == planned.stdout
    assert coldnotify("topics", "plan", kafka=fresh_kafka.bootstrap).stdout == "nothing to change\n"


@pytest.mark.kafka
def test_a_change_that_would_lose_data_is_refused(fresh_kafka: EmbeddedBroker) -> None:
    for verb in ("plan", "apply"):
        done = coldnotify("topics", verb, "--partitions", "3", kafka=fresh_kafka.bootstrap)
        assert done.returncode == 1
        assert "coldnotify.objects: partitions" in done.stdout + done.stderr
        assert "is refused" in done.stdout + done.stderr
    done = coldnotify("topics", "plan", "--json", "--partitions", "3", kafka=fresh_kafka.bootstrap)
    assert done.returncode == 1
    refusals = json.loads(done.stdout)["refusals"]
    assert {(one["kind"], one["key"], one["new"]) for one in refusals} == {("refusal", "partitions", "3")}


@pytest.mark.kafka
def test_other_peoples_topics_are_left_alone(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    admin.create_topics([NewTopic("theirs", num_partitions=1)])["theirs"].result(60)
    try:
        assert coldnotify("topics", "plan", kafka=fresh_kafka.bootstrap).stdout == "nothing to change\n"
    finally:
        admin.delete_topics(["theirs"])["theirs"].result(60)


@pytest.mark.kafka
def test_more_copies_than_brokers_is_told_with_the_setting(fresh_kafka: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    ours = [name for name in admin.list_topics(timeout=60).topics if name.startswith("coldnotify.")]
    for answer in admin.delete_topics(ours).values():
        answer.result(60)
    for verb in ("plan", "apply"):
        done = coldnotify("topics", verb, "--replication", "3", kafka=fresh_kafka.bootstrap)
        assert done.returncode == 1
        assert "--replication (COLDNOTIFY_REPLICATION): 3 copies" in done.stderr
        assert "1 answers" in done.stderr
    assert not [name for name in admin.list_topics(timeout=60).topics if name.startswith("coldnotify.")]


@pytest.mark.kafka
def test_a_dump_of_a_kafka_without_channels_says_so(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    admin.delete_topics(["coldnotify.channels.1h"])["coldnotify.channels.1h"].result(60)
    done = coldnotify("topics", "dump", str(tmp_path / "dump"), kafka=fresh_kafka.bootstrap)
    assert done.returncode == 0, done.stderr
    assert "coldnotify.channels.1h  does not exist\n" in done.stdout
    assert "coldnotify.channels.1d  0 records\n" in done.stdout
    admin.delete_topics(["coldnotify.sessions"])["coldnotify.sessions"].result(60)
    done = coldnotify("topics", "dump", str(tmp_path / "another"), kafka=fresh_kafka.bootstrap)
    assert (done.returncode, "coldnotify.sessions does not exist" in done.stderr) == (1, True), done.stderr
