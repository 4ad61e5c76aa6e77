"""The devices' side of each protocol that is measured, by the kind of its server. See LoadDevice."""

from coldnotify_load.load_device import DeviceMaker, LoadDevice
from coldnotify_load.mqtt_device import MqttDevice, MqttDevice0, MqttToColdNotify, MqttToColdNotify0
from coldnotify_load.population import Population
from coldnotify_load.tcp_device import ColdNotifyDevice
from coldnotify_load.web_device import WebDevice

from coldnotify_loadtest.devices.bare import BareDevice
from coldnotify_loadtest.devices.nats import KvDevice, NatsDevice
from coldnotify_loadtest.devices.queries import QueryDevice
from coldnotify_loadtest.devices.redis import RedisDevice

KINDS: dict[str, DeviceMaker] = {
    "coldnotify": ColdNotifyDevice,
    "coldnotify-queries": QueryDevice,
    "coldnotify-web": WebDevice,
    "nats": NatsDevice,
    "nats-kv": KvDevice,
    "mqtt": MqttDevice,
    "mqtt-0": MqttDevice0,
    "coldnotify-mqtt": MqttToColdNotify,
    "coldnotify-mqtt-0": MqttToColdNotify0,
    "redis": RedisDevice,
    "bare": BareDevice,
}


def make(kind: str, population: Population, number: int) -> LoadDevice:
    """Device `number` of a population."""
    return KINDS[kind](population, number)
