"""Limits of this machine that a swarm of connections reaches, and what of them is missing, in numbers."""

import resource
from dataclasses import dataclass
from pathlib import Path

FILES_KEPT = 500
"""Open files of a process that are no connections."""
KERNEL_BYTES = 10 * 1024
"""The kernel's memory for a connection, with both ends on this machine."""
DEVICE_BYTES = 2 * 1024
"""A swarm's process for a device: 1.3 KB were measured for one of TCP with one topic, of 4,000."""
PROCESS_BYTES = 24 << 20
"""A swarm's process without devices: 19 MB were measured."""
TLS_BYTES = 40 * 1024
"""The same for a device with TLS, besides."""
_PROC = Path("/proc")


@dataclass(frozen=True)
class MachineLimits:
    """The limits. None: this machine has none, or does not say."""

    files: int
    """Open files that one process may have."""
    ports: int
    """Source ports of one address to one gateway address."""
    conntrack: int | None
    """Connections that the firewall can still remember."""
    tcp_pages: int | None
    """Pages of memory that TCP can still take."""
    memory_bytes: int | None
    """Memory that is free, or would be."""


@dataclass(frozen=True)
class SwarmNeeds:
    """The needs of a swarm."""

    connections: int
    processes: int
    sources: int
    """Addresses that it connects from."""
    gateways: int
    """Addresses that it connects to."""
    tls: bool = False


def read_limits(proc: Path = _PROC) -> MachineLimits:
    """Returns this machine's, as of now."""
    first, last = (int(word) for word in (proc / "sys/net/ipv4/ip_local_port_range").read_text().split())
    most = _number(proc / "sys/net/netfilter/nf_conntrack_max")
    used = _number(proc / "sys/net/netfilter/nf_conntrack_count") or 0
    return MachineLimits(
        resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        last - first + 1,
        None if most is None else most - used,
        _tcp_pages(proc),
        _available(proc),
    )


def missing(needs: SwarmNeeds, limits: MachineLimits) -> list[str]:
    """Returns a sentence for each limit that is too low: what is needed, what there is, what to change."""
    found = []

    def check(what: str, needed: int, there: int | None, change: str) -> None:
        if there is not None and needed > there:
            found.append(f"{what}: {needed:,} needed, {there:,} there, {needed - there:,} missing ({change})")

    connections = needs.connections
    check(
        "open files of a process",
        -(-connections // needs.processes) + FILES_KEPT,
        limits.files,
        "ulimit -n, or more --processes",
    )
    check(
        "source ports",
        connections,
        limits.ports * needs.sources * needs.gateways,
        f"{needs.sources:,} source addresses with {limits.ports:,} ports each: more of them by --sources, or "
        "net.ipv4.ip_local_port_range",
    )
    check("connections that the firewall tracks", connections, limits.conntrack, "net.netfilter.nf_conntrack_max")
    check("pages of TCP's memory", connections, limits.tcp_pages, "net.ipv4.tcp_mem, the third number")
    a_device = KERNEL_BYTES + DEVICE_BYTES + (TLS_BYTES if needs.tls else 0)
    there = None if limits.memory_bytes is None else limits.memory_bytes >> 20
    needed = connections * a_device + needs.processes * PROCESS_BYTES
    check("memory in MiB", needed >> 20, there, f"{a_device:,} bytes a connection, without gateways")
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _tcp_pages(proc: Path) -> int | None:
    try:
        most = int((proc / "sys/net/ipv4/tcp_mem").read_text().split()[2])
        lines = (proc / "net/sockstat").read_text().splitlines()
        words = next(line.split() for line in lines if line.startswith("TCP:"))
        return most - int(words[words.index("mem") + 1])
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _available(proc: Path) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
