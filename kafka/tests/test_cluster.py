import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedCluster
from coldnotify_kafka.broker.cluster import coordinator, leader
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_kafka.errors import BrokerSettingError, DataDirectoryInUseError
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")

TOPIC = "coldnotify.objects"
READY_S = 200.0
"""Three JVMs start at once; a busy machine must not fail a test."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Three nodes that have not been started; whatever became of them, they are stopped afterwards."""
    cluster = EmbeddedCluster(tmp_path / "kafka data")
    yield cluster
    cluster.stop(timeout=0)


def write(cluster: EmbeddedCluster, *values: bytes) -> None:
    """Acknowledged by all replicas in sync when this returns."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(TOPIC, value, key=b"k", partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(120) == 0
    assert failures == [None] * len(values)


def read(cluster: EmbeddedCluster, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "cluster-test", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []

    def more() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is None or isinstance(value, bytes)
            values.append(value)
        return len(values) >= count

    wait_for(more, f"{count} records", 120)
    consumer.close()
    return values


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_dead_leader_is_replaced_and_three_dead_nodes_carry_on(cluster: EmbeddedCluster) -> None:
    cluster.start()
    cluster.wait_ready(READY_S)
    admin = quiet_admin(cluster.bootstrap)
    topic_plan.apply(admin, topics.load(replication_factor=3), timeout=READY_S)
    for name in (TOPIC, "__consumer_offsets", "__transaction_state"):
        found = admin.list_topics(name, timeout=60).topics[name].partitions
        assert {len(partition.replicas) for partition in found.values()} == {3}, name
        [settings] = [
            answer.result(60) for answer in admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        ]
        assert settings["min.insync.replicas"].value == "2", name
        assert settings["unclean.leader.election.enable"].value == "false", name
    assert coordinator(admin, "any-group") in cluster.nodes

    write(cluster, b"one", b"two")
    dead = cluster.leader(TOPIC, 0)
    assert dead is not None
    cluster.kill_node(dead)
    assert cluster.nodes[dead].poll() == -signal.SIGKILL
    write(cluster, b"three")
    # Each node learns of it in its own time.
    wait_for(lambda: leader(admin, TOPIC, 0) not in (None, dead), "another leader", READY_S)
    wait_for(lambda: f"{TOPIC}/0" in cluster.out_of_sync(), "one replica less", READY_S)

    cluster.start_node(dead)
    cluster.wait_node_ready(dead, READY_S)
    cluster.wait_in_sync(READY_S)
    assert cluster.out_of_sync() == []

    # All at once, as when whoever started them is killed.
    for number in cluster.nodes:
        cluster.kill_node(number)
    bootstrap = cluster.bootstrap
    cluster.start()
    cluster.wait_ready(READY_S)
    cluster.wait_in_sync(READY_S)
    assert cluster.bootstrap == bootstrap
    assert read(cluster, 3) == [b"one", b"two", b"three"]

    with pytest.raises(DataDirectoryInUseError):
        EmbeddedCluster(cluster.data_dir).start()
    cluster.stop(READY_S)
    # 143 is Java's way to say SIGTERM: each ended in order, but for one whose turn came when the majority was gone.
    ended = sorted(node.poll() or 0 for node in cluster.nodes.values())
    assert ended[0] in (128 + signal.SIGTERM, -signal.SIGKILL)
    assert ended[1:] == [128 + signal.SIGTERM] * 2

    # Another object, as in another process: the controllers' ports are kept, the brokers' are chosen anew.
    again = EmbeddedCluster(cluster.data_dir)
    assert [node.config.voters for node in again.nodes.values()] == [cluster.nodes[1].config.voters] * 3
    again.start()
    try:
        again.wait_ready(READY_S)
        assert read(again, 3) == [b"one", b"two", b"three"]
        # Alone it could hand nothing on: it would wait for five minutes.
        again.kill_node(1)
        again.kill_node(2)
    finally:
        began = time.monotonic()
        again.stop(timeout=200)
    assert time.monotonic() - began < 100
    assert again.nodes[3].poll() == -signal.SIGKILL


def test_a_clusters_ports_are_consecutive_or_all_free(tmp_path: Path) -> None:
    assert EmbeddedCluster(tmp_path, 9092).bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    free = EmbeddedCluster(tmp_path)
    ports = [port for node in free.nodes.values() for port in (node.port, node.config.controller_port)]
    assert len(set(ports)) == 6
    assert not list(tmp_path.iterdir()), "nothing is written before the start"
    with pytest.raises(BrokerSettingError, match="--kafka-port: 65534 leaves no room"):
        EmbeddedCluster(tmp_path, 65534)
