"""The settings of the TCP listener."""

from dataclasses import dataclass

from coldnotify_common.settings import Settings, setting
from coldnotify_schemas.protocol import DEVICE_PORT


@dataclass(frozen=True, kw_only=True)
class TcpSettings(Settings):
    """Settings of the port that devices connect to by TCP."""

    gateway_port: int = setting(
        DEVICE_PORT,
        "TCP port that devices connect to; several gateways may share it; 0: any free port",
        minimum=0,
        maximum=65535,
    )
