import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from coldnotify_kafka.broker import free_ports
from coldnotify_kafka.broker.free_ports import check_port_is_free, free_port, free_row, reserve
from coldnotify_kafka.errors import BrokerError, BrokerSettingError, PortTakenError

Among = Callable[[int, int], None]
HOST = "127.0.0.1"


@contextmanager
def another_process(choice: str) -> Iterator[int]:
    """It chooses a port, and lives on until the end of the context."""
    program = f"from coldnotify_kafka.broker.free_ports import *; print({choice}, flush=True); input()"
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def among(monkeypatch: pytest.MonkeyPatch) -> Among:
    """Sets out of which ports this process chooses: the first one, and how many."""

    def set_them(first: int, count: int) -> None:
        monkeypatch.setattr(free_ports, "_FREE_PORT_MIN", first)
        monkeypatch.setattr(free_ports, "_FREE_PORT_MAX", first + count - 1)

    return set_them


def test_a_free_port_can_be_listened_on() -> None:
    port = free_port()
    check_port_is_free("127.0.0.1", port, "--some-port")
    socket.create_server(("127.0.0.1", port)).close()


def test_a_taken_port_is_reported_with_its_number_and_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} on 127\.0\.0\.1 is taken.*--some-port"):
            check_port_is_free("127.0.0.1", port, "--some-port")


def test_a_dead_servers_connection_does_not_occupy_its_port() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        connection, _ = server.accept()
        # The side that closes first, here the server's, keeps the port in TIME_WAIT.
        connection.close()
        client.close()
    check_port_is_free("127.0.0.1", port, "--some-port")


@pytest.mark.parametrize("port", [-1, 65536])
def test_an_invalid_port_is_reported(port: int) -> None:
    with pytest.raises(BrokerSettingError, match=f"--some-port: {port} is not a port"):
        check_port_is_free("127.0.0.1", port, "--some-port")


def test_a_foreign_host_is_reported() -> None:
    with pytest.raises(BrokerSettingError, match=r"--some-port: cannot listen on 192\.0\.2\.1:9092"):
        check_port_is_free("192.0.2.1", 9092, "--some-port")


@pytest.mark.skipif(sys.platform != "linux", reason="reserved among processes on Linux only")
def test_a_chosen_port_stays_reserved_until_the_process_ends(among: Among) -> None:
    with another_process("free_port()") as port:
        among(port, 1)
        with pytest.raises(BrokerError, match=f"no free port between {port} and {port} on {HOST}"):
            free_port()
        assert not reserve(port, HOST)
        # Whoever asked for this very port gets it: nothing listens there.
        check_port_is_free(HOST, port, "--some-port")
    assert free_port() == port


@pytest.mark.skipif(sys.platform != "linux", reason="reserved among processes on Linux only")
def test_a_row_is_reserved_as_a_whole() -> None:
    with another_process("free_row(3, '127.0.0.1')") as first:
        assert [reserve(port, HOST) for port in range(first, first + 3)] == [False] * 3


def test_a_process_chooses_a_port_once_and_may_ask_for_it_again(among: Among) -> None:
    port = free_port()
    among(port, 1)
    with pytest.raises(BrokerError):
        free_port()
    assert reserve(port, HOST)


def test_a_row_is_free_at_all_addresses_or_its_ports_are_released(among: Among) -> None:
    first = free_row(3, HOST)
    for port in range(first, first + 3):
        free_ports._release(port)
    among(first, 3)
    with socket.create_server(("127.0.0.3", first + 2)), pytest.raises(BrokerError, match=r"no row of 3 free ports .*"):
        free_row(3, HOST, "127.0.0.3")
    assert free_row(3, HOST, "127.0.0.3") == first


def test_the_oldest_reservation_is_released_for_the_newest(among: Among, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_reserved", {})
    monkeypatch.setattr(free_ports, "_RESERVED_MAX", 2)
    first, *_ = (free_port() for _ in range(3))
    among(first, 1)
    assert free_port() == first
    for port in list(free_ports._reserved):
        free_ports._release(port)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_an_invalid_port_cannot_be_reserved(port: int) -> None:
    assert not reserve(port, HOST)


def test_a_port_with_a_listener_cannot_be_reserved() -> None:
    with socket.create_server((HOST, free_port())) as server:
        port = server.getsockname()[1]
        free_ports._release(port)
        assert not reserve(port, HOST)
    assert reserve(port, HOST)
