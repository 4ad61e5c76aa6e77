"""A device: a process with several clients, commanded by JSON lines on a pipe, and killed at will.

The clients are of the real library, with a connection each or one for all, or raw ones, or MQTT devices: `--form`
decides. Of a pattern of channels, "channel" is the expression.

Commands: {"do": "start", "client", "life", "wanted", "queries", "channels"}, then {"do": "connect" | "disconnect" |
"fail_next", "client"}, {"do": "register" | "unregister", "client", "object"}, {"do": "register_query" |
"unregister_query", "client", "query"}, {"do": "subscribe", "client", "channel", "since", "attributes"}, {"do":
"unsubscribe", "client", "channel"}, {"do": "send_by_client", "client", "channel", "message", "payload", "to",
"priority"}, {"do": "describe_by_client", "client", "object", "patch"} and {"do": "publish_by_client", "client",
"object", "version", "payload", "patch"}. Its applications record in its history what they do and see.

MQTT devices have commands of their own: {"do": "start", "client", "protocol", "kept", "filters"}, then {"do": "connect"
| "disconnect" | "crash", "client"}, {"do": "subscribe", "client", and the fields of a TopicSubscription}, {"do":
"unsubscribe", "client", "filter"}, {"do": "publish", "client", "topic", "retain", "qos", "number", "deletes", "raw"}.
"""

import argparse
import asyncio
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from coldnotify import (
    Connection,
    Link,
    Message,
    Missed,
    Notification,
    Publication,
    PublishRefused,
    QueryRegistration,
    State,
    aio,
)
from coldnotify import Notify as SyncNotify
from coldnotify_checker.histories import now_us
from coldnotify_schemas.protocol import FRESH_EXTRA_S, FRESH_FACTOR

from coldnotify_fault.channel_steps import CHANNELS
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.linked_steps import PATTERNS
from coldnotify_fault.mqtt_member import MqttMember
from coldnotify_fault.raw_member import RawMember
from coldnotify_fault.schedule import ALL_QUERIES, COUNTED, DESCRIBED, OBJECTS, REBORN

FORMS = ("sync", "aio", "link", "raw", "mqtt")
_CAUGHT_UP_S = 600.0
"""Longer than a campaign."""
_DISCONNECT_S = 5.0
_KEEPALIVE_S = 2
_FRESH_S = FRESH_FACTOR * _KEEPALIVE_S + FRESH_EXTRA_S
_FRESH_LOOK_S = 0.4
"""An application asks that often how fresh it is."""


class ApplicationFails(Exception):
    """Raised by a callback on command."""


