"""The counting proxy: passes everything on, counts each direction."""

import socket
import threading

from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_testkit.proxy import CountingProxy
from coldnotify_testkit.waiting import wait_for


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
        with CountingProxy("127.0.0.1", server.getsockname()[1]) as proxy:
            with socket.create_connection(proxy.address, 60) as client:
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
    with CountingProxy("127.0.0.1", free_port()) as proxy, socket.create_connection(proxy.address, 60) as client:
        client.settimeout(60)
        assert client.recv(1) == b""
