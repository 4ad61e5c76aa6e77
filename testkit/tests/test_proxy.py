"""The proxy: passes, counts, slows, cuts, refuses, holds and swallows."""

import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from coldnotify_kafka.broker import free_port
from coldnotify_testkit.proxy import Network, Proxy, in_front_of
from coldnotify_testkit.waiting import wait_for

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


def test_bytes_pass(ends: Ends) -> None:
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


def test_new_connections_lead_to_another_address(ends: Ends) -> None:
    assert ends.passes()
    with socket.create_server((HOST, 0)) as other:
        ends.proxy.lead_to(other.getsockname())
        ends.proxy.cut()
        assert ended(ends.client)
        ends.client.close()
        ends.client = socket.create_connection(ends.address, LIMIT_S)
        ends.server.close()
        other.settimeout(LIMIT_S)
        ends.server = other.accept()[0]
        ends.server.settimeout(LIMIT_S)
        assert ends.passes()


def test_held_bytes_arrive_later(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.hold()
    assert ends.silent()
    ends.proxy.heal()
    assert ends.server.recv(10) == b"lost"
    assert ends.passes()


def test_swallowed_bytes_never_arrive_and_nobody_learns_of_it(ends: Ends) -> None:
    assert ends.passes()
    ends.proxy.swallow()
    assert ends.silent()
    ends.proxy.heal()
    assert ends.silent(), "a connection that lost bytes must not go on as if it had not"


def test_bytes_are_passed_on_and_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                heard = b""
                while len(heard) < 1000:
                    heard += connection.recv(65536)
                connection.sendall(heard * 3)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with in_front_of("127.0.0.1", server.getsockname()[1]) as proxy:
            with socket.create_connection(proxy.address, LIMIT_S) as client:
                client.settimeout(60)
                client.sendall(b"x" * 1000)
                got = b""
                while data := client.recv(65536):
                    got += data
            assert got == b"x" * 3000
            wait_for(lambda: proxy.idle, "both ends are closed")
            assert (proxy.up_bytes, proxy.down_bytes) == (1000, 3000)
            proxy.reset()
            assert (proxy.up_bytes, proxy.down_bytes) == (0, 0)
        thread.join(60)


def test_without_a_server_the_client_is_closed() -> None:
    with in_front_of("127.0.0.1", free_port()) as proxy, socket.create_connection(proxy.address, LIMIT_S) as client:
        client.settimeout(60)
        assert client.recv(1) == b""


def test_a_slow_link_takes_as_long_as_its_rate_says() -> None:
    with (
        socket.create_server((HOST, 0)) as listener,
        in_front_of(*listener.getsockname(), bits_per_s=80_000) as proxy,
        socket.create_connection(proxy.address, LIMIT_S) as client,
    ):
        server = listener.accept()[0]
        begun_s = time.monotonic()
        with server:
            client.sendall(b"x" * 5000)
            left = 5000
            while left:
                left -= len(server.recv(left))
        assert time.monotonic() - begun_s > 0.4, "half a second, but for what is in the last read"
