"""Writes devices' wakes to a file for the loop in C that plays them, and reads what that loop has seen."""

import json
import socket
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coldnotify_load.population import Population
from coldnotify_load.tcp_device import ColdNotifyDevice

from coldnotify_loadtest.devices import make
from coldnotify_loadtest.servers import HOST, Server, ServerError, find

SOURCES = 200
"""Addresses that wakes come from: at 6,000 a second each has some 1,800 ports in TIME_WAIT."""
_LENGTH = struct.Struct("<I")
_PROTOCOLS = {"coldnotify": "frames", "nats": "nats", "mqtt": "mqtt"}
_CAUGHT_UP_S = 30.0


def write_hellos(path: Path, server: Server, population: Population, numbers: Iterable[int]) -> None:
    """Writes what each device sends when it wakes and nothing has changed since its last visit. Raises ServerError."""
    known: dict[str, ColdNotifyDevice] = {}
    with path.open("wb") as file:
        for number in numbers:
            device = make(server.kind, population, number)
            if isinstance(device, ColdNotifyDevice):
                group = population.group(population.block_of(number))
                if group not in known:
                    known[group] = _caught_up(server, population, number)
                device.registered, device.epoch, device.cursor = True, known[group].epoch, known[group].cursor
            hello = device.hello()
            file.write(_LENGTH.pack(len(hello)) + hello)


def _caught_up(server: Server, population: Population, number: int) -> ColdNotifyDevice:
    """A device of the group that has just been complete: its epoch and cursor are as good for the others."""
    device = ColdNotifyDevice(population, number)
    device.registered = True
    with socket.create_connection(server.addresses()[0], _CAUGHT_UP_S) as connection:
        connection.sendall(device.hello())
        while not device.ready:
            data = connection.recv(65536)
            if not data or device.closed:
                raise ServerError(f"a device was sent away: {device.closed}")
            reply, _ = device.receive(data)
            connection.sendall(reply)
    return device


def wake(server: Server, hellos: Path, rate: float, seconds: float, tls: Sequence[str | Path] = ()) -> dict[str, Any]:
    """Has them wake at this rate (0: all at once, and stay until all are complete); what the loop has seen.

    `tls`: see `begin`. Raises ServerError.
    """
    return wait_for(begin(server, hellos, rate, seconds, tls))


def begin(
    server: Server, hellos: Path, rate: float, seconds: float, tls: Sequence[str | Path] = ()
) -> "subprocess.Popen[str]":
    """The same as `wake`, without waiting. `tls`: authority, certificate, key, and "1" to resume sessions."""
    argv = [find("wake_loop"), _PROTOCOLS[server.kind], HOST, str(server.port), str(hellos), str(rate), str(seconds)]
    return subprocess.Popen([*argv, str(SOURCES), *map(str, tls)], stdout=subprocess.PIPE, text=True)


def knows_tls() -> bool:
    """Returns true if the loop was built with OpenSSL's headers."""
    return subprocess.run([find("wake_loop"), "tls"], check=False).returncode == 0


def wait_for(loop: "subprocess.Popen[str]") -> dict[str, Any]:
    """Returns what it has seen. Raises ServerError."""
    said, _ = loop.communicate()
    if loop.returncode:
        raise ServerError(f"the loop of devices has ended with {loop.returncode}")
    seen: dict[str, Any] = json.loads(said)
    return seen
