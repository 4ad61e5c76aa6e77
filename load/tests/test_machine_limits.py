"""Limits of a machine, and what of them is missing."""

from dataclasses import replace
from pathlib import Path

from coldnotify_load.machine_limits import MachineLimits, SwarmNeeds, missing, read_limits

PLENTY = MachineLimits(1_000_000, 28_232, None, None, None)
NEEDS = SwarmNeeds(100_000, processes=10, sources=4, gateways=1)


def test_each_limit_that_is_too_low_is_said_in_numbers() -> None:
    assert missing(NEEDS, PLENTY) == []
    few = MachineLimits(4096, 20_000, 60_000, 99_999, 100 << 20)
    said = missing(NEEDS, few)
    assert [line.partition(":")[0] for line in said] == [
        "open files of a process",
        "source ports",
        "connections that the firewall tracks",
        "pages of TCP's memory",
        "memory in MiB",
    ]
    assert "10,500 needed, 4,096 there, 6,404 missing" in said[0]
    assert "100,000 needed, 80,000 there, 20,000 missing" in said[1]
    assert "--sources" in said[1]
    assert "100,000 needed, 99,999 there, 1 missing" in said[3]
    assert "1,411 needed, 100 there" in said[4]


def test_more_sources_or_processes_help() -> None:
    assert missing(replace(NEEDS, sources=3), PLENTY)
    assert missing(replace(NEEDS, sources=1, gateways=4), PLENTY) == []
    assert missing(NEEDS, replace(PLENTY, files=10_499))
    assert missing(replace(NEEDS, processes=20), replace(PLENTY, files=10_499)) == []


def test_this_machines_limits_are_read() -> None:
    limits = read_limits()
    assert limits.files > 0
    assert limits.ports > 0
    assert limits.memory_bytes is not None
    assert limits.memory_bytes > 0


def test_a_machine_that_does_not_say_has_no_limit(tmp_path: Path) -> None:
    ports = tmp_path / "sys/net/ipv4/ip_local_port_range"
    ports.parent.mkdir(parents=True)
    ports.write_text("32768\t60999\n")
    limits = read_limits(tmp_path)
    assert (limits.ports, limits.conntrack, limits.tcp_pages, limits.memory_bytes) == (28_232, None, None, None)
    conntrack = tmp_path / "sys/net/netfilter"
    conntrack.mkdir(parents=True)
    (conntrack / "nf_conntrack_max").write_text("1000\n")
    (conntrack / "nf_conntrack_count").write_text("10\n")
    (tmp_path / "sys/net/ipv4/tcp_mem").write_text("1\t2\t300\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net/sockstat").write_text("sockets: used 9\nTCP: inuse 4 orphan 0 tw 0 alloc 5 mem 7\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  8 kB\n")
    limits = read_limits(tmp_path)
    assert (limits.conntrack, limits.tcp_pages, limits.memory_bytes) == (990, 293, 8192)
