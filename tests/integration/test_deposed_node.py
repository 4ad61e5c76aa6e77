"""Three nodes of Kafka in networks of their own. One that is cut off from the two others goes on answering who asks it:
nobody is wrong about their freshness by more than 15 s.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher, PublishError
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.formatting import new_id
from coldnotify_kafka.broker.java import find_java
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import RunningCommand, coldnotify, http_status
from coldnotify_testkit.fresh_judge import FreshJudge, JudgedClient
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for

_MAKES_NETWORKS = shutil.which("ip") is not None and not subprocess.call(
    ["unshare", "-n", "true"], stderr=subprocess.DEVNULL
)

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.own_broker("stops nodes of three"),
    pytest.mark.skipif(not _MAKES_NETWORKS, reason="makes networks: as root, by iproute2"),
]

DOMAIN, GROUP, OBJECT = "animal.observer", "region-1", "camera-config"
NODES = (1, 2, 3)
PARTITIONS = 2
DEPOSED_S = 15.0
READY_S = 200.0
TOPICS = TopicNames()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Networks:
    """A bridge, and a network namespace for each node."""

    def __init__(self, stack: ExitStack) -> None:
        self._tag = f"cn{os.getpid() % 10_000}"
        self._net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        bridge = f"{self._tag}b"
        ip("link", "add", bridge, "type", "bridge")
        stack.callback(ip, "link", "del", bridge)
        ip("addr", "add", f"{self._net}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for node in NODES:
            name, link = self.name(node), f"{self._tag}v{node}"
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", link, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"{self.host(node)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def name(self, node: int) -> str:
        """Returns the name of the node's network."""
        return f"{self._tag}n{node}"

    def host(self, node: int) -> str:
        """Returns the node's address."""
        return f"{self._net}.{node}"

    @contextmanager
    def cut(self, node: int) -> Iterator[None]:
        """Drops all that passes between the node and the others."""
        pairs = [(node, other) for other in NODES if other != node]
        pairs += [(other, node) for other in NODES if other != node]
        for one, other in pairs:
            ip("-n", self.name(one), "route", "add", "blackhole", f"{self.host(other)}/32")
        try:
            yield
        finally:
            for one, other in pairs:
                ip("-n", self.name(one), "route", "del", "blackhole", f"{self.host(other)}/32")


@dataclass(frozen=True)
class NodeConfig(BrokerConfig):
    """A node's own address, and those of all controllers."""

    hosts: tuple[str, ...] = ()

    def server_properties(self) -> str:
        """Returns the properties of BrokerConfig, with these addresses in place of this machine's."""
        voters = ",".join(f"{node}@{self.hosts[node - 1]}:{port}" for node, port in sorted(self.voters.items()))
        lines = []
        for line in super().server_properties().splitlines():
            if line.startswith("controller.quorum.voters="):
                line = f"controller.quorum.voters={voters}"
            lines.append(line.replace(f"CONTROLLER://{self.controller_host}", f"CONTROLLER://{self.advertised_host}"))
        return "\n".join(lines) + "\n"


