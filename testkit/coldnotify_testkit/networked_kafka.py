"""Three real Kafka nodes, each in a network of its own: any of them can be cut off, killed, and started again."""

import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.cluster import NODES
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.formatting import new_id
from coldnotify_kafka.broker.java import find_java
from coldnotify_kafka.broker.readiness import wait_until_registered
from coldnotify_kafka.errors import BrokerError

from coldnotify_testkit.networks import Networks
from coldnotify_testkit.waiting import wait_for

_JAVA = "COLDNOTIFY_JAVA"


@dataclass(frozen=True)
class NodeConfig(BrokerConfig):
    """A node's own address, and those of all controllers."""

    hosts: tuple[str, ...] = ()
    java: Path = Path()
    """A program that runs Java in the node's network."""

    @property
    def contact_host(self) -> str:
        """See BrokerConfig."""
        return self.hosts[self.node_id - 1]

    def server_properties(self) -> str:
        """Returns the properties of BrokerConfig, with these addresses in place of this machine's."""
        voters = ",".join(f"{node}@{self.hosts[node - 1]}:{port}" for node, port in sorted(self.voters.items()))
        lines = []
        for line in super().server_properties().splitlines():
            if line.startswith("controller.quorum.voters="):
                line = f"controller.quorum.voters={voters}"
            lines.append(line.replace(f"CONTROLLER://{self.controller_host}", f"CONTROLLER://{self.advertised_host}"))
        return "\n".join(lines) + "\n"


class NetworkedBroker(EmbeddedBroker):
    """A node in a network of its own."""

    config: NodeConfig

    def start(self) -> None:
        """See EmbeddedBroker."""
        with _java(self.config.java):
            super().start()

    @property
    def runs(self) -> bool:
        """True if it was started, and has not ended."""
        return self.running

    def check_alive(self) -> None:
        """Raises BrokerError, with the log's end, if it has ended."""
        if not self.running:
            raise BrokerError(f"node {self.config.node_id} has ended. Its log ends:\n{self.log_tail()}")

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        wait_for(lambda: not self.running, f"node {self.config.node_id} has ended")


class NetworkedKafka:
    """The three nodes, started. Node n is in network n."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        """`stack` ends them."""
        numbers = range(1, NODES + 1)
        self.networks = Networks(stack, numbers)
        hosts = tuple(map(self.networks.host, numbers))
        voters = {node: free_port() for node in numbers}
        cluster, java = new_id(), find_java().path
        self.brokers: dict[int, NetworkedBroker] = {}
        for node in numbers:
            wrapped = directory / f"java-{node}"
            wrapped.parent.mkdir(parents=True, exist_ok=True)
            words = shlex.join([*self.networks.command(node), str(java)])
            wrapped.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            wrapped.chmod(0o755)
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
                java=wrapped,
            )
            broker = NetworkedBroker.of(config)
            broker.start()
            stack.callback(broker.stop, 0)
            self.brokers[node] = broker

    @property
    def nodes(self) -> dict[int, str]:
        """Each node's host:port."""
        return {node: broker.bootstrap for node, broker in self.brokers.items()}

    @property
    def bootstrap(self) -> str:
        """The bootstrap.servers of clients: all nodes."""
        return ",".join(self.nodes.values())

    def wait_ready(self, timeout_s: float) -> None:
        """Returns once all nodes serve. Raises BrokerError's subclasses, NotReadyInTimeError."""
        deadline = time.monotonic() + timeout_s
        for node, broker in self.brokers.items():
            wait_until_registered(broker.config.contact_host, broker.port, node, deadline, broker.check_alive)
        self.brokers[1].wait_ready(timeout_s)


@contextmanager
def _java(path: Path) -> Iterator[None]:
    before = os.environ.get(_JAVA)
    os.environ[_JAVA] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_JAVA]
        else:
            os.environ[_JAVA] = before
