"""Three Kafka nodes, and the one that matters is killed under load: nothing is lost, and publishing goes on."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher, PublishError
from coldnotify_kafka.broker import EmbeddedCluster, free_port
from coldnotify_kafka.broker.cluster import coordinator
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import RunningCommand, coldnotify
from coldnotify_testkit.stack import Recorder, get_json, running
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600), pytest.mark.own_broker("stops and kills nodes of three")]

DOMAIN, GROUP = "animal.observer", "region-1"
CLIENTS = {"observer-1": ("a", "b"), "observer-2": ("b", "c")}
STALL_S_MAX = 45.0
"""How long publishing may stand still: the controller misses a node after 3 s, and electing takes 1 to 3 s more; the
rest is for a machine that is busy with other things."""
TOLD_S_MAX = 60.0
"""Until clients have what was published since: as above, and a matcher that lost its group's coordinator loads anew."""
READY_S = 200.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Three nodes with the topics; nobody starts a dead one again but the test."""
    with ExitStack() as stack:
        one = EmbeddedCluster(tmp_path / "kafka")
        stack.callback(one.stop)
        one.start()
        one.wait_ready(READY_S)
        done = coldnotify("topics", "apply", "--replication", "3", kafka=one.bootstrap)
        assert done.returncode == 0, done.stderr
        yield one


class Load(threading.Thread):
    """Publishes rising versions of objects in turn until stopped; knows which were acknowledged, and when."""

    def __init__(self, kafka: str) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self._stopping = threading.Event()
        self.acknowledged: list[tuple[str, int]] = []
        self.failed = 0
        self.stall_s = 0.0

    def run(self) -> None:
        version = 0
        last_s = time.monotonic()
        with Publisher(kafka=self._kafka, timeout_s=60) as publisher:
            while not self._stopping.wait(0.01):
                version += 1
                name = "abc"[version % 3]
                try:
                    publisher.publish(DOMAIN, GROUP, name, version=version)
                except PublishError:
                    self.failed += 1  # indeterminate: neither owed nor forbidden
                    continue
                self.acknowledged.append((name, version))
                now_s = time.monotonic()
                self.stall_s, last_s = max(self.stall_s, now_s - last_s), now_s

    def newest(self) -> dict[str, int]:
        """Of each object, the newest version that was acknowledged."""
        return dict(self.acknowledged)

    def stop(self) -> None:
        self._stopping.set()
        self.join(120)
        assert not self.is_alive()


def test_the_leader_is_killed_under_load(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    admin = quiet_admin(cluster.bootstrap)
    partition = partition_of(
        DOMAIN, GROUP, len(admin.list_topics(TOPICS.objects, timeout=60).topics[TOPICS.objects].partitions)
    )
    victims: dict[str, Callable[[], int | None]] = {
        "leader of objects": lambda: cluster.leader(TOPICS.objects, partition),
        "leader of requests": lambda: cluster.leader(TOPICS.requests, partition),
        "coordinator of the matchers' group": lambda: coordinator(admin, "coldnotify-matcher"),
        "leader of the gateway's inbox": lambda: cluster.leader(TOPICS.notifications, inbox()),
    }
    ports = {
        name: str(free_port()) for name in ("matcher_port", "gateway_port", "gateway_web_port", "gateway_http_port")
    }

    def inbox() -> int:
        return int(get_json(f"http://127.0.0.1:{ports['gateway_http_port']}/v1/gateway")["inbox"])

    recorders = {(client, name): Recorder() for client, names in CLIENTS.items() for name in names}
    with ExitStack() as stack:
        for name, port in (("matcher", "matcher_port"), ("gateway", "gateway_http_port")):
            part = stack.enter_context(RunningCommand(tmp_path / name, name, kafka=cluster.bootstrap, **ports))
            part.wait_port_ready(int(ports[port]))
        for client, names in CLIENTS.items():
            ou = Notify(
                domain=DOMAIN,
                group_id=GROUP,
                client_id=client,
                state=State(filename=str(tmp_path / f"{client}.json")),
                connection=Connection(address="127.0.0.1", port=int(ports["gateway_port"])),
            )
            stack.callback(ou.disconnect)
            ou.connect()
            for name in names:
                ou.register(name).subscribe(recorders[client, name])
        load = Load(cluster.bootstrap)
        load.start()

        def all_reach(goals: dict[str, int]) -> bool:
            return all(told.reaches(name, goals[name])() for (_, name), told in recorders.items())

        def more() -> dict[str, int]:
            """The newest of each object once thirty more publishes were acknowledged."""
            goal = len(load.acknowledged) + 30
            wait_for(lambda: len(load.acknowledged) >= goal, "publishing goes on")
            return load.newest()

        goals = more()
        wait_for(partial(all_reach, goals), "the clients are told")
        while victims:
            nodes = {what: victim() for what, victim in victims.items()}
            node = next(iter(nodes.values()))
            assert node is not None
            # With it dies all that it is.
            hit = [what for what, its in nodes.items() if its == node]
            victims = {what: victim for what, victim in victims.items() if what not in hit}
            what = " and ".join(hit)
            load.stall_s = 0.0
            killed_s = time.monotonic()
            cluster.kill_node(node)
            goals = more()
            wait_for(partial(all_reach, goals), f"the clients are told, {what} is dead", TOLD_S_MAX)
            told_s = time.monotonic() - killed_s
            assert cluster.nodes[node].poll() is not None, "all that went on without it"
            print(
                f"\n{what} (node {node}): publishing stood still {load.stall_s:.1f} s, 30 more told in {told_s:.1f} s"
            )
            assert load.stall_s < STALL_S_MAX
            cluster.start_node(node)
            cluster.wait_node_ready(node, READY_S)
            cluster.wait_in_sync(READY_S)
        load.stop()
        wait_for(lambda: all_reach(load.newest()), "the clients end on the newest")
    written = written_versions(cluster, partition)
    assert [lost for lost in load.acknowledged if lost not in written] == []
    for (client, name), told in recorders.items():
        versions = [version for version in told.versions(name) if version is not None]
        assert versions == sorted(set(versions)), f"{client}, {name}: never backwards, nothing twice"
        assert all((name, version) in written for version in versions), f"{client}, {name}: nothing invented"
    print(f"{len(load.acknowledged)} publishes acknowledged, {load.failed} not, none lost")


def written_versions(cluster: EmbeddedCluster, partition: int) -> set[tuple[str, int]]:
    """All that the partition of objects holds; nothing in it is old enough to be compacted."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "from-outside", "log_level": 0})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPICS.objects, partition), timeout=60)
        consumer.assign([TopicPartition(TOPICS.objects, partition, low)])
        found = set()
        while consumer.position([TopicPartition(TOPICS.objects, partition)])[0].offset < high:
            message = consumer.poll(60)
            assert message is not None, "no record within 60 s"
            assert message.error() is None
            found.add(
                ((message.key() or b"").decode().rpartition("/")[2], json.loads(message.value() or b"")["version"])
            )
        return found
    finally:
        consumer.close()


