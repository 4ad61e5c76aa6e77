"""The origin of figures: the machine, all versions, the commit."""

import importlib.metadata
import os
import platform
import resource
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coldnotify_kafka.broker import KAFKA_VERSION

from coldnotify_loadtest import servers

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("confluent-kafka", "protobuf", "uvloop", "hdrhistogram")
_PROGRAMS = {"nats-server": "--version", "mosquitto": "-h", "redis-server": "--version"}
_ANSWER_S = 20.0


def provenance() -> dict[str, Any]:
    """Returns all of it as JSON values. What cannot be determined is "unknown"."""
    load = os.getloadavg()
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _said(["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"]),
        "changed": bool(_said(["git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no"], "")),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "kernel": platform.release(),
            "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "load_before": round(load[0], 2),
        },
        "versions": {
            "python": platform.python_version(),
            "kafka": KAFKA_VERSION,
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
            **{name: _version(name, flag) for name, flag in _PROGRAMS.items()},
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(program: str, flag: str) -> str:
    path = servers.find(program)
    return _said([path, flag]).splitlines()[0] if path else "not installed"


def _said(argv: list[str], otherwise: str = "unknown") -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return otherwise
    return (done.stdout or done.stderr).strip() or otherwise
