"""Draws a campaign's MQTT devices: what they subscribe to and publish, when they sleep, crash and lose power. Pure.

All of them are in one group that has no other clients: nobody there has members, which versions by arrival would be. It
shares its partition of the logs with groups that have films, and whose messages are removed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from coldnotify_testkit.mqtt_topics import FILTERS, MQTT_CHANNELS, MQTT_OBJECTS, RETAINED, UNRETAINED

from coldnotify_fault.channel_steps import SENDERS, Drawn

MQTT_GROUP = "camera.control/meters"
MQTT_DEVICES = 4
MQTT_DEVICES_MAX = 20
MQTT_HOSTS = ("mqtt-1", "mqtt-2")
"""The processes that host them."""
MQTT_KILLED = "mqtt_device_killed"
_PUBLISHES_PER_S = 5.0
_VERSIONS_PER_S = 0.6
_SENDS_PER_S = 0.8
_DOES_EVERY_S = 4.0
_DELETES = 0.08
_KILLED_EVERY_S = 10.0
_FIRST_LOSS_S = 3.0
_TAIL_S = 1.0
_REST_S = 2.0
_WITHOUT_POWER_S = (0.1, 4.0)
_WIPED = 0.3


class ScheduledMqttDevice(NamedTuple):
    """One device, and what it subscribes to when it is started first."""

    name: str
    """domain/group/client."""
    host: str
    protocol: int
    """4: MQTT 3.1.1; 5."""
    kept: bool
    """Its session outlives its connections."""
    filters: tuple[Mapping[str, Any], ...]
    """The fields of each TopicSubscription."""


def draw_devices(random: Random, number: int) -> tuple[ScheduledMqttDevice, ...]:
    """Of four, two have kept sessions, and two speak 3.1.1. The first one has everything."""
    drawn = []
    for index in range(number):
        protocol = 5 if index % 2 == 0 else 4
        texts = random.sample(FILTERS[1:], random.randint(1, 3))
        if index == 0 or random.random() < 0.3:
            texts[0] = FILTERS[0]
        filters = tuple(_subscription(random, text, protocol) for text in texts)
        host = MQTT_HOSTS[index % len(MQTT_HOSTS)]
        drawn.append(ScheduledMqttDevice(f"{MQTT_GROUP}/meter-{index + 1}", host, protocol, index % 4 < 2, filters))
    return tuple(drawn)


def draw_steps(
    random: Random, seconds: float, devices: Sequence[ScheduledMqttDevice], backends: Sequence[str]
) -> Iterator[Drawn]:
    """Everything but losses of power, not in order of time. A `publish` has an object and a version, and no content."""
    if not devices:
        return
    for device in devices:
        yield from _draw_doing(random, seconds, device)
    at_s, number = 0.0, 0
    while (at_s := at_s + random.expovariate(_PUBLISHES_PER_S / 2)) < seconds:
        device = random.choice(devices)
        for _ in range(random.choice((1, 1, 1, 5))):
            number += 1
            retain = random.random() < 0.5
            said = {"topic": random.choice(RETAINED if retain else UNRETAINED), "retain": retain, "number": number}
            # No two payloads are the same: without properties that say more, a device is known to have one by it.
            said |= {"deletes": retain and random.random() < _DELETES, "raw": random.random() < 0.2}
            yield at_s, "mqtt_publish", device.name, {**said, "qos": random.choice((0, 1, 1, 1))}
    versions = dict.fromkeys(MQTT_OBJECTS, 0)
    at_s = 0.0
    while (at_s := at_s + random.expovariate(_VERSIONS_PER_S)) < seconds:
        name = random.choice(MQTT_OBJECTS)
        versions[name] += 1
        arguments = {"object": f"{MQTT_GROUP}/{name}", "version": versions[name]}
        yield at_s, "publish", random.choice(backends), arguments
    at_s = 0.0
    while (at_s := at_s + random.expovariate(_SENDS_PER_S)) < seconds:
        number += 1
        message: dict[str, Any] = {
            "channel": f"{MQTT_GROUP}/{random.choice(MQTT_CHANNELS)}", "message": f"q{number}",
            "payload": {"sent": number}, "to": [], "priority": None, "stray": False,
        }  # fmt: skip
        yield at_s, "send", random.choice(SENDERS), message


def draw_losses(
    random: Random, seconds: float, devices: Sequence[ScheduledMqttDevice], kinds: Collection[str]
) -> Iterator[Drawn]:
    """Losses of power, each with its end; they leave other faults alone."""
    hosts = sorted({device.host for device in devices})
    at_s = _FIRST_LOSS_S + random.expovariate(1 / _KILLED_EVERY_S)
    while hosts and MQTT_KILLED in kinds and at_s < seconds - _TAIL_S:
        host = random.choice(hosts)
        wiped = [device.name for device in devices if device.host == host and random.random() < _WIPED]
        yield at_s, "fault", host, {"kind": MQTT_KILLED, "wiped": wiped}
        at_s += random.uniform(*_WITHOUT_POWER_S)
        yield at_s, "heal", host, {"kind": MQTT_KILLED}
        at_s += _REST_S + random.expovariate(1 / _KILLED_EVERY_S)


def _draw_doing(random: Random, seconds: float, device: ScheduledMqttDevice) -> Iterator[Drawn]:
    """It comes, sleeps, crashes, and changes its filters; most of them are awake at the end."""
    awake = random.random() < 0.8
    texts = [one["filter"] for one in device.filters]
    if awake:
        yield random.uniform(0, 1.0), "mqtt_connect", device.name, {}
    at_s = 1.0
    while (at_s := at_s + random.expovariate(1 / _DOES_EVERY_S)) < seconds:
        drawn = random.random()
        if drawn < 0.3 or not awake:
            awake = not awake
            yield at_s, "mqtt_connect" if awake else "mqtt_disconnect", device.name, {}
        elif drawn < 0.6:
            yield at_s, "mqtt_crash", device.name, {}
        else:
            text = random.choice(FILTERS)
            if text in texts and len(texts) > 1:
                texts.remove(text)
                yield at_s, "mqtt_unsubscribe", device.name, {"filter": text}
            elif text not in texts:
                texts.append(text)
                yield at_s, "mqtt_subscribe", device.name, dict(_subscription(random, text, device.protocol))
    if not awake and random.random() < 0.8:
        yield seconds, "mqtt_connect", device.name, {}


def _subscription(random: Random, text: str, protocol: int) -> dict[str, Any]:
    said: dict[str, Any] = {"filter": text, "qos": random.choice((0, 1, 1, 1))}
    if protocol == 4:
        return said
    return said | {
        "no_local": random.random() < 0.25,
        "retain_as_published": random.random() < 0.25,
        "retain_handling": random.choice((0, 0, 0, 1, 2)),
    }
