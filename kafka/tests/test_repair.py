"""What a power cut leaves of Kafka's small files is found before a start, named, and mended with nothing lost."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.data_dir import ClusterFile, lock, write_cluster_file
from coldnotify_kafka.broker.repair import check_whole, damage_of, repair
from coldnotify_kafka.errors import DataDirectoryError, DataDirectoryInUseError
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")

TOPIC, PARTITIONS, RECORDS = "repair.test", 2, 50
META = "meta.properties"
DAMAGED = {
    # By file of the directory of records: what is left of it. None: it is not there.
    META: b"",
    "bootstrap.checkpoint": b"",
    "recovery-point-offset-checkpoint": bytes(99),
    "log-start-offset-checkpoint": bytes(9),
    "replication-offset-checkpoint": b"0\n7\nhalf 0 0\n",
    "__cluster_metadata-0/quorum-state": b'{"clusterId":"","leaderId":1,',
    "__cluster_metadata-0/leader-epoch-checkpoint": bytes(9),
    "__cluster_metadata-0/partition.metadata": b"",
    f"{TOPIC}-0/partition.metadata": None,
    f"{TOPIC}-0/leader-epoch-checkpoint": bytes(9),
    f"{TOPIC}-1/partition.metadata": b"version: 0\ntopic_id: ",
    "__consumer_offsets-0/partition.metadata": bytes(43),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of a node that has stopped in order, with records; and a topic that was made anew."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    with EmbeddedBroker(directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        logs = [directory / "records" / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]
        for name in (TOPIC, "gone.test"):
            admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(60)
        wait_for(lambda: all(log.exists() for log in logs), "the first topic's logs")
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        # The controller answers before the broker has taken it in, which may still write to the logs of that topic.
        wait_for(lambda: not any(log.exists() for log in logs), "the end of these logs")
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(60)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        for number in range(RECORDS):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(60) == 0
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "it's data"))


def config_of(data: Path) -> BrokerConfig:
    return BrokerConfig(data, 1, 1)


def leave(path: Path, content: bytes | None) -> None:
    path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.kafka
def test_damaged_files_are_named_repaired_and_kept_without_loss(data: Path) -> None:
    records = data / "records"
    before = {name: (records / name).read_bytes() for name in DAMAGED}
    for name, content in DAMAGED.items():
        leave(records / name, content)
    broker = EmbeddedBroker(data)
    with pytest.raises(DataDirectoryError, match=r"is damaged.*meta\.properties is empty.*and \d+ more") as caught:
        broker.start()
    assert f"coldnotify broker --repair --data '{data.parent}/it'\"'\"'s data'" in str(caught.value)
    assert {name: (records / name).exists() for name in DAMAGED} == {name: c is not None for name, c in DAMAGED.items()}

    done = repair(data)
    assert done.refused == []
    assert len(done.mended) == len(DAMAGED)
    for name, content in DAMAGED.items():
        assert any(line.startswith(f"{records / name} ") for line in done.mended)
        if content is not None:
            assert done.kept_in is not None
            assert (done.kept_in / name).read_bytes() == content
    for name in DAMAGED:
        if name.endswith("partition.metadata"):
            assert (records / name).read_bytes() == before[name], "the very id that it had"
    ids = [line for line in (records / META).read_text().splitlines() if not line.startswith("cluster.id")]
    assert ids == [line for line in before[META].decode().splitlines() if not line.startswith(("cluster.id", "#"))]
    assert damage_of(config_of(data)) == []
    assert repair(data).mended == []

    with broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "repair-test"})
        for partition in range(PARTITIONS):
            place = TopicPartition(TOPIC, partition, 0)
            assert consumer.get_watermark_offsets(place, 60) == (0, RECORDS)
            consumer.assign([place])
            values = [message.value() for message in consumer.consume(RECORDS, 60)]
            assert values == [b"%d" % number for number in range(RECORDS)]
        consumer.close()


@pytest.mark.kafka
def test_a_directory_with_a_missing_file_is_not_taken_for_new_or_foreign(data: Path) -> None:
    records = data / "records"
    cluster_id = (records / META).read_text()
    for name in (META, f"{TOPIC}-0/partition.metadata"):
        kept = (records / name).read_bytes()
        (records / name).unlink()
        with pytest.raises(DataDirectoryError, match="is missing"):
            EmbeddedBroker(data).start()
        assert not (records / name).exists()
        (records / name).write_bytes(kept)
    check_whole(config_of(data))
    # What is known of the cluster is kept.
    (records / META).write_text(cluster_id.replace("directory.id=", "directory="))
    assert "cluster's" in repair(data).mended[0]
    assert sorted((records / META).read_text().split()) == sorted(
        line for line in cluster_id.splitlines() if not line.startswith("#")
    )


@pytest.mark.kafka
def test_an_irreparable_file_is_refused_with_its_reason(data: Path) -> None:
    records = data / "records"
    stray = records / "no.such.topic-0"
    shutil.copytree(records / f"{TOPIC}-0", stray)
    (stray / "partition.metadata").unlink()
    done = repair(data)
    assert done.mended == []
    assert "knows no topic no.such.topic" in done.refused[0]
    shutil.rmtree(stray)
    for log in (records / "__cluster_metadata-0").glob("*.log"):
        log.write_bytes(b"")
    (records / META).write_bytes(b"")
    (line,) = repair(data).refused
    assert f"{records / META} is empty: " in line
    assert "cannot be read" in line
    assert (records / META).read_bytes() == b""


def test_a_repaired_node_of_three_cannot_vote_twice(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}" / "records" / "__cluster_metadata-0").mkdir(parents=True)
        (tmp_path / f"node-{number}" / "records" / META).write_text(
            f"version=1\ncluster.id={'c' * 22}\nnode.id={number}\ndirectory.id={'d' * 22}\n"
        )
    write_cluster_file(tmp_path, ClusterFile("c" * 22, (1, 2, 3)))
    path = tmp_path / "node-2" / "records" / "__cluster_metadata-0" / "quorum-state"
    path.write_bytes(b"")
    done = repair(tmp_path)
    assert done.mended == []
    assert done.refused[0].startswith(f"{path} is empty: ")
    assert "voted" in done.refused[0]
    assert path.exists()
    node = BrokerConfig(tmp_path / "node-2", 1, 1, node_id=2, voters={2: 1})
    with pytest.raises(DataDirectoryError, match=f"--repair --data {tmp_path}`"):
        check_whole(node)


def test_new_missing_and_used_directories_are_not_repaired(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="is not there"):
        repair(tmp_path / "none")
    assert repair(tmp_path).mended == []
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / META).write_bytes(b"")
    assert damage_of(config_of(tmp_path)) == [], "nothing was ever written there"
    held = lock(tmp_path)
    try:
        with pytest.raises(DataDirectoryInUseError):
            repair(tmp_path)
    finally:
        os.close(held)
