"""The embedded cluster: three real Kafka nodes on this machine, each a broker and controller with its own data."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_kafka.broker import data_dir as directories
from coldnotify_kafka.broker import jars
from coldnotify_kafka.broker.config import HEAP_MIB_DEFAULT, BrokerConfig
from coldnotify_kafka.broker.data_dir import ClusterFile
from coldnotify_kafka.broker.formatting import new_id
from coldnotify_kafka.broker.free_ports import free_port, reserve
from coldnotify_kafka.broker.node import READY_SECONDS_MAX, STOP_SECONDS_MAX, EmbeddedBroker, Startable
from coldnotify_kafka.broker.process import KILL_SECONDS_MAX
from coldnotify_kafka.broker.readiness import (
    NotReadyInTimeError,
    java_hash_code,
    quiet_admin,
    wait_until_ready,
    wait_until_registered,
)
from coldnotify_kafka.errors import BrokerError, BrokerNotReadyError, BrokerSettingError, DataDirectoryError

NODES = 3
"""The least that lose nothing and go on when any one dies. Five would survive two, and no machine alone is worth it."""

_MAJORITY = NODES // 2 + 1
_ALONE_SECONDS_MAX = 10.0
"""The last node in order needs 5 s, to lay down its vote. One that still has partitions to hand on asks the controllers
for that: once most of these are gone it would wait for five minutes, in vain."""
_ASK_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.05
_GROUPS_TOPIC = "__consumer_offsets"


class EmbeddedCluster(Startable):
    """Three Kafka nodes on directories node-1, node-2, node-3 of one data directory that survives restarts.

        with EmbeddedCluster(Path("data"), port=9092) as cluster:    # started and ready, on 9092, 9093, 9094
            connect_to(cluster.bootstrap)

    Any one node may die: another one has what was acknowledged, and continues. A dead node is not restarted
    automatically: `start_node` does that, also while the others run. The methods block; two threads may start different
    nodes.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        heap_mib: int = HEAP_MIB_DEFAULT,
        progress: jars.Progress | None = None,
    ) -> None:
        """Nothing is started or written yet. `port`: of node 1, the others take the next ones; 0: any free ones.

        `heap_mib` is each node's. Raises BrokerError's subclasses.
        """
        self.data_dir = Path(data_dir).absolute()
        directories.check_nodes(self.data_dir, NODES)
        if port > 65535 - NODES + 1:
            raise BrokerSettingError(f"--kafka-port: {port} leaves no room for {NODES} nodes with ports one by one")
        kept = directories.read_cluster_file(self.data_dir)
        taken: set[int] = set()
        ports = [_free(taken) if port == 0 else port + number for number in range(NODES)]
        taken.update(ports)
        controller_ports = [_kept_or_free(kept.controller_ports[i] if kept else 0, taken) for i in range(NODES)]
        self._file = ClusterFile(kept.cluster_id if kept else new_id(), tuple(controller_ports))
        self._lock: int | None = None
        voters = dict(enumerate(controller_ports, 1))
        self.nodes = {
            number: EmbeddedBroker.of(
                BrokerConfig(
                    data_dir=self.data_dir / f"node-{number}",
                    port=ports[number - 1],
                    controller_port=voters[number],
                    host=host,
                    advertised_host=advertised_host,
                    heap_mib=heap_mib,
                    node_id=number,
                    voters=voters,
                    cluster_id=self._file.cluster_id,
                ),
                progress,
            )
            for number in voters
        }
        """The nodes by number, from 1 on."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap.servers of clients: all nodes."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each node. Raises BrokerError before its first start."""
        return {number: node.pid for number, node in self.nodes.items()}

    def start(self) -> None:
        """Starts all nodes, without waiting until they are ready. Raises as start_node; then none is left running."""
        self._open()
        try:
            _in_parallel([node.start for node in self.nodes.values()])
        except BaseException:
            self.stop(timeout=0)
            raise

    def start_node(self, number: int) -> None:
        """Starts one node, without waiting; formats its directory if it is new. Raises as EmbeddedBroker.start."""
        self._open()
        self.nodes[number].start()

    def wait_ready(self, timeout: float = READY_SECONDS_MAX) -> None:
        """Returns once all nodes serve, and all group and transaction coordinators are loaded.

        `timeout` in seconds. Raises BrokerNotReadyError, with a log's tail, at the timeout or if a node ends.
        """
        deadline = time.monotonic() + timeout
        first = self.nodes[1]
        for number in self.nodes:
            self._wait(number, timeout, lambda number=number: self._wait_registered(number, deadline))  # type: ignore[misc]
        host, port = first.config.contact_host, first.config.port
        self._wait(1, timeout, lambda: wait_until_ready(host, port, deadline, self._check_alive))

    def wait_node_ready(self, number: int, timeout: float = READY_SECONDS_MAX) -> None:
        """Returns once one node serves as part of the cluster, whatever the others do. Raises as wait_ready."""
        deadline = time.monotonic() + timeout
        self._wait(number, timeout, lambda: self._wait_registered(number, deadline))

    def wait_in_sync(self, timeout: float = READY_SECONDS_MAX) -> None:
        """Returns once every node reports that all partitions have all their replicas in sync. Raises
        BrokerNotReadyError.

        One node's report is not enough: each learns of the others in its own time, and one that was just started may
        still report its state from before it ended.
        """
        deadline = time.monotonic() + timeout
        while lagging := self._lagging():
            if time.monotonic() > deadline:
                raise BrokerNotReadyError(f"not in sync within {timeout:g} s: {', '.join(lagging)}")
            time.sleep(_POLL_SECONDS)

    def out_of_sync(self) -> list[str]:
        """The partitions that have fewer replicas in sync than replicas, as any node sees it. Raises KafkaException."""
        configs = [node.config for node in self.nodes.values() if node.poll() is None]
        # A new client asks the node that it is given; later it would ask any.
        return sorted({name for at in configs for name in out_of_sync(quiet_admin(at.bootstrap))})

    def _lagging(self) -> list[str]:
        """Returns the same as out_of_sync; a node without an answer counts as lagging."""
        try:
            return self.out_of_sync()
        except KafkaException as error:
            return [f"a node does not say ({error})"]

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a topic's partition; None: none does. Raises KafkaException if nobody answers."""
        return leader(quiet_admin(self.bootstrap), topic, partition)

    def kill_node(self, number: int) -> None:
        """kill -9. Raises BrokerError if the process does not even end by that."""
        node = self.nodes[number]
        if node.poll() is None:
            os.kill(node.pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while node.poll() is None:
            if time.monotonic() > deadline:
                raise BrokerError(f"node {number} (pid {node.pid}) does not end, not even by SIGKILL")
            time.sleep(_POLL_SECONDS)

    def stop(self, timeout: float = STOP_SECONDS_MAX) -> None:
        """Asks all nodes to end, at once: each hands its partitions on while a majority of controllers still answers.

        The last node is killed if the majority is gone before its turn came. That loses nothing: it looks through
        its open logs at the next start. After `timeout` seconds all that is left is killed. Raises BrokerError if one
        cannot even be killed.
        """
        try:
            deadline = time.monotonic() + timeout
            for node in self.nodes.values():
                node.ask_to_stop()
            self._wait_ended(deadline, at_most=_MAJORITY - 1)
            self._wait_ended(min(deadline, time.monotonic() + _ALONE_SECONDS_MAX), at_most=0)
            _in_parallel([lambda node=node: node.stop(0) for node in self.nodes.values()])  # type: ignore[misc]
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _open(self) -> None:
        """Takes the data directory, and writes down what the nodes have in common before any of them is formatted."""
        if self._lock is not None:
            return
        lock = directories.lock(self.data_dir)
        try:
            # Somebody may have made something of it since this object was made.
            directories.check_nodes(self.data_dir, NODES)
            there = directories.read_cluster_file(self.data_dir)
            if there is not None and there.cluster_id != self._file.cluster_id:
                raise DataDirectoryError(f"data directory {self.data_dir} has become another cluster's meanwhile")
            directories.write_cluster_file(self.data_dir, self._file)
        except OSError as error:
            os.close(lock)
            raise DataDirectoryError(f"data directory {self.data_dir} cannot be used: {error}") from error
        except DataDirectoryError:
            os.close(lock)
            raise
        self._lock = lock

    def _wait_ended(self, deadline: float, *, at_most: int) -> None:
        """Returns once at most so many nodes run, or at the deadline."""
        while sum(node.running for node in self.nodes.values()) > at_most and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _wait_registered(self, number: int, deadline: float) -> None:
        node = self.nodes[number]
        wait_until_registered(
            node.config.contact_host, node.config.port, number, deadline, lambda: self._check_node_alive(number)
        )

    def _wait(self, number: int, timeout: float, wait: Callable[[], None]) -> None:
        try:
            wait()
        except NotReadyInTimeError as error:
            raise BrokerNotReadyError(
                f"node {number} was not ready within {timeout:g} s ({error}). Its log ends:\n"
                f"{self.nodes[number].log_tail()}"
            ) from None

    def _check_alive(self) -> None:
        for number in self.nodes:
            self._check_node_alive(number)

    def _check_node_alive(self, number: int) -> None:
        node = self.nodes[number]
        if (status := node.poll()) is not None:
            raise BrokerNotReadyError(
                f"node {number} ended by itself (status {status}). Its log ends:\n{node.log_tail()}"
            )


def leader(admin: AdminClient, topic: str, partition: int) -> int | None:
    """The id of the node that leads a topic's partition; None: none does. Raises KafkaException if nobody answers."""
    found = admin.list_topics(topic, timeout=_ASK_SECONDS_MAX).topics[topic].partitions.get(partition)
    return None if found is None or found.leader < 0 else int(found.leader)


def coordinator(admin: AdminClient, group: str) -> int | None:
    """The id of the node that coordinates a consumer group; None: none does. Raises KafkaException."""
    partitions = len(admin.list_topics(_GROUPS_TOPIC, timeout=_ASK_SECONDS_MAX).topics[_GROUPS_TOPIC].partitions)
    return leader(admin, _GROUPS_TOPIC, abs(java_hash_code(group)) % partitions) if partitions else None


def out_of_sync(admin: AdminClient) -> list[str]:
    """The partitions that have fewer replicas in sync than replicas, as topic/number; one node's word for it.

    Raises KafkaException.
    """
    topics: dict[str, Any] = admin.list_topics(timeout=_ASK_SECONDS_MAX).topics
    return [
        f"{name}/{number}"
        for name, topic in sorted(topics.items())
        for number, partition in topic.partitions.items()
        if len(partition.isrs) < len(partition.replicas)
    ]


def _in_parallel(calls: Sequence[Callable[[], object]]) -> None:
    """Runs all calls to their end, then raises the first error, if any."""
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = [pool.submit(call) for call in calls]
    for answer in answers:
        answer.result()


def _free(taken: set[int]) -> int:
    while (port := free_port()) in taken:
        pass
    taken.add(port)
    return port


def _kept_or_free(kept: int, taken: set[int]) -> int:
    """The controllers' ports concern nobody else: one that another program took meanwhile is simply changed."""
    if kept and kept not in taken and reserve(kept, BrokerConfig.controller_host):
        taken.add(kept)
        return kept
    return _free(taken)
