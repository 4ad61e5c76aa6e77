"""CPU time and memory of processes, from /proc."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MIB = 2**20


@dataclass(frozen=True)
class Usage:
    """The usage of one or several processes."""

    cpu_s: float
    """User and system time so far."""
    resident_bytes: int
    """Resident memory that is not of files (RssAnon): what the process itself has taken."""


def usage(pids: Iterable[int]) -> Usage:
    """Returns the usage of all of them together; ended ones count as nothing."""
    cpu_s, resident = 0.0, 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        cpu_s += (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                resident += int(line.split()[1]) * 1024
    return Usage(cpu_s, resident)


class Meter:
    """Measures what each role's processes use between two looks."""

    def __init__(self, roles: Mapping[str, Iterable[int]]) -> None:
        self._roles = {role: tuple(pids) for role, pids in roles.items()}
        self._before = {role: usage(pids) for role, pids in self._roles.items()}

    def read(self) -> dict[str, dict[str, Any]]:
        """Returns by role the CPU seconds since the beginning, and the present memory in MiB."""
        found = {}
        for role, pids in self._roles.items():
            now = usage(pids)
            found[role] = {
                "cpu_s": round(now.cpu_s - self._before[role].cpu_s, 3),
                "memory_mib": round(now.resident_bytes / _MIB, 1),
            }
        return found


def per_delivery_us(used: Mapping[str, Mapping[str, Any]], deliveries: int) -> dict[str, float]:
    """Returns by role the CPU microseconds per delivery."""
    return {role: round(float(one["cpu_s"]) / max(deliveries, 1) * 1e6, 2) for role, one in used.items()}
