"""Processes of the system under load, where they are on this machine: found by the ports that gateways listen on."""

import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_LISTENING, _ESTABLISHED = "0A", "01"
_PROC = Path("/proc")
_MODULE = "coldnotify_cli.main"


def is_here(host: str) -> bool:
    """Returns true if this machine has the address."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
            one.bind((host, 0))
    except OSError:
        return False
    return True


class LoadedProcesses:
    """The gateways behind addresses, and who runs beside them."""

    def __init__(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Of another machine's, and of other users', nothing is found."""
        self._ports = {port for host, port in addresses if is_here(host)}
        listening = self._inodes(_LISTENING)
        self.gateways = sorted(pid for pid in _pids() if self._ports and listening & _sockets_of(pid))
        """Their process ids."""

    def roles(self) -> dict[str, list[int]]:
        """Returns process ids by role: of gateways, and of all that `coldnotify up` has started with them."""
        found: dict[str, list[int]] = {}
        for pid in self.gateways:
            found.setdefault("gateway", []).append(pid)
        supervisors = {parent for pid in self.gateways if role_of(_words(parent := _parent(pid))) == "up"}
        if supervisors:
            for pid in _pids():
                if pid not in self.gateways and _parent(pid) in supervisors:
                    found.setdefault(role_of(_words(pid)), []).append(pid)
        return found

    def connections(self) -> dict[int, int]:
        """Returns how many connections each gateway has, by its process id."""
        if not self.gateways:
            return {}
        theirs = self._inodes(_ESTABLISHED)
        return {pid: len(theirs & _sockets_of(pid)) for pid in self.gateways}

    def _inodes(self, state: str) -> set[str]:
        """Sockets in a state whose local port is one of the gateways'."""
        found = set()
        for name in ("tcp", "tcp6"):
            try:
                lines = (_PROC / "net" / name).read_text().splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                words = line.split()
                if words[3] == state and int(words[1].rpartition(":")[2], 16) in self._ports:
                    found.add(words[9])
        return found - {"0"}


def role_of(words: list[str]) -> str:
    """Returns the role of a process by its command line: a part of ColdNotify by its name, Kafka, or other."""
    for at, word in enumerate(words[:-1]):
        if word == _MODULE or word.rpartition("/")[2] == "coldnotify":
            return words[at + 1]
    return "kafka" if words and words[0].rpartition("/")[2] == "java" else "other"


def by_number(counts: Counter[tuple[str, int]]) -> dict[str, int]:
    """Returns the counts by host:port, as texts."""
    return {f"{host}:{port}": count for (host, port), count in sorted(counts.items())}


def _pids() -> Iterator[int]:
    return (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        paths = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return found
    for path in paths:
        with suppress(OSError):  # it may be closed by now, and the others are there
            target = os.readlink(path)  # noqa: PTH115  (it is no path)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _words(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
