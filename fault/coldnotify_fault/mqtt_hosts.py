"""The processes of MQTT devices: starts, commands and kills them, and knows the filters that each one should have."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldnotify_fault.device_host import state_file
from coldnotify_fault.devices import DeviceProcess
from coldnotify_fault.mqtt_steps import ScheduledMqttDevice


@dataclass(slots=True)
class _Intent:
    """A device's intended filters, whether its process runs or not."""

    device: ScheduledMqttDevice
    filters: dict[str, dict[str, Any]]
    awake: bool = False

    def change(self, what: str, arguments: dict[str, Any]) -> None:
        """Takes in a command to its device."""
        if what in ("connect", "disconnect"):
            self.awake = what == "connect"
        elif what == "subscribe":
            self.filters[arguments["filter"]] = arguments
        elif what == "unsubscribe":
            self.filters.pop(arguments["filter"], None)


class MqttHosts:
    """All processes of MQTT devices. Not for two threads at once."""

    def __init__(self, directory: Path, devices: Sequence[ScheduledMqttDevice], gateways: list[str]) -> None:
        """`directory` has one named `states`. Nothing is started yet."""
        self._directory = directory
        self._intents = {one.name: _Intent(one, {str(f["filter"]): dict(f) for f in one.filters}) for one in devices}
        self._hosts: dict[str, DeviceProcess] = {}
        for name in sorted({one.host for one in devices}):
            flags = ["--form=mqtt", f"--states={directory / 'states'}", f"--history={directory / f'{name}.jsonl'}"]
            flags += [f"--gateway={address}" for address in gateways]
            self._hosts[name] = DeviceProcess("coldnotify_fault.device_host", flags, directory / f"{name}.log")

    def histories(self) -> list[Path]:
        """The files that they write."""
        return [self._directory / f"{name}.jsonl" for name in self._hosts]

    def start(self, host: str) -> None:
        """Gives a process its power; those that should be awake connect."""
        if not self._hosts[host].start():
            return
        for name, intent in self._intents.items():
            if intent.device.host == host:
                said = {"protocol": intent.device.protocol, "kept": intent.device.kept}
                self._hosts[host].command("start", name, **said, filters=list(intent.filters.values()))
                if intent.awake:
                    self._hosts[host].command("connect", name)

    def start_all(self) -> None:
        """All of them."""
        for host in self._hosts:
            self.start(host)

    def kill(self, host: str, wiped: Sequence[str]) -> None:
        """Power loss: kill -9. The devices `wiped` forget which filters they have."""
        if self._hosts[host].kill():
            for name in wiped:
                state_file(self._directory / "states", name).unlink(missing_ok=True)

    def do(self, what: str, name: str, arguments: dict[str, Any]) -> None:
        """Have a device connect, disconnect, crash, subscribe, unsubscribe or publish. One without power does later
        what changes it, and publishes nothing.
        """
        intent = self._intents[name]
        if what == "crash" and not intent.awake:
            return
        intent.change(what, arguments)
        host = self._hosts[intent.device.host]
        if host.has_power:
            host.command(what, name, **arguments)

    def wanted(self) -> dict[str, set[str]]:
        """Returns, for each device that should be connected, its filters."""
        return {name: set(intent.filters) for name, intent in self._intents.items() if intent.awake}

    def ended(self) -> list[str]:
        """The processes that ended by themselves: that is a fault of ours."""
        return [name for name, host in self._hosts.items() if host.has_ended()]

    def stop(self) -> None:
        """Kill them all."""
        for host in self._hosts.values():
            with suppress(subprocess.TimeoutExpired):
                host.kill()
