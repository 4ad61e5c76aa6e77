"""Connections that TCP probes."""

import socket
from contextlib import closing

from coldnotify_common.dead_peers import PROBED_AFTER_S, probe


def test_a_listening_sockets_connections_are_probed() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        probe(listener)
        with closing(socket.create_connection(listener.getsockname())), closing(listener.accept()[0]) as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == PROBED_AFTER_S
