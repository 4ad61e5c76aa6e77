"""The proxy: passes, cuts, refuses, holds and swallows; and knows which notifications go to whom."""

import gc
import socket
from collections.abc import Iterator

import pytest
from coldnotify_fault.proxy import Network, Proxy, Wire
from coldnotify_kafka.broker import free_port
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import encode

HOST = "127.0.0.1"
LIMIT_S = 20.0
SHORT_S = 0.3


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as one:
        yield one


class Ends:
    """A client's and a server's socket, with the proxy between them."""

    def __init__(self, network: Network) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.listener.settimeout(LIMIT_S)
        self.address = (HOST, free_port())
        self.proxy: Proxy = network.proxy(self.address, self.listener.getsockname())
        self.client = socket.create_connection(self.address, LIMIT_S)
        self.server = self.listener.accept()[0]
        self.server.settimeout(LIMIT_S)

    def passes(self) -> bool:
        self.client.sendall(b"up")
        self.server.sendall(b"down")
        return self.server.recv(10) == b"up" and self.client.recv(10) == b"down"

    def silent(self) -> bool:
        self.client.sendall(b"lost")
        self.server.settimeout(SHORT_S)
        try:
            return self.server.recv(10) == b""
        except TimeoutError:
            return True
        finally:
            self.server.settimeout(LIMIT_S)

    def close(self) -> None:
        for one in (self.client, self.server, self.listener):
            one.close()


@pytest.fixture
def ends(network: Network) -> Iterator[Ends]:
    one = Ends(network)
    yield one
    one.close()


def ended(one: socket.socket) -> bool:
    try:
        return one.recv(10) == b""
    except ConnectionError:
        return True


def test_what_is_sent_passes(ends: Ends) -> None:
    assert ends.passes()


def test_an_end_of_one_side_is_told_to_the_other(ends: Ends) -> None:
    ends.server.shutdown(socket.SHUT_WR)
    assert ends.client.recv(10) == b""


def test_connections_that_are_just_being_accepted_end_with_the_network() -> None:
    """A connection that nobody closes is a warning, and so an error."""
    for _ in range(20):
        with socket.create_server((HOST, 0)) as listener, Network() as network:
            address = (HOST, free_port())
            network.proxy(address, listener.getsockname())
            clients = [socket.create_connection(address, LIMIT_S) for _ in range(20)]
        for client in clients:
            client.close()
    gc.collect()


def test_a_cut_ends_both_sides_and_new_connections_pass(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.cut()
    assert ended(ends.client)
    assert ended(ends.server)
    ends.client.close()
    ends.client = socket.create_connection(ends.address, LIMIT_S)
    ends.server.close()
    ends.server = ends.listener.accept()[0]
    assert ends.passes()


def test_refused_until_it_is_healed(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.refuse()
    assert ended(ends.client)
    with socket.create_connection(ends.address, LIMIT_S) as refused:
        assert ended(refused)
    ends.proxy.heal()
    ends.client.close()
    ends.client = socket.create_connection(ends.address, LIMIT_S)
    ends.server.close()
    ends.server = ends.listener.accept()[0]
    assert ends.passes()


def test_what_is_held_comes_later(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.hold()
    assert ends.silent()
    ends.proxy.heal()
    assert ends.server.recv(10) == b"lost"
    assert ends.passes()


def test_what_is_swallowed_never_comes_and_nobody_is_told(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.swallow()
    assert ends.silent()
    ends.proxy.heal()
    assert ends.silent(), "a connection that lost bytes must not go on as if it had not"


def test_notifications_are_seen_with_whose_they_are() -> None:
    seen: list[tuple[str, str, int | None, int]] = []
    one = Wire(["config"], lambda *what: seen.append(what))
    told = wire.Notification(crc=object_crc("config"), version=7, incarnation=2)
    one.to_client(encode(wire.GatewayFrame(notification=told)))
    assert seen == []
    one.from_client(encode(wire.ClientFrame(hello=wire.Hello(domain="d", group="g", client="c"))))
    frame = encode(wire.GatewayFrame(notification=told))
    one.to_client(frame[:3])
    one.to_client(frame[3:])
    one.to_client(encode(wire.GatewayFrame(notification=wire.Notification(name="new"))))
    assert seen == [("d/g/c", "d/g/config", 7, 2), ("d/g/c", "d/g/new", None, 0)]