class HostedApplication:
    """One application: a client, its callback, and a thread that does one command after the other."""

    def __init__(
        self,
        name: str,
        connection: Connection | Link,
        state: Path,
        history: HistoryFile,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._name = name
        self._history = history
        self._loop = loop
        self._fail_next = False
        self._last: Notification | None = None
        self._described: dict[str, QueryRegistration] = {}
        """Queries that also ask for their members' descriptions, by text."""
        self._sent = 0
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        domain, group, client = name.split("/")
        self._domain_group = f"{domain}/{group}"
        kind = SyncNotify if loop is None else aio.Notify
        self._notify: SyncNotify | aio.Notify = kind(
            domain,
            group,
            client,
            State(state),
            connection,
            retry_min_s=0.1,
            retry_max_s=0.5,
            save_interval_s=0.2,
        )
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, command: dict[str, Any]) -> None:
        """Queue a command."""
        self._commands.put(command)

    def _work(self) -> None:
        """Does the commands; in between, and in the same thread, asks how fresh the client is: so what was registered
        before that was asked surely counts."""
        looked_s = 0.0
        while True:
            try:
                command = self._commands.get(timeout=max(0.0, looked_s + _FRESH_LOOK_S - time.monotonic()))
            except queue.Empty:
                looked_s = time.monotonic()
                self._look_how_fresh()
            else:
                getattr(self, f"_{command['do']}")(command)

    def _look_how_fresh(self) -> None:
        asked = now_us()
        status = self._notify.status
        as_of = status.fresh_as_of
        self._history.write(
            "fresh",
            client=self._name,
            asked=asked,
            as_of=None if as_of is None else round(as_of * 1e6),
            caught_up=status.caught_up,
            pending=status.pending,
            parked=list(status.parked),
            fresh_s=_FRESH_S,
            keepalive_s=_KEEPALIVE_S,
        )

    def _start(self, command: dict[str, Any]) -> None:
        self._history.write("started", client=self._name, life=command["life"], together=True)
        # An application that starts says what it wants, whatever its state file has; so what it no longer wants ends.
        for name in (*OBJECTS, *COUNTED):
            if name not in command["wanted"]:
                self._history.write("unregister", client=self._name, object=f"{self._domain_group}/{name}")
        for name in command["wanted"]:
            self._history.write("register", client=self._name, object=f"{self._domain_group}/{name}")
        for registration in self._notify.register_only(command["wanted"]):
            registration.subscribe(self._told)
        for query in ALL_QUERIES:
            if query in command["queries"]:
                self._register_query({"query": query})
            else:
                self._history.write("unregister_query", client=self._name, query=query)
                self._notify.unregister_query(query)
        followed = {one["channel"]: one for one in command["channels"]}
        for name in (*CHANNELS, *PATTERNS):
            if name in followed:
                self._subscribe(followed[name])
            else:
                self._unsubscribe({"channel": name})

    def _subscribe(self, command: dict[str, Any]) -> None:
        name, since, attributes = command["channel"], command["since"], command["attributes"]
        said = self._said_of(name)
        self._history.write("subscribe", client=self._name, **said, since=since, attributes=attributes)
        if name in PATTERNS:
            followed = self._notify.channels(pattern=name, since=since, attributes=attributes)
        else:
            followed = self._notify.channel(name, since=since, attributes=attributes)
        followed.subscribe(partial(self._told_message, said), on_missed=partial(self._told_missed, said))

    def _unsubscribe(self, command: dict[str, Any]) -> None:
        name = command["channel"]
        if name in PATTERNS:
            self._notify.unregister_channels(pattern=name)
        else:
            self._notify.unregister_channel(name)
        self._history.write("unsubscribe", client=self._name, **self._said_of(name))

    def _said_of(self, name: str) -> dict[str, str]:
        """Returns the fields of a channel, or of a pattern."""
        return {"channel": f"{self._domain_group}/{name}", **({"pattern": name} if name in PATTERNS else {})}

    def _describe_by_client(self, command: dict[str, Any]) -> None:
        names = self._names()
        said = {"object": f"{self._domain_group}/{command['object']}", "path": "session"}
        self._history.write("describe", **names, **said, description=command["patch"], merges=True)
        self._await_published(names, self._notify.describe(command["object"], command["patch"]))

    def _publish_by_client(self, command: dict[str, Any]) -> None:
        names = self._names()
        said = {field: command[field] for field in ("version", "payload")}
        more = {} if command["patch"] is None else {"patch": command["patch"]}
        object_ = f"{self._domain_group}/{command['object']}"
        source = self._name.rpartition("/")[2]
        self._history.write("publish", **names, object=object_, path="session", source=source, **said, **more)
        publication = self._notify.publish(
            command["object"], said["payload"], version=said["version"], description=command["patch"]
        )
        self._await_published(names, publication)

    def _names(self) -> dict[str, str]:
        """Returns the names of the next call, which no other process uses."""
        self._sent += 1
        return {"publisher": self._name, "id": f"{os.getpid()}-{self._sent}"}

    def _await_published(self, names: dict[str, str], publication: Publication) -> None:
        threading.Thread(target=self._wait_published, args=(names, publication, False), daemon=True).start()

    def _send_by_client(self, command: dict[str, Any]) -> None:
        names = self._names()
        said = {field: command[field] for field in ("message", "payload", "to")}
        expires_in_ms = command.get("expires_in_ms")
        expires_at = None if expires_in_ms is None else time.time_ns() // 1_000_000 + expires_in_ms
        more = {} if expires_at is None else {"expires_at": expires_at}
        self._history.write("send", **names, channel=command["channel"], path="session", **said, **more)
        publication = self._notify.send(
            command["channel"].split("/", 2)[2],
            said["payload"],
            id=said["message"],
            to=said["to"],
            priority=command["priority"],
            **more,
        )
        assert publication is not None
        threading.Thread(target=self._wait_published, args=(names, publication), daemon=True).start()

    def _wait_published(self, names: dict[str, str], publication: Publication, placed: bool = True) -> None:
        try:
            offset = publication.wait(_CAUGHT_UP_S)
        except PublishRefused:
            self._history.write("published", **names, outcome="failed")
            return
        except TimeoutError:
            # It is given up when its client disconnects. It may have been sent all the same.
            self._history.write("published", **names, outcome="unknown")
            return
        place = {"offset": offset} if offset >= 0 and placed else {}
        self._history.write("published", **names, outcome="acknowledged", **place)

    def _register_query(self, command: dict[str, Any]) -> None:
        query = command["query"]
        descriptions = query in DESCRIBED
        self._history.write("register_query", client=self._name, query=query, descriptions=descriptions)
        registration = self._notify.register_query(query, descriptions=descriptions)
        if descriptions:
            self._described[query] = registration
        registration.subscribe_members(partial(self._told_members, query))
        registration.subscribe(self._told)

    def _unregister_query(self, command: dict[str, Any]) -> None:
        self._described.pop(command["query"], None)
        self._notify.unregister_query(command["query"])
        self._history.write("unregister_query", client=self._name, query=command["query"])

    def _register(self, command: dict[str, Any]) -> None:
        self._history.write("register", client=self._name, object=f"{self._domain_group}/{command['object']}")
        self._notify.register(command["object"]).subscribe(self._told)

    def _unregister(self, command: dict[str, Any]) -> None:
        self._notify.unregister(command["object"])
        self._history.write("unregister", client=self._name, object=f"{self._domain_group}/{command['object']}")

    def _connect(self, _: dict[str, Any]) -> None:
        since = self._history.write("connecting", client=self._name)
        if isinstance(self._notify, SyncNotify):
            notify = self._notify
            notify.connect()

            def wait() -> None:
                if notify.wait_caught_up(_CAUGHT_UP_S):
                    self._write_caught_up(since)

            threading.Thread(target=wait, daemon=True).start()
        else:
            self._call(self._notify.connect())
            asyncio.run_coroutine_threadsafe(self._wait_caught_up(since), self._the_loop())

    async def _wait_caught_up(self, since: int) -> None:
        assert isinstance(self._notify, aio.Notify)
        if await self._notify.wait_caught_up(_CAUGHT_UP_S):
            self._write_caught_up(since)

    def _write_caught_up(self, since: int) -> None:
        self._history.write("caught_up", client=self._name, since=since, parked=list(self._notify.status.parked))

    def _disconnect(self, _: dict[str, Any]) -> None:
        if isinstance(self._notify, SyncNotify):
            self._notify.disconnect(_DISCONNECT_S)
        else:
            self._call(self._notify.disconnect(_DISCONNECT_S))
        self._history.write("stopped", client=self._name)

    def _fail_next_callback(self, _: dict[str, Any]) -> None:
        self._fail_next = True

    def _told(self, told: Notification) -> None:
        if told is self._last:
            return  # an object that is wanted for several reasons is told to the callback of each, one after the other
        self._last = told
        failed, self._fail_next = self._fail_next, False
        incarnation = 0
        if told.object_id == REBORN and told.version is not None:
            incarnation = told.payload[0]
        fields: dict[str, Any] = {"deleted": told.deleted, "payload": told.payload, "incarnation": incarnation}
        if any(told.object_id in registration.members for registration in list(self._described.values())):
            fields |= {"described": True, "description": told.description}
        if failed:
            fields["failed"] = True
        name = f"{self._domain_group}/{told.object_id}"
        self._history.write("told", client=self._name, object=name, version=told.version, **fields)
        if failed:
            raise ApplicationFails

    def _told_members(self, query: str, added: set[str], removed: set[str]) -> None:
        failed, self._fail_next = self._fail_next, False
        fields: dict[str, Any] = {"added": sorted(added), "removed": sorted(removed)}
        if failed:
            fields["failed"] = True
        self._history.write("members", client=self._name, query=query, **fields)
        if failed:
            raise ApplicationFails

    def _told_message(self, said: dict[str, str], message: Message) -> None:
        failed, self._fail_next = self._fail_next, False
        fields: dict[str, Any] = {"offset": message.offset, "message": message.id, "payload": message.payload}
        if message.previous is not None:
            fields["previous"] = message.previous
        if failed:
            fields["failed"] = True
        of = said | {"channel": f"{self._domain_group}/{message.channel}"}
        self._history.write("message", client=self._name, **of, **fields)
        if failed:
            raise ApplicationFails

    def _told_missed(self, said: dict[str, str], missed: Missed) -> None:
        fields: dict[str, Any] = {"before": missed.before, "reason": missed.reason.value.lower()}
        if missed.after is not None:
            fields["after"] = missed.after
        self._history.write("missed", client=self._name, **said, **fields)

    def _the_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def _call(self, coroutine: "Coroutine[Any, Any, object]") -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._the_loop()).result(4 * _DISCONNECT_S)


