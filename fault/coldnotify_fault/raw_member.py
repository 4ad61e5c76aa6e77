"""One application over a raw device, which knows docs/protocol.md alone. Commands: see `device_host`."""

import json
import os
import random
import time
from pathlib import Path
from typing import Any

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_testkit.raw_device.application import ChannelGap, Version
from coldnotify_testkit.raw_device.device import Names, RawDevice, Timing
from coldnotify_testkit.raw_device.link import Pauses, RawLink
from coldnotify_testkit.raw_device.state import FileDisk

from coldnotify_fault.channel_steps import CHANNELS
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import ALL_QUERIES, COUNTED, DESCRIBED, OBJECTS

CRASHES = 0.01
"""So often, when something comes, a raw device forgets all but its disk."""
_TIMING = Timing(welcome_s=30.0, answer_s=5.0, ack_delay_s=0.2, keepalive_s=2, silence_extra_s=2.0)
_PAUSES = Pauses(connect_s=3.0, back_off_min_s=0.1, back_off_max_s=1.0, displaced_min_s=0.5, displaced_max_s=2.0)


class RawMember:
    """A raw device, and callbacks that record what they are told."""

    def __init__(self, name: str, gateways: list[str], state: Path, history: HistoryFile) -> None:
        self._name = name
        self._history = history
        self._domain_group, _, client = name.rpartition("/")
        domain, _, group = self._domain_group.partition("/")
        self._names = Names(domain, group, client)
        self._disk = FileDisk(state)
        self._fail_next = False
        self._sent = 0
        self._numbers: dict[str, list[str]] = {}
        """By the id of a message, the calls that sent it and are not answered."""
        self._connecting: int | None = None
        """When it was told to connect; None once it has reported to be caught up."""
        addresses = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in gateways)]
        self._link = RawLink(
            self._device, addresses, pauses=_PAUSES, crashes=CRASHES, look=self._look, random_=random.Random(name)
        )
        self._link.start()

    def _device(self) -> RawDevice:
        return RawDevice(self._names, self._disk, self, _TIMING)

    def do(self, command: dict[str, Any]) -> None:
        """Queue a command."""
        self._link.do(lambda device: getattr(self, f"_{command['do']}")(device, command))

    # Commands

    def _start(self, device: RawDevice, command: dict[str, Any]) -> None:
        self._history.write("started", client=self._name, life=command["life"])
        for name in (*OBJECTS, *COUNTED):
            if name in command["wanted"]:
                self._register(device, {"object": name})
            else:
                self._unregister(device, {"object": name})
        for query in ALL_QUERIES:
            if query in command["queries"]:
                self._register_query(device, {"query": query})
            else:
                self._unregister_query(device, {"query": query})
        followed = {one["channel"]: one for one in command["channels"]}
        for name in CHANNELS:
            if name in followed:
                self._subscribe(device, followed[name])
            else:
                self._unsubscribe(device, {"channel": name})

    def _register(self, device: RawDevice, command: dict[str, Any]) -> None:
        self._history.write("register", client=self._name, object=f"{self._domain_group}/{command['object']}")
        device.register(command["object"])

    def _unregister(self, device: RawDevice, command: dict[str, Any]) -> None:
        device.unregister(command["object"])
        self._history.write("unregister", client=self._name, object=f"{self._domain_group}/{command['object']}")

    def _register_query(self, device: RawDevice, command: dict[str, Any]) -> None:
        query, described = command["query"], command["query"] in DESCRIBED
        self._history.write("register_query", client=self._name, query=query, descriptions=described)
        device.register_query(query, described=described)

    def _unregister_query(self, device: RawDevice, command: dict[str, Any]) -> None:
        device.unregister_query(command["query"])
        self._history.write("unregister_query", client=self._name, query=command["query"])

    def _subscribe(self, device: RawDevice, command: dict[str, Any]) -> None:
        since, attributes = command["since"], command["attributes"]
        channel = f"{self._domain_group}/{command['channel']}"
        self._history.write("subscribe", client=self._name, channel=channel, since=since, attributes=attributes)
        device.subscribe(command["channel"], attributes, since)

    def _unsubscribe(self, device: RawDevice, command: dict[str, Any]) -> None:
        device.unsubscribe(command["channel"])
        channel = f"{self._domain_group}/{command['channel']}"
        self._history.write("unsubscribe", client=self._name, channel=channel)

    def _send_by_client(self, device: RawDevice, command: dict[str, Any]) -> None:
        self._sent += 1
        number = f"{os.getpid()}-{self._sent}"
        said = {field: command[field] for field in ("message", "payload", "to")}
        now_ms = time.time_ns() // 1_000_000
        expires_at = now_ms + command["expires_in_ms"] if "expires_in_ms" in command else 0
        more = {"expires_at": expires_at} if expires_at else {}
        names = {"publisher": self._name, "id": number}
        self._history.write("send", **names, channel=command["channel"], path="session", **said, **more)
        self._numbers.setdefault(said["message"], []).append(number)
        device.publishes.add(
            wire.Publish(
                channel=command["channel"].rpartition("/")[2],
                payload=json.dumps(said["payload"]).encode(),
                id=said["message"],
                to=said["to"],
                priority=wire.PRIORITY_HIGH if command["priority"] else wire.PRIORITY_NORMAL,
                expires_at=expires_at,
                clock_ms=now_ms if expires_at else 0,
            )
        )

    def _connect(self, device: RawDevice, _: dict[str, Any]) -> None:
        self._connecting = self._history.write("connecting", client=self._name)
        self._link.connect()

    def _disconnect(self, device: RawDevice, _: dict[str, Any]) -> None:
        self._connecting = None
        self._link.disconnect()
        self._history.write("stopped", client=self._name)

    def _fail_next_callback(self, device: RawDevice, _: dict[str, Any]) -> None:
        self._fail_next = True

    def _look(self, device: RawDevice) -> None:
        if self._connecting is not None and device.settled:
            since, self._connecting = self._connecting, None
            self._history.write("caught_up", client=self._name, since=since)

    # Callbacks

    def told(self, told: Version) -> None:
        """See Application."""
        fields: dict[str, Any] = {
            "object": f"{self._domain_group}/{told.name}",
            "version": told.version,
            "deleted": told.deleted,
            "payload": json.loads(told.payload) if told.payload else None,
            "incarnation": told.incarnation,
        }
        if told.description is not None:
            description = json.loads(told.description) if told.description else None
            fields |= {"described": True, "description": description}
        self._note("told", **fields)

    def members(self, text: str, added: set[str], removed: set[str]) -> None:
        """See Application."""
        self._note("members", query=text, added=sorted(added), removed=sorted(removed))

    def message(self, channel: str, offset: int, id_: str, payload: bytes) -> None:
        """See Application."""
        name = f"{self._domain_group}/{channel}"
        self._note("message", channel=name, offset=offset, message=id_ or None, payload=json.loads(payload))

    def missed(self, channel: str, gap: ChannelGap) -> None:
        """See Application."""
        more = {} if gap.after is None else {"after": gap.after}
        name = f"{self._domain_group}/{channel}"
        self._history.write("missed", client=self._name, channel=name, before=gap.before, reason=gap.reason, **more)

    def refused(self, kind: str, text: str, reason: str) -> None:
        """See Application."""
        raise AssertionError(f"{self._name}: {kind} {text!r} was refused: {reason}")

    def published(self, id_: str, offset: int | None, reason: str) -> None:
        """See Application."""
        waiting = self._numbers.get(id_)
        if waiting:
            names = {"publisher": self._name, "id": waiting.pop(0)}
            if offset is None:
                self._history.write("published", **names, outcome="failed")
            else:
                self._history.write("published", **names, outcome="acknowledged", offset=offset)

    def _note(self, event: str, **fields: Any) -> None:
        """A callback that is to fail is called again by itself."""
        failed, self._fail_next = self._fail_next, False
        if failed:
            self._history.write(event, client=self._name, **fields, failed=True)
        self._history.write(event, client=self._name, **fields)
