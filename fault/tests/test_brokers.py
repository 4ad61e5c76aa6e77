"""Kafka's nodes as parts: each behind a proxy of its own, by the names that the schedule uses. Java is not started."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify_fault.brokers import Brokers
from coldnotify_fault.schedule import BROKERS, broker_names
from coldnotify_testkit.proxy import Network

LIMIT_S = 20.0


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as one:
        yield one


@pytest.mark.parametrize("count", BROKERS)
def test_one_node_is_cut_off_and_the_others_are_reached(count: int, tmp_path: Path, network: Network) -> None:
    brokers = Brokers(tmp_path / "kafka", count, network)
    assert tuple(brokers.parts) == tuple(brokers.proxies) == broker_names(count)
    addresses = [(host, int(port)) for host, _, port in (one.partition(":") for one in brokers.bootstrap.split(","))]
    assert len(set(addresses)) == count
    victim = broker_names(count)[-1]
    brokers.proxies[victim].refuse()
    with ExitStack() as stack:
        # In the nodes' place, where their clients do not look.
        nodes = [stack.enter_context(socket.create_server(("127.0.0.2", port))) for _, port in addresses]
        for name, address, node in zip(brokers.parts, addresses, nodes, strict=True):
            node.settimeout(LIMIT_S)
            client = stack.enter_context(socket.create_connection(address, LIMIT_S))
            if name == victim:
                assert _ended(client)
                brokers.proxies[victim].heal()
                client = stack.enter_context(socket.create_connection(address, LIMIT_S))
            client.sendall(name.encode())
            accepted = stack.enter_context(node.accept()[0])
            accepted.settimeout(LIMIT_S)
            assert accepted.recv(100) == name.encode()
    brokers.stop()


@pytest.mark.parametrize("count", BROKERS)
def test_a_node_that_was_not_started_is_not_ready_and_can_be_killed(
    count: int, tmp_path: Path, network: Network
) -> None:
    brokers = Brokers(tmp_path / "kafka", count, network)
    for part in brokers.parts.values():
        assert not part.ready()
        assert part.ended() is None
        part.kill()
    brokers.stop()


def _ended(client: socket.socket) -> bool:
    try:
        return client.recv(10) == b""
    except ConnectionError:
        return True
