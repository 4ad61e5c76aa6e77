"""Connections of this machine to itself: where nobody listens, Linux may choose the asked port as the own one, too."""

import socket
import struct

_RESET = struct.pack("ii", 1, 0)


def meets_itself(connection: socket.socket) -> bool:
    """Returns true if both ends of a connection are one: nobody listens there.

    It is reset when it is closed: otherwise nobody could listen there for a minute.
    """
    if connection.getsockname() != connection.getpeername():
        return False
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return True