class Kafka:
    """The three nodes."""

    def __init__(self, stack: ExitStack, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.networks = Networks(stack)
        hosts = tuple(map(self.networks.host, NODES))
        voters = {node: free_port() for node in NODES}
        cluster, java = new_id(), find_java().path
        self.nodes: dict[int, str] = {}
        """Each node's host:port."""
        for node in NODES:
            config = NodeConfig(
                directory / f"node-{node}",
                free_port(),
                voters[node],
                host="0.0.0.0",
                advertised_host=hosts[node - 1],
                node_id=node,
                voters=voters,
                cluster_id=cluster,
                hosts=hosts,
            )
            home = directory / f"java-{node}"
            (home / "bin").mkdir(parents=True)
            wrapped = f'#!/bin/sh\nexec ip netns exec {self.networks.name(node)} {java} "$@"\n'
            (home / "bin" / "java").write_text(wrapped)
            (home / "bin" / "java").chmod(0o755)
            monkeypatch.setenv("JAVA_HOME", str(home))
            broker = EmbeddedBroker.of(config)
            broker.start()
            stack.callback(broker.stop, 0)
            self.nodes[node] = f"{hosts[node - 1]}:{config.port}"
        monkeypatch.delenv("JAVA_HOME")

    @property
    def bootstrap(self) -> str:
        """The bootstrap.servers of clients: all nodes."""
        return ",".join(self.nodes.values())

    def leader(self, by: str) -> int | None:
        """Returns the node that leads the group's objects, by the node at this address."""
        found = quiet_admin(by).list_topics(TOPICS.objects, timeout=10).topics[TOPICS.objects]
        leader = found.partitions[partition_of(DOMAIN, GROUP, PARTITIONS)].leader
        return None if leader < 0 else leader


def test_a_node_that_was_deposed_makes_nobody_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        kafka = Kafka(stack, tmp_path / "kafka", monkeypatch)

        def applied() -> bool:
            words = ("topics", "apply", "--replication", "3", "--partitions", str(PARTITIONS))
            return coldnotify(*words, kafka=kafka.bootstrap).returncode == 0

        wait_for(applied, "the topics are there", READY_S)
        port, http_port, matcher_port = free_port(), free_port(), free_port()
        ports = {"gateway_port": str(port), "gateway_http_port": str(http_port), "gateway_web_port": str(free_port())}
        services = {"matcher": {"matcher_port": str(matcher_port)}, "gateway": ports}
        for name, settings in services.items():
            log = tmp_path / f"{name}.log"
            stack.enter_context(RunningCommand(log, name, kafka=kafka.bootstrap, **settings))
        ready = [matcher_port, http_port]
        wait_for(lambda: all(http_status(one, "/readyz") == 200 for one in ready), "all are ready", READY_S)

        recorder, acknowledged = Recorder(), list[tuple[float, int]]()
        connection = Connection("127.0.0.1", port, keepalive_s=2, fresh_s=60)
        notify = Notify(DOMAIN, GROUP, "ou", State(None), connection)
        notify.register(OBJECT).subscribe(recorder)
        notify.connect()
        stack.callback(notify.disconnect)
        wait_for(lambda: notify.caught_up, "it is caught up", READY_S)
        one = JudgedClient(notify, 60.0, lambda: recorder.newest(OBJECT) or 0, acknowledged, grace_s=DEPOSED_S)
        stack.enter_context(FreshJudge(one))

        deposed = wait_for(lambda: kafka.leader(kafka.bootstrap), "there is a leader", READY_S)
        others = ",".join(address for node, address in kafka.nodes.items() if node != deposed)
        stopping = threading.Event()

        def publish() -> None:
            version = 0
            with Publisher(others, timeout_s=20) as publisher:
                while not stopping.wait(0.1):
                    version += 1
                    try:
                        publisher.publish(DOMAIN, GROUP, OBJECT, version=version)
                    except PublishError:
                        continue
                    acknowledged.append((time.time(), version))

        thread = threading.Thread(target=publish)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stopping.set)
        wait_for(lambda: one.told() > 5, "it is told", READY_S)
        with kafka.networks.cut(deposed):
            cut_at = time.time()
            wait_for(lambda: kafka.leader(others) not in (None, deposed), "another one leads", READY_S)
            wait_for(lambda: acknowledged[-1][0] > cut_at + 5, "publishing goes on", READY_S)
            wait_for(lambda: one.as_of > cut_at + DEPOSED_S, f"fresh as of a later time; {one.faults[:3]}", READY_S)
            took_s = time.time() - cut_at
        wait_for(lambda: one.as_of > cut_at + took_s + 5, "and so it is with all nodes again", READY_S)
        late = [said.at - said.as_of for said in one.samples if said.as_of is not None]
        print(f"cut for {took_s:.0f} s; {len(acknowledged)} acknowledged, oldest fresh_as_of {max(late):.1f} s ago")
