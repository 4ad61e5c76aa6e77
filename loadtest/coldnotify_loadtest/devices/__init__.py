"""The devices' side of each protocol, as little of it as a real client would send. Pure: bytes in, bytes out.

A device sends `hello()`, then answers what it receives; `receive` returns what to send and the publishers' stamps that
arrived. Devices of a fan-out receive the same bytes: their meaning is cached, so that a swarm stays light.
"""

from typing import Protocol

from coldnotify_loadtest.devices.bare import BareDevice
from coldnotify_loadtest.devices.coldnotify import ColdNotifyDevice
from coldnotify_loadtest.devices.mqtt import MqttDevice, MqttDevice0, MqttToColdNotify, MqttToColdNotify0
from coldnotify_loadtest.devices.nats import KvDevice, NatsDevice
from coldnotify_loadtest.devices.queries import QueryDevice
from coldnotify_loadtest.devices.redis import RedisDevice
from coldnotify_loadtest.devices.web import WebDevice
from coldnotify_loadtest.population import Population


class LoadDevice(Protocol):
    """One connection's protocol."""

    ready: bool
    """Subscribed and complete: what is published from now on arrives."""
    closed: str
    """Why the server sent it away; empty: it did not."""

    def hello(self) -> bytes:
        """Returns what to send on a new connection; begins a new session."""

    def receive(self, data: bytes) -> tuple[bytes, tuple[int, ...]]:
        """Returns what to answer, and the stamps of the publishes that arrived.

        A negative stamp is a difference of a set: -1 minus the offset of the change that caused it.
        """

    def tick(self) -> bytes:
        """Returns what to send a second after something arrived."""

    def ping(self) -> bytes:
        """Returns what to send once a keepalive."""


KINDS: dict[str, type] = {
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
    device: LoadDevice = KINDS[kind](population, number)
    return device
