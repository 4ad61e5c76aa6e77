"""What `coldnotify up` takes: its own settings, and a port for each listener and each job that does not ship."""

from dataclasses import make_dataclass
from typing import Any

from coldnotify_common.settings import setting
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_streams.jobs.registry import JOBS

from coldnotify_cli.settings import UpSettings


def _port(name: str, default: int, words: str) -> tuple[str, type[int], Any]:
    return name, int, setting(default, words, minimum=0, maximum=65535)


_LISTENERS = [
    _port(row.port_setting, 0, f"{row.port_help}; 0: a port near --gateway-port, or any free port if that is taken")
    for row in LISTENERS
    if row.settings is not None
]
_JOBS = [_port(row.port_setting, row.port, f"HTTP port of the job {row.name}; 0: any free port") for row in JOBS]

EveryUpSetting = make_dataclass("UpSettings", [*_LISTENERS, *_JOBS], bases=(UpSettings,), frozen=True, kw_only=True)