def main() -> None:
    """Until the pipe is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--gateway", action="append", required=True)
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--commands", type=int, required=True, help="a file descriptor to read from")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    history = HistoryFile(arguments.history)
    loop: asyncio.AbstractEventLoop | None = None
    if arguments.form == "aio":
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="loop", daemon=True).start()
    own = Connection(
        arguments.gateway,
        connect_timeout_s=3,
        keepalive_s=_KEEPALIVE_S,
        silence_grace_s=2,
        request_timeout_s=5,
        ack_delay_s=0.2,
        backoff_min_s=0.1,
        backoff_max_s=1,
        address_rest_s=1,
        displaced_min_s=0.5,
        displaced_max_s=2,
    )
    connection = Link(own) if arguments.form == "link" else own
    members: dict[str, HostedApplication | RawMember | MqttMember] = {}
    with os.fdopen(arguments.commands, encoding="utf-8") as commands:
        for line in commands:
            command = json.loads(line)
            name = command["client"]
            if command["do"] == "start":
                state = state_file(arguments.states, name)
                if arguments.form == "raw":
                    members[name] = RawMember(name, arguments.gateway, state, history)
                elif arguments.form == "mqtt":
                    members[name] = MqttMember(name, arguments.gateway, state, history)
                else:
                    members[name] = HostedApplication(name, connection, state, history, loop)
            elif command["do"] == "fail_next":
                command["do"] = "fail_next_callback"
            members[name].do(command)
    sys.stdout.flush()


def state_file(directory: Path, client: str) -> Path:
    """Returns the path of a client's state file."""
    return directory / f"{client.replace('/', '_')}.json"


if __name__ == "__main__":
    main()
