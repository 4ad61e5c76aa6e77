"""Settings of `coldnotify up` for the ports of listeners and parts that UpSettings does not name."""

from dataclasses import make_dataclass

from coldnotify_common.settings import Settings, setting
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_parts.registry import PARTS

from coldnotify_cli.settings import UpSettings


def _alone(port_setting: str, words: str) -> type[Settings]:
    field = setting(0, f"{words}, or any free port if that is taken", minimum=0, maximum=65535)
    return make_dataclass("PortSetting", [(port_setting, int, field)], bases=(Settings,), frozen=True, kw_only=True)


PORTS = tuple(
    _alone(name, words)
    for name, words in (
        *((row.port_setting, f"port of the listener {row.name}; 0: one near --gateway-port") for row in LISTENERS),
        *((row.port_setting, f"HTTP port of the {row.title}; 0: {row.port}") for row in PARTS),
    )
    if not hasattr(UpSettings, name)
)
