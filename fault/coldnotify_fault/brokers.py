"""Kafka as parts to be killed, paused, cut off and restarted: one node, or three, each behind a proxy."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster
from coldnotify_kafka.broker.free_ports import free_row
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_kafka.errors import BrokerError
from coldnotify_testkit.proxy import Network, Proxy
from confluent_kafka import KafkaException

from coldnotify_fault.schedule import broker_names

_BROKER_HOST = "127.0.0.2"
_KAFKA_HOST = "127.0.0.3"
"""The address that each node advertises to its clients and to the other nodes, on its own port: its proxy listens
there.

Only the controllers bypass it: they do not miss a node that is cut off.
"""
_CONNECT_S = 2.0
_READY_S = 5.0
"""For a node that listens: its coordinators are about to be loaded, or the cluster to count it in."""


class Broker:
    """One Kafka node, with the verbs of a service."""

    def __init__(self, node: EmbeddedBroker, start: Callable[[], None], serves: Callable[[], bool]) -> None:
        """`start` does not wait; `serves` is asked once the node listens, and may raise what Kafka's clients raise."""
        self._node = node
        self._start = start
        self._serves = serves
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it; does not wait until it is ready."""
        with self._lock:
            self._start()

    def freeze(self) -> None:
        """Stop Java where it is, if it runs: SIGSTOP, and wait until all its threads have obeyed."""
        with suppress(ProcessLookupError):
            if self._node.poll() is None:
                freeze(self._node.pid)

    def thaw(self) -> None:
        """Let it go on: SIGCONT, if it runs."""
        with suppress(ProcessLookupError):
            if self._node.poll() is None:
                thaw(self._node.pid)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        with suppress(BrokerError):
            if self._node.poll() is None:
                os.kill(self._node.pid, signal.SIGKILL)
            self._node.stop(0.0)

    def stop(self) -> None:
        """The same as for a service; nobody asks for an orderly end."""
        self.kill()

    def ended(self) -> int | None:
        """The exit status, if it ended by itself or was killed."""
        try:
            return self._node.poll()
        except BrokerError:
            return None

    def ready(self) -> bool:
        """Returns true if clients can be served and, of three nodes, if everything is replicated."""
        try:
            # Whoever looks does so again, and has other things to do: what does not listen yet is not waited for.
            socket.create_connection((_BROKER_HOST, self._node.port), _CONNECT_S).close()
            return self._serves()
        except (BrokerError, KafkaException, OSError):
            return False


class Brokers:
    """All of Kafka: `parts` and `proxies` by the names that the schedule uses; `bootstrap` is what clients set."""

    def __init__(self, directory: Path, count: int, network: Network) -> None:
        """Nothing is started yet; the proxies listen. Raises OSError, BrokerError."""
        self.count = count
        # The proxies take the same ones at their address.
        port = free_row(count, _BROKER_HOST, _KAFKA_HOST)
        self._cluster: EmbeddedCluster | None = None
        if count == 1:
            node = EmbeddedBroker(directory, port, host=_BROKER_HOST, advertised_host=_KAFKA_HOST)
            parts = [Broker(node, node.start, partial(_serves, node))]
        else:
            self._cluster = cluster = EmbeddedCluster(directory, port, host=_BROKER_HOST, advertised_host=_KAFKA_HOST)
            parts = [
                Broker(node, partial(cluster.start_node, number), partial(_in_sync, cluster, number))
                for number, node in cluster.nodes.items()
            ]
        names = broker_names(count)
        self.parts = dict(zip(names, parts, strict=True))
        ports = dict(zip(names, range(port, port + count), strict=True))
        self.proxies: dict[str, Proxy] = {
            name: network.proxy((_KAFKA_HOST, at), (_BROKER_HOST, at)) for name, at in ports.items()
        }
        self.hit: set[str] = set()
        """Those that a fault has taken away, wholly or in part."""
        self.returning: set[str] = set()
        """Those whose fault has ended, and that are not ready yet."""
        self.bootstrap = ",".join(f"{_KAFKA_HOST}:{at}" for at in ports.values())

    def stop(self) -> None:
        """Kill all nodes."""
        for part in self.parts.values():
            part.kill()
        if self._cluster is not None:
            self._cluster.stop(0.0)


def _serves(node: EmbeddedBroker) -> bool:
    node.wait_ready(_READY_S)
    return True


def _in_sync(cluster: EmbeddedCluster, number: int) -> bool:
    """Returns true if another node may be taken away without stopping writes."""
    cluster.wait_node_ready(number, _READY_S)
    return not cluster.out_of_sync()
