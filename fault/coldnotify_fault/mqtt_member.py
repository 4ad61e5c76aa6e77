"""One MQTT device without a library: has the filters that it wants, and records all of it. Commands: `device_host`."""

import json
import random
import time
from pathlib import Path
from typing import Any

from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import TopicSubscription
from coldnotify_testkit.raw_mqtt_device import FOR_EVER_S, MqttManner, RawMqttDevice
from coldnotify_testkit.raw_mqtt_link import MqttPauses, RawMqttLink

from coldnotify_fault.history import HistoryFile

CRASHES = 0.002
"""So often, when bytes come, a device loses its connection before it has taken them, or has answered."""
_PAUSES = MqttPauses(connect_s=10.0, back_off_s=1.0, ping_s=2.0, pong_s=15.0, drain_s=3.0)
_KEEP_ALIVE_S = 10
_ASK_AGAIN_S = 3.0
"""After a filter was refused, as while topics are missing."""
_UNANSWERED_MAX = 50


class MqttMember:
    """A raw MQTT device. Its disk has the filters that were granted: it trusts a session that is present."""

    def __init__(self, name: str, gateways: list[str], state: Path, history: HistoryFile) -> None:
        self._name = name
        self._state = state
        self._history = history
        self._addresses = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in gateways)]
        self._wanted: dict[str, TopicSubscription] = {}
        self._asked_s: dict[str, float] = {}
        """By filter, when it was last asked for in this connection."""
        self._on_disk: set[str] = set()
        self._link: RawMqttLink | None = None

    def do(self, command: dict[str, Any]) -> None:
        """Queue a command; the first one is `start`."""
        if self._link is None:
            self._link = self._start(command)
        else:
            self._link.do(lambda device: getattr(self, f"_{command['do']}")(device, command))

    def _start(self, command: dict[str, Any]) -> RawMqttLink:
        kept = command["kept"]
        manner = MqttManner(
            ProtocolVersion(command["protocol"]),
            clean=not kept,
            expiry_s=FOR_EVER_S if kept else 0,
            keep_alive_s=_KEEP_ALIVE_S,
        )
        device = RawMqttDevice(self._name, self._history.append, manner)
        if self._state.exists():
            device.filters.update(json.loads(self._state.read_text()))
            self._on_disk = set(device.filters)
        for one in command["filters"]:
            self._subscribe(device, one)
        link = RawMqttLink(
            device,
            self._addresses,
            pauses=_PAUSES,
            crashes=CRASHES,
            look=self._look,
            random_=random.Random(f"{self._name} {time.time_ns()}"),
        )
        link.start()
        return link

    # Commands

    def _connect(self, device: RawMqttDevice, _: dict[str, Any]) -> None:
        assert self._link is not None
        self._link.connect()

    def _disconnect(self, device: RawMqttDevice, _: dict[str, Any]) -> None:
        assert self._link is not None
        self._link.sleep()

    def _crash(self, device: RawMqttDevice, _: dict[str, Any]) -> None:
        assert self._link is not None
        self._link.crash()
        self._link.connect()

    def _subscribe(self, device: RawMqttDevice, command: dict[str, Any]) -> None:
        fields = {name: command[name] for name in TopicSubscription.__struct_fields__ if name in command}
        self._wanted[command["filter"]] = TopicSubscription(**fields)

    def _unsubscribe(self, device: RawMqttDevice, command: dict[str, Any]) -> None:
        self._wanted.pop(command["filter"], None)

    def _publish(self, device: RawMqttDevice, command: dict[str, Any]) -> None:
        if not device.connected or device.unanswered >= _UNANSWERED_MAX:
            return
        payload = json.dumps({"number": command["number"]}).encode()
        if command["deletes"]:
            payload = b""
        elif command["raw"]:
            payload = b"\xff\x00" + payload
        device.publish(command["topic"], payload, qos=command["qos"], retain=command["retain"])

    # Filters

    def _look(self, device: RawMqttDevice) -> None:
        if not device.connected:
            self._asked_s.clear()
            return
        unwanted = device.filters.keys() - self._wanted.keys()
        self._save({text: qos for text, qos in device.filters.items() if text not in unwanted})
        if unwanted:
            device.unsubscribe(*sorted(unwanted))
        now_s = time.monotonic()
        lacking = [
            one
            for text, one in self._wanted.items()
            if text not in device.filters and now_s > self._asked_s.get(text, -_ASK_AGAIN_S) + _ASK_AGAIN_S
        ]
        if lacking:
            self._asked_s |= {one.filter: now_s for one in lacking}
            device.subscribe(*lacking)

    def _save(self, granted: dict[str, int]) -> None:
        """Before it says that it no longer wants one: else it would take that for there, after a loss of power."""
        if granted.keys() != self._on_disk:
            new = self._state.with_suffix(".new")
            new.write_text(json.dumps(granted))
            new.replace(self._state)
            self._on_disk = set(granted)
