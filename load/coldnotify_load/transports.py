"""Transports of a bench's devices, each made of devices of one protocol around another."""

from functools import partial

from coldnotify_load.channel_device import ChannelDevice
from coldnotify_load.load_device import DeviceMaker
from coldnotify_load.mqtt_device import MqttToColdNotify
from coldnotify_load.tcp_device import ColdNotifyDevice
from coldnotify_load.tls_device import TlsDevice, TlsFiles
from coldnotify_load.web_device import WebDevice

PORTS = {"tcp": 55000, "ws": 55003, "wss": 55003, "mqtt": 1883}
"""By transport, the port that gateways have for it where nobody said another one."""


def device_of(transport: str, tls: TlsFiles | None, *, channels: bool) -> DeviceMaker:
    """Returns what makes the devices of a transport of PORTS. `tls`: None for connections in the clear."""
    plain: DeviceMaker = ChannelDevice if channels else ColdNotifyDevice
    if transport == "mqtt":
        plain = MqttToColdNotify
    elif transport in ("ws", "wss"):
        plain = partial(WebDevice, inside=plain)
    return plain if tls is None else partial(TlsDevice, plain, tls)
