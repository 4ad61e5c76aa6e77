"""The embedded Kafka as parts for the supervisor: one node, or three of which any one may die."""

import threading
from collections.abc import Callable

from coldnotify_common.errors import SettingError
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster
from coldnotify_kafka.broker.cluster import NODES
from coldnotify_kafka.errors import BrokerError, TopicsError
from confluent_kafka import KafkaException

from coldnotify_cli.supervisor import Part, PartProcess

NODES_ALLOWED = (1, NODES)


def check_nodes(nodes: int, flag: str) -> None:
    """Raises SettingError, naming `flag`, for a number of nodes that makes no sense."""
    if nodes not in NODES_ALLOWED:
        raise SettingError(
            f"{flag} (COLDNOTIFY_{flag[2:].replace('-', '_').upper()}): {nodes} is neither 1 nor {NODES}: with two "
            "nodes, neither may die"
        )


def parts_of(
    kafka: EmbeddedBroker | EmbeddedCluster, ready_timeout_s: float, when_ready: Callable[[], None] | None = None
) -> list[Part]:
    """The nodes to be kept running, none started yet: `broker`, or `broker-1` to `broker-3`.

    `when_ready` runs when Kafka serves, before its first node counts as ready; with a single node again at each
    start. It may raise BrokerError, TopicsError, KafkaException.
    """
    finish = when_ready or (lambda: None)
    if isinstance(kafka, EmbeddedBroker):

        def one_is_ready() -> None:
            kafka.wait_ready(ready_timeout_s)
            finish()

        return [_part("broker", kafka, kafka.start, one_is_ready, ready_timeout_s)]
    cluster = kafka
    served_once = threading.Event()

    def part(number: int) -> Part:
        def node_is_ready() -> None:
            if number == 1 and not served_once.is_set():
                cluster.wait_ready(ready_timeout_s)
                finish()
                served_once.set()
            else:
                # The others may be away: one node's return must not wait for theirs.
                cluster.wait_node_ready(number, ready_timeout_s)

        node = cluster.nodes[number]
        return _part(f"broker-{number}", node, lambda: cluster.start_node(number), node_is_ready, ready_timeout_s)

    return [part(number) for number in cluster.nodes]


def _part(
    name: str, node: EmbeddedBroker, start: Callable[[], None], wait: Callable[[], None], ready_timeout_s: float
) -> Part:
    def started() -> PartProcess:
        start()
        return node

    def unready() -> str | None:
        try:
            wait()
        except (BrokerError, TopicsError, KafkaException) as error:
            return str(error)
        return None

    return Part(name, started, unready, ready_timeout_s=ready_timeout_s, last_words=node.log_tail)
