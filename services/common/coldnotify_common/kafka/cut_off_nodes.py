"""Notices a node of Kafka that is cut off from the others, and goes on answering from what it knew before.

Such a node claims to lead what others lead by now. librdkafka does not find out: it asks the connection that it used
last for the leaders, so a consumer whose partitions this node led asks no other one. The others list a node no longer
once it is silent; it lists itself for ever. So each node is asked who belongs to the cluster.

A RecordConsumer that was created before a node was found to be cut off fails (`NodeCutOff`). What is created afterwards
begins at the other nodes, and a leader with a lower epoch counts for nothing in it.
"""

import asyncio
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

import structlog
from coldnotify_schemas.host_port import host_port, parse_host_port
from confluent_kafka import KafkaError, KafkaException

from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.group_protocol import MalformedAnswer, list_nodes
from coldnotify_common.kafka.kafka_login import Login, login_of
from coldnotify_common.kafka.kafka_node import KafkaNode, bootstrap_places
from coldnotify_common.kafka.scram import ScramError
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.settings import ServiceSettings, invalid

log = structlog.get_logger()

LOOK_S = 2.0
"""Interval of questions. A node counts as cut off after two in a row, because the others hear a little earlier of one
that ends in order than it does itself."""
_NODES_MAX = 64
"""The most nodes that are asked."""
_JOIN_S = 5.0

Lists = Mapping[str, frozenset[str]]
"""For each node that answers, by its address, the nodes that it lists."""


class NodeCutOff(KafkaException):
    """A node was found to be cut off since this consumer was created, which may be reading from it."""

    def __init__(self) -> None:
        super().__init__(KafkaError(KafkaError._STATE, "a node of Kafka is cut off from the others"))


def cut_off_in(lists: Lists) -> frozenset[str]:
    """Returns the nodes that list themselves, and that another one which lists itself does not list.

    Returns none if all are: two halves that know nothing of each other.
    """
    alive = {node for node, listed in lists.items() if node in listed}
    found = frozenset(node for node in alive if any(node not in lists[other] for other in alive))
    return frozenset() if found == alive else found


class CutOffNodes:
    """The nodes that are cut off now, as a process knows them; none unless it watches (`watched_nodes`)."""

    def __init__(self) -> None:
        self.count = 0
        """The number of times that a node was found to be cut off."""
        self._seen: frozenset[str] = frozenset()
        self._now: frozenset[str] = frozenset()
        self._sound: frozenset[str] = frozenset()

    def bootstrap(self, configured: str) -> str:
        """Returns the bootstrap servers for a new client: the configured ones, unless a node is cut off now."""
        return ",".join(sorted(self._sound)) if self._now else configured

    def take(self, lists: Lists) -> None:
        """Takes in the answers of one look."""
        if not lists:
            return
        seen = cut_off_in(lists)
        # One that does not answer for a while is no other case: its return would let all read anew once more.
        still = {node for node in self._now if not any(node in lists[other] for other in lists if other != node)}
        found = (seen & self._seen) | still
        begun, ended = found - self._now, self._now - found
        self._seen, self._now, self._sound = seen, found, frozenset(lists) - found
        if begun:
            self.count += 1
            log.warning("nodes of Kafka are cut off, all is read anew from the others", nodes=sorted(begun))
        if ended:
            log.info("nodes of Kafka are cut off no longer", nodes=sorted(ended))

    def clear(self) -> None:
        """Nobody watches any longer."""
        self._seen = self._now = self._sound = frozenset()


CUT_OFF = CutOffNodes()
"""Those of this process, which knows one Kafka."""


@contextmanager
def watched_nodes(settings: ServiceSettings) -> Iterator[None]:
    """Watches Kafka's nodes inside of `with`. Raises SettingError for a bootstrap server that is none."""
    try:
        login = login_of(settings.kafka_config, "who asks each node of Kafka")
    except SettingError as error:
        log.warning("a node of Kafka that is cut off from the others is not noticed", reason=str(error))
        yield
        return
    try:
        watch = NodesWatch(settings.kafka, login, CUT_OFF)
    except ValueError as error:
        raise invalid("kafka", f"{settings.kafka!r} {error}") from None
    with watch:
        yield
    CUT_OFF.clear()


class NodesWatch(OwnThread):
    """Asks all nodes, again and again."""

    def __init__(self, bootstrap: str, login: Login, cut_off: CutOffNodes) -> None:
        super().__init__("nodes-watch", _JOIN_S)
        self._bootstrap = frozenset(host_port(*place) for place in bootstrap_places(bootstrap))
        self._login = login
        self._cut_off = cut_off
        self._connected: dict[str, KafkaNode] = {}

    def _run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        known: Set[str] = self._bootstrap
        try:
            while not self._stop.is_set():
                asked = sorted(known)[:_NODES_MAX]
                answers = await asyncio.gather(*map(self._listed_by, asked))
                lists = {node: listed for node, listed in zip(asked, answers, strict=True) if listed}
                self._cut_off.take(lists)
                # One that does not answer is asked on: it may be the one.
                known = frozenset(known - lists.keys()).union(*lists.values())
                await asyncio.to_thread(self._stop.wait, LOOK_S)
        finally:
            for node in self._connected.values():
                node.close()

    async def _listed_by(self, address: str) -> frozenset[str]:
        """Returns the nodes that this one lists; none if it does not answer."""
        node = self._connected.pop(address, None)
        try:
            if node is None:
                node = await KafkaNode.connect(*parse_host_port(address), self._login)
            listed = frozenset(host_port(*one) for one in await node.ask(list_nodes()))
        except (OSError, EOFError, MalformedAnswer, ScramError, ValueError):
            if node is not None:
                node.close()
            return frozenset()
        self._connected[address] = node
        return listed
