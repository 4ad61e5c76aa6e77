"""A port for devices: several sockets listen on it, so that a crowd that comes at once finds room."""

import selectors
import socket
from contextlib import ExitStack, closing

import pytest
from coldnotify_common.http.listening import ListenError
from coldnotify_gateway.listeners.port import CROWD_SOCKETS, DevicePort
from coldnotify_gateway.listeners.tcp.listener import TcpListener
from coldnotify_gateway.settings import GatewaySettings

CROWD = 200
WAIT_S = 60.0


def test_a_crowd_is_spread_over_all_sockets_of_the_port_and_nobody_is_lost():
    with ExitStack() as stack:
        port = stack.enter_context(closing(TcpListener(GatewaySettings(), 0, "PORT")))
        listening = [stack.enter_context(one) for one in port.listeners()]
        assert len(listening) == CROWD_SOCKETS
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection(("127.0.0.1", port.port), WAIT_S))
        selector = stack.enter_context(selectors.DefaultSelector())
        for one in listening:
            selector.register(one, selectors.EVENT_READ)
        accepted: dict[int, int] = {}
        while sum(accepted.values()) < CROWD:
            found = selector.select(WAIT_S)
            assert found, f"of {CROWD} connections {sum(accepted.values())} are there"
            for key, _ in found:
                accepted[key.fd] = accepted.get(key.fd, 0) + 1
                assert isinstance(key.fileobj, socket.socket)
                stack.enter_context(key.fileobj.accept()[0])
        assert len(accepted) == CROWD_SOCKETS


def test_who_waits_for_a_gateway_that_starts_waits_for_all_its_sockets():
    with closing(TcpListener(GatewaySettings(), 0, "PORT")) as port:
        port.listen_early()
        with ExitStack() as stack:
            for _ in range(CROWD):
                stack.enter_context(socket.create_connection(("127.0.0.1", port.port), WAIT_S))
            listening = [stack.enter_context(one) for one in port.listeners()]
            assert len(listening) == CROWD_SOCKETS


def test_a_port_that_somebody_else_has_is_an_error_that_names_the_setting():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ListenError, match="PORT"),
    ):
        DevicePort(GatewaySettings(gateway_host="127.0.0.1"), taken.getsockname()[1], "PORT")
