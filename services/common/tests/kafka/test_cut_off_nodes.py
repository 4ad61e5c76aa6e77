"""Nodes that are cut off from the others: told by whom each node lists, and read from no longer."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.kafka import cut_off_nodes
from coldnotify_common.kafka.cut_off_nodes import (
    CUT_OFF,
    CutOffNodes,
    Lists,
    NodeCutOff,
    NodesWatch,
    cut_off_in,
    watched_nodes,
)
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.kafka_login import Login
from coldnotify_common.kafka.record_consumer import RecordConsumer
from coldnotify_common.settings import ServiceSettings
from coldnotify_testkit.waiting import wait_for

CONFIGURED = "kafka:9092"
NOWHERE = ServiceSettings(kafka="127.0.0.1:1")


def lists(**listed: str) -> Lists:
    """Returns the nodes that each one lists, by letters."""
    return {node: frozenset(said) for node, said in listed.items()}


ALL_WELL = lists(a="abc", b="abc", c="abc")
A_CUT_OFF = lists(a="abc", b="bc", c="bc")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (ALL_WELL, ""),
        (A_CUT_OFF, "a"),
        (lists(a="abc", b="bc"), "a"),
        (lists(b="bc", c="bc"), ""),  # a is down
        (lists(a="bc", b="bc", c="bc"), ""),  # a has heard of it, as one does that ends in order
        (lists(a="abc"), ""),
        (lists(a="a", b="b"), ""),
        (lists(z="abc", a="abc", b="abc", c="abc"), ""),  # another name of one of them
        (lists(), ""),
    ],
)
def test_a_node_is_cut_off_if_it_lists_itself_and_another_does_not(said: Lists, found: str) -> None:
    assert cut_off_in(said) == frozenset(found)


def test_a_node_counts_as_cut_off_once_two_looks_in_a_row_say_so() -> None:
    nodes = CutOffNodes()
    for said in (ALL_WELL, A_CUT_OFF, ALL_WELL, A_CUT_OFF):
        nodes.take(said)
        assert (nodes.count, nodes.bootstrap(CONFIGURED)) == (0, CONFIGURED)
    nodes.take(A_CUT_OFF)
    assert (nodes.count, nodes.bootstrap(CONFIGURED)) == (1, "b,c")


def test_a_node_is_cut_off_until_another_lists_it_again() -> None:
    nodes = CutOffNodes()
    for said in (A_CUT_OFF, A_CUT_OFF, lists(b="bc", c="bc"), lists(), A_CUT_OFF, A_CUT_OFF):
        nodes.take(said)
    assert (nodes.count, nodes.bootstrap(CONFIGURED)) == (1, "b,c")
    nodes.take(ALL_WELL)
    assert (nodes.count, nodes.bootstrap(CONFIGURED)) == (1, CONFIGURED)


class Node:
    """Answers each request with the nodes that it lists."""

    def __init__(self, stack: ExitStack) -> None:
        self._server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._server.getsockname()[1]
        self.lists: list[Node] = []
        self.asked = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken: socket.socket) -> None:
        with taken, taken.makefile("rb") as asked:
            while head := asked.read(4):
                request = asked.read(struct.unpack(">i", head)[0])
                self.asked += 1
                (correlation,) = struct.unpack(">i", request[4:8])
                nodes = b"".join(
                    struct.pack(">ih", number, 9) + b"127.0.0.1" + struct.pack(">ih", node.port, -1)
                    for number, node in enumerate(self.lists)
                )
                body = struct.pack(">iii", correlation, 0, len(self.lists)) + nodes + b"\xff\xff\0\0\0\1\0\0\0\0"
                taken.sendall(struct.pack(">i", len(body)) + body)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    monkeypatch.setattr(cut_off_nodes, "LOOK_S", 0.01)
    with ExitStack() as stack:
        made = [Node(stack) for _ in range(3)]
        for node in made:
            node.lists = list(made)
        yield made


def test_all_nodes_are_asked_though_only_one_is_configured(nodes: list[Node]) -> None:
    cut_off = CutOffNodes()
    first, *others = nodes
    with NodesWatch(f"PLAINTEXT://{others[0].address}", Login(), cut_off):
        wait_for(lambda: all(node.asked for node in nodes), "all are asked")
        for node in others:
            node.lists = others
        wait_for(lambda: cut_off.count, "it is found")
        assert cut_off.bootstrap(CONFIGURED) == ",".join(sorted(node.address for node in others))
        others[0].lists = others[1].lists = [first, *others]
        wait_for(lambda: cut_off.bootstrap(CONFIGURED) == CONFIGURED, "it is back")
        assert cut_off.count == 1


def test_a_consumer_from_before_fails_and_one_from_afterwards_begins_elsewhere(nodes: list[Node]) -> None:
    settings = ServiceSettings(kafka=",".join(node.address for node in nodes))
    before = RecordConsumer(consumer_config(NOWHERE, "reads"))
    assert before.read(0) == []
    count = CUT_OFF.count
    with watched_nodes(settings):
        wait_for(lambda: all(node.asked for node in nodes), "all are asked")
        nodes[1].lists = nodes[2].lists = nodes[1:]
        wait_for(lambda: CUT_OFF.count > count, "it is found")
        with pytest.raises(NodeCutOff):
            before.read(0)
        begun = consumer_config(settings, "reads")["bootstrap.servers"]
        assert begun == ",".join(sorted(node.address for node in nodes[1:]))
        after = RecordConsumer(consumer_config(NOWHERE, "reads") | {"bootstrap.servers": NOWHERE.kafka})
        assert after.read(0) == []
    assert consumer_config(settings, "reads")["bootstrap.servers"] == settings.kafka
    after.close()
    before.close()


def test_a_bootstrap_server_that_is_none_is_told_by_its_setting() -> None:
    with (
        pytest.raises(SettingError, match="--kafka: 'a:9092, foo:bar' has no port"),
        watched_nodes(ServiceSettings(kafka="a:9092, foo:bar")),
    ):
        pass


def test_empty_bootstrap_servers_are_passed_over_as_kafka_clients_do() -> None:
    with watched_nodes(ServiceSettings(kafka="127.0.0.1:1,")):
        pass
