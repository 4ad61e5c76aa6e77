import socket

import pytest
from coldnotify_kafka.broker.free_ports import check_port_is_free, free_port
from coldnotify_kafka.errors import BrokerSettingError, PortTakenError


def test_a_free_port_can_be_listened_on() -> None:
    port = free_port()
    check_port_is_free("127.0.0.1", port, "--some-port")
    socket.create_server(("127.0.0.1", port)).close()


def test_a_taken_port_is_told_with_its_number_and_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} on 127\.0\.0\.1 is taken.*--some-port"):
            check_port_is_free("127.0.0.1", port, "--some-port")


def test_a_connection_that_a_dead_server_left_behind_is_no_obstacle() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        connection, _ = server.accept()
        # The side that closes first, here the server's, keeps the port in TIME_WAIT.
        connection.close()
        client.close()
    check_port_is_free("127.0.0.1", port, "--some-port")


@pytest.mark.parametrize("port", [-1, 65536])
def test_what_is_no_port_is_told(port: int) -> None:
    with pytest.raises(BrokerSettingError, match=f"--some-port: {port} is not a port"):
        check_port_is_free("127.0.0.1", port, "--some-port")


def test_a_host_that_is_not_here_is_told() -> None:
    with pytest.raises(BrokerSettingError, match=r"--some-port: cannot listen on 192\.0\.2\.1:9092"):
        check_port_is_free("192.0.2.1", 9092, "--some-port")
