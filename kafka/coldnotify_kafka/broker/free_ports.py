"""Free and taken ports.

A port that is chosen here is reserved for the process that chose it until that ends: whoever chooses by this module, in
whichever process, takes another one. Else two that start at once could choose the same port, since a service listens
only seconds later, and one that is restarted not all the time.
"""

import errno
import os
import random
import socket
import sys

from coldnotify_schemas.host_port import host_port

from coldnotify_kafka.errors import BrokerError, BrokerSettingError, PortTakenError

_FREE_PORT_MIN = 20_000
_FREE_PORT_MAX = 32_000
"""Below the range (from 32,768 on) from which Linux assigns ports to outgoing connections: otherwise some client's
connection could occupy the port between choosing and listening, or while a broker restarts.
"""
_PORT_MAX = 65_535
_TRIES = 200
_RESERVED_MAX = 256
"""Limit on reservations of one process, each with a descriptor; the oldest are released, because a process that chooses
so many ports has long ended their users. The largest stack takes some 20.
"""
_reserved: dict[int, int | None] = {}
"""By port, oldest first: the descriptor that reserves it; None where that is not possible, outside Linux."""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port on which nothing listens now, reserved for this process. Raises BrokerError if none was found."""
    return free_row(1, host)


def free_row(count: int, *hosts: str) -> int:
    """The first of `count` ports one by one, each as of `free_port` at all of these addresses. Raises BrokerError."""
    for _ in range(_TRIES):
        first = random.randint(_FREE_PORT_MIN, _FREE_PORT_MAX - count + 1)
        row = range(first, first + count)
        # What this process chose before is for something else.
        if _reserved.keys().isdisjoint(row):
            if all(reserve(port, *hosts) for port in row):
                return first
            for port in _reserved.keys() & set(row):
                _release(port)
    words = "free port" if count == 1 else f"row of {count} free ports"
    raise BrokerError(f"no {words} between {_FREE_PORT_MIN} and {_FREE_PORT_MAX} on {' and '.join(hosts)}")


def reserve(port: int, *hosts: str) -> bool:
    """Returns true if nothing listens on the port, and this process has reserved it now or before.

    False: something listens there, nothing could, or another process has reserved it.
    """
    if not 0 < port <= _PORT_MAX:
        return False
    known = port in _reserved
    if not known:
        # Before the look, which itself listens for a moment: another process' service may be about to.
        try:
            _reserved[port] = _hold(port)
        except OSError:
            return False
    free = all(_trouble(host, port) is None for host in hosts)
    if not free and not known:
        _release(port)
    while len(_reserved) > _RESERVED_MAX:
        _release(next(iter(_reserved)))
    return free


def check_port_is_free(host: str, port: int, setting: str) -> None:
    """Raises PortTakenError if something listens there, BrokerSettingError if nothing ever could; names `setting`."""
    if not 0 < port <= _PORT_MAX:
        raise BrokerSettingError(f"{setting}: {port} is not a port (1 to 65535, or 0 for any free one)")
    trouble = _trouble(host, port)
    if trouble is None:
        return
    if trouble.errno == errno.EADDRINUSE:
        raise PortTakenError(
            f"port {port} on {host} is taken by another program: stop it or choose another port with {setting} "
            "(0 = any free one)"
        )
    raise BrokerSettingError(f"{setting}: cannot listen on {host_port(host, port)} ({trouble.strerror or trouble})")


def _hold(port: int) -> int | None:
    """Marks the port as reserved for other processes. Raises OSError if another one has reserved it."""
    if sys.platform != "linux":
        return None
    with socket.socket(socket.AF_UNIX) as holder:
        # An abstract name: like a port, it is of one network namespace. It goes with the process, however that ends.
        holder.bind(f"\0coldnotify-port-{port}")
        return holder.detach()


def _release(port: int) -> None:
    held = _reserved.pop(port)
    if held is not None:
        os.close(held)


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
