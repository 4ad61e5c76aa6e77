"""The devices: starts, commands and kills processes of `device_host`, and knows what each client should do."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldnotify_kafka.broker.process import spawn

from coldnotify_fault.device_host import state_file
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import COUNTED, COUNTED_GROUP, DEVICES, CampaignSchedule

_END_S = 15.0


@dataclass(slots=True)
class Intent:
    """A client's intended registrations and subscriptions, whether its device runs or not."""

    device: str
    wanted: set[str]
    queries: set[str]
    channels: dict[str, dict[str, Any]]
    """The fields of each subscription, by channel's name."""
    awake: bool = False
    life: int = 0


@dataclass(slots=True)
class DeviceProcess:
    """One process that hosts clients: started again and again, and commanded by JSON lines on a pipe."""

    module: str
    flags: list[str]
    log: Path
    temporary: str = tempfile.gettempdir()
    """The directory of what a process that is killed leaves behind."""
    _process: subprocess.Popen[bytes] | None = None
    _commands: int = -1

    @property
    def has_power(self) -> bool:
        """Returns true from its start until it is killed."""
        return self._process is not None

    def start(self) -> bool:
        """Starts it. Returns false if it has power already."""
        if self._process is not None:
            return False
        read_end, self._commands = os.pipe()
        argv = [sys.executable, "-m", self.module, f"--commands={read_end}", *self.flags]
        self._process = spawn(argv, self.log, keep_open=[read_end], environ={**os.environ, "TMPDIR": self.temporary})
        os.close(read_end)
        return True

    def command(self, what: str, client: str, **arguments: Any) -> None:
        """Has one of its clients do something."""
        line = json.dumps({"do": what, "client": client, **arguments}, ensure_ascii=False) + "\n"
        # A device that has ended by itself is found by `has_ended`.
        with suppress(BrokenPipeError):
            os.write(self._commands, line.encode())

    def kill(self) -> bool:
        """Power loss: kill -9. Returns false if it has no power. Raises TimeoutExpired."""
        if self._process is None:
            return False
        process, self._process = self._process, None
        os.close(self._commands)
        process.kill()
        process.wait(_END_S)
        return True

    def has_ended(self) -> bool:
        """Returns true if it has ended by itself: that is a fault of ours."""
        return self._process is not None and self._process.poll() is not None


class Devices:
    """All devices and their clients. Not for two threads at once."""

    def __init__(
        self, directory: Path, schedule: CampaignSchedule, gateways: list[str], connection_history: HistoryFile
    ) -> None:
        """`connection_history` takes what only the one who kills knows."""
        self._directory = directory
        self._history = connection_history
        self.intents = {
            client.name: Intent(
                client.device,
                {*client.wanted, *(COUNTED if client.name.startswith(f"{COUNTED_GROUP}/") else ())},
                set(client.queries),
                {one.channel: one._asdict() for one in client.channels},
            )
            for client in (*schedule.clients, *schedule.linked)
        }
        self._devices: dict[str, DeviceProcess] = {}
        # The names of Unix sockets are short: not in `directory`.
        self._temporary = tempfile.TemporaryDirectory(prefix="coldnotify-devices-", ignore_cleanup_errors=True)
        forms = {f"device-{number}": schedule.form_of(number) for number in range(1, DEVICES + 1)}
        forms |= {client.device: "link" for client in schedule.linked}
        for name, form in forms.items():
            flags = [f"--form={form}", f"--states={directory / 'states'}"]
            flags += [f"--history={directory / f'{name}.jsonl'}", *(f"--gateway={address}" for address in gateways)]
            log = directory / f"{name}.log"
            self._devices[name] = DeviceProcess("coldnotify_fault.device_host", flags, log, self._temporary.name)
        (directory / "states").mkdir()

    def histories(self) -> list[Path]:
        """The files that the devices write."""
        return [self._directory / f"{name}.jsonl" for name in self._devices]

    def start(self, name: str) -> None:
        """Start a device and, in it, its clients; those that should be awake connect."""
        if not self._devices[name].start():
            return
        for client, intent in self.intents.items():
            if intent.device == name:
                wanted = {"wanted": sorted(intent.wanted), "queries": sorted(intent.queries)}
                channels = list(intent.channels.values())
                self._command(client, "start", life=intent.life, **wanted, channels=channels)
                if intent.awake:
                    self._command(client, "connect")

    def start_all(self) -> None:
        """All of them."""
        for name in self._devices:
            self.start(name)

    def kill(self, name: str, wiped: list[str]) -> None:
        """Power loss: kill -9. The clients `wiped` lose their state file."""
        if not self._devices[name].kill():
            return
        for client, intent in self.intents.items():
            if intent.device == name:
                self._history.write("killed", client=client)
                if client in wiped:
                    state_file(self._directory / "states", client).unlink(missing_ok=True)
                    intent.life += 1

    def do(self, what: str, client: str, arguments: dict[str, Any]) -> None:
        """Have a client connect, disconnect, register, unregister, subscribe, unsubscribe or fail_next; one without
        power does it later. One without power sends nothing."""
        intent = self.intents[client]
        if what in ("connect", "disconnect"):
            intent.awake = what == "connect"
        elif what == "register":
            intent.wanted.add(arguments["object"])
        elif what == "unregister":
            intent.wanted.discard(arguments["object"])
        elif what == "register_query":
            intent.queries.add(arguments["query"])
        elif what == "unregister_query":
            intent.queries.discard(arguments["query"])
        elif what == "subscribe":
            intent.channels[arguments["channel"]] = arguments
        elif what == "unsubscribe":
            intent.channels.pop(arguments["channel"], None)
        if self._devices[intent.device].has_power:
            self._command(client, what, **arguments)

    def owed(self) -> dict[str, set[str]]:
        """Returns, for each client that should be connected, the objects whose newest versions it should know, as
        domain/group/object.
        """
        return {
            client: {f"{client.rpartition('/')[0]}/{name}" for name in intent.wanted}
            for client, intent in self.intents.items()
            if intent.awake
        }

    def queries(self) -> dict[str, set[str]]:
        """Returns, for each client that should be connected, the queries whose members it should know."""
        return {client: set(intent.queries) for client, intent in self.intents.items() if intent.awake}

    def channels(self) -> dict[str, set[str]]:
        """Returns, for each client that should be connected, the names of the channels that it
        should be told all of.
        """
        return {client: set(intent.channels) for client, intent in self.intents.items() if intent.awake}

    def ended(self) -> list[str]:
        """The devices that ended by themselves: that is a fault of ours."""
        return [name for name, device in self._devices.items() if device.has_ended()]

    def stop(self) -> None:
        """Kill them all."""
        for device in self._devices.values():
            with suppress(subprocess.TimeoutExpired):
                device.kill()
        self._temporary.cleanup()

    def _command(self, client: str, what: str, **arguments: Any) -> None:
        self._devices[self.intents[client].device].command(what, client, **arguments)
