"""Free and taken ports."""

import errno
import random
import socket

from coldnotify_kafka.errors import BrokerError, BrokerSettingError, PortTakenError

_FREE_PORT_MIN = 20_000
_FREE_PORT_MAX = 32_000
"""Below the range (from 32,768 on) out of which Linux serves outgoing connections: else some client's connection could
sit on the port between choosing and listening, or while a broker is being restarted."""
_TRIES = 200


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port on which nothing listens now. Raises BrokerError if none was found."""
    for _ in range(_TRIES):
        port = random.randint(_FREE_PORT_MIN, _FREE_PORT_MAX)
        if _trouble(host, port) is None:
            return port
    raise BrokerError(f"no free port between {_FREE_PORT_MIN} and {_FREE_PORT_MAX} on {host}")


def check_port_is_free(host: str, port: int, setting: str) -> None:
    """Raises PortTakenError if something listens there, BrokerSettingError if nothing ever could; names `setting`."""
    if not 0 < port < 65536:
        raise BrokerSettingError(f"{setting}: {port} is not a port (1 to 65535, or 0 for any free one)")
    trouble = _trouble(host, port)
    if trouble is None:
        return
    if trouble.errno == errno.EADDRINUSE:
        raise PortTakenError(
            f"port {port} on {host} is taken by another program: stop it or choose another port with {setting} "
            "(0 = any free one)"
        )
    raise BrokerSettingError(f"{setting}: cannot listen on {host}:{port} ({trouble.strerror or trouble})")


def _trouble(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As Java does it: connections that a dead broker left in TIME_WAIT are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return error
    return None
