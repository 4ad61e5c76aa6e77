"""Before a balancer's connection says anything to the core, its header says whose it is."""

import socket
from typing import Any

import pytest
from coldnotify_common.addresses import Among, networks
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.tcp.balancer import Balanced
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection

V1 = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n"
LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
PROXIES = Among(networks("10.0.0.0/24"))


class Transport:
    """Stands for asyncio's: passes on to the protocol that it has."""

    def __init__(self, address: str, socket: socket.socket | None) -> None:
        self.address, self.socket = address, socket
        self.protocol: Any = None
        self.aborted = False
        self.buffered_bytes = 0

    def get_extra_info(self, name: str) -> Any:
        return (self.address, 1) if name == "peername" else self.socket

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def get_write_buffer_size(self) -> int:
        return self.buffered_bytes


class Events(ConnectionEvents):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_connect(self, connection: Any, transport: Any) -> None:
        self.seen.append(("connect", connection.address))
        self.nobodys = connection.nobodys

    def on_address(self, connection: Any) -> None:
        self.seen.append(("address", connection.address))

    def on_malformed_proxy_header(self) -> None:
        self.seen.append("malformed")

    def on_bytes(self, connection: Any, data: bytes) -> None:
        self.seen.append(data)

    def on_blocked(self, connection: Any) -> None:
        self.seen.append("blocked")

    def on_drained(self, connection: Any) -> None:
        self.seen.append("drained")

    def on_disconnected(self, connection: Any) -> None:
        self.seen.append("disconnected")


def connected(address: str, accepted: socket.socket | None = None) -> tuple[Transport, Events]:
    transport, events = Transport(address, accepted), Events()
    transport.protocol = Balanced(ClientConnection(events), events, PROXIES)
    transport.protocol.connection_made(transport)
    return transport, events


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (V1, [("address", "2001:db8::1")]),
        (LOCAL, [("address", "10.0.0.7")]),
        (b"PROXY UNKNOWN\r\n", [("address", "10.0.0.7")]),
    ],
)
def test_what_follows_the_header_is_the_clients_however_it_is_split(header: bytes, said: list[Any]) -> None:
    for pieces in ([header + b"hello"], [header, b"hello"], [header[:9], header[9:] + b"hello"]):
        transport, events = connected("10.0.0.7")
        for piece in pieces:
            transport.protocol.data_received(piece)
        assert events.seen == [("connect", "10.0.0.7"), *said, b"hello"]
        assert events.nobodys
        assert isinstance(transport.protocol, ClientConnection)
        transport.protocol.connection_lost(None)
        assert events.seen[-1] == "disconnected"


def test_of_others_no_header_is_read() -> None:
    transport, events = connected("10.0.1.7")
    transport.protocol.data_received(V1)
    assert events.seen == [("connect", "10.0.1.7"), V1]
    assert not events.nobodys


def test_what_is_no_header_cuts_the_connection_off_and_is_counted() -> None:
    transport, events = connected("10.0.0.7")
    transport.protocol.data_received(b"what")
    assert (transport.aborted, events.seen) == (True, [("connect", "10.0.0.7"), "malformed"])
    transport.protocol.connection_lost(None)
    assert events.seen[-1] == "disconnected"


def test_a_close_before_the_header_may_wait_to_be_written() -> None:
    transport, events = connected("10.0.0.7")
    transport.buffered_bytes = 1
    transport.protocol.pause_writing()
    transport.buffered_bytes = 0
    transport.protocol.resume_writing()
    assert events.seen[1:] == ["blocked", "drained"]


@pytest.mark.parametrize("said", [V1 + b"hello", V1, V1[:9], b"", b"what"])
def test_what_is_there_of_the_header_when_the_connection_is_accepted_is_read_at_once(said: bytes) -> None:
    accepted, balancer = socket.socketpair()
    with accepted, balancer:
        accepted.setblocking(False)
        balancer.sendall(said)
        transport, events = connected("10.0.0.7", accepted)
        whole = said.startswith(V1)
        assert (("address", "2001:db8::1") in events.seen) is whole
        assert isinstance(transport.protocol, ClientConnection) is whole
        assert transport.aborted is (said == b"what")
        if whole:
            assert accepted.recv(10) == b"hello" if said != V1 else True
        elif not transport.aborted:
            transport.protocol.data_received(V1[len(said) :] + b"hello")
            assert events.seen[1:] == [("address", "2001:db8::1"), b"hello"]


def test_a_balancer_that_is_gone_already_is_noticed_in_the_usual_way() -> None:
    accepted, balancer = socket.socketpair()
    with accepted:
        accepted.setblocking(False)
        balancer.close()
        _, events = connected("10.0.0.7", accepted)
        assert events.seen == [("connect", "10.0.0.7")]