def test_everything_on_three_nodes_by_one_command(tmp_path: Path) -> None:
    with running(tmp_path, "--kafka-nodes=3") as up:
        assert set(up.report["pids"]) == {"broker-1", "broker-2", "broker-3", "matcher", "gateway", "http", "usage"}
        assert len(up.kafka.split(",")) == 3
        done = coldnotify("topics", "plan", "--replication=3", kafka=up.kafka)
        assert done.stdout == "nothing to change\n", done.stderr
        with Publisher(kafka=up.kafka, timeout_s=60) as publisher:
            publisher.publish(DOMAIN, GROUP, "a", version=1)
            pids = up.kill("broker-1")
            publisher.publish(DOMAIN, GROUP, "a", version=2)
            up.wait_ready(other_than=pids)
            assert {name for name in pids if pids[name] != up.report["pids"][name]} == {"broker-1"}
        told = Recorder()
        host, port = up.gateway
        with Notify(
            domain=DOMAIN,
            group_id=GROUP,
            client_id="late",
            state=State(filename=None),
            connection=Connection(host, port),
        ) as ou:
            ou.register("a").subscribe(told)
            wait_for(lambda: told.newest("a") == 2, "told")
        assert up.stop() == 0
        with pytest.raises(AssertionError, match="was made for 3 nodes"), running(tmp_path):
            pass
