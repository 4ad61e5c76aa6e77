"""A connection that meets itself is known, and leaves its port free."""

import socket

from coldnotify_common.http.listening import listening
from coldnotify_common.self_connection import meets_itself

HOST = "127.0.0.1"


def test_a_connection_that_meets_itself_leaves_its_port_free() -> None:
    with socket.socket() as itself:
        itself.bind((HOST, 0))
        port = itself.getsockname()[1]
        itself.connect((HOST, port))
        assert meets_itself(itself)
    listening(HOST, port).close()


def test_two_ends_are_not_one() -> None:
    with listening(HOST, 0) as other, socket.create_connection(other.getsockname()) as connection:
        assert not meets_itself(connection)
