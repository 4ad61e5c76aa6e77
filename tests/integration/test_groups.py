"""One client in several groups: one connection, one state file, and in each group as if it were alone."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from coldnotify import Connection, Link, Message, Notification, Notify, NotifyGroups, State, aio
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.child import Child
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

from .test_links import counted

pytestmark = pytest.mark.kafka

DOMAIN, CLIENT, OBJECT, CHANNEL, LIMIT_S = "animal.observer", "unit", "camera", "tasks", 60
SAVE_INTERVAL_S = 15.0
"""Longer than two publishes take on a busy machine."""


class CountedState(State):
    """Counts writes that are done."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes += 1


class Unit:
    """A client in two groups that keeps what it is told."""

    def __init__(self, state: State, connection: Connection | Link, groups: list[str], save_interval_s: float) -> None:
        self.told: defaultdict[str, list[int | None]] = defaultdict(list)
        self.messages: defaultdict[str, list[object]] = defaultdict(list)
        self.errors: list[Exception] = []
        self.notify = NotifyGroups(
            DOMAIN,
            groups,
            CLIENT,
            state,
            connection,
            on_error=self.errors.append,
            save_interval_s=save_interval_s,
        )
        for group in groups:
            self.notify.group(group).register(OBJECT).subscribe(self._tell)
            self.notify.group(group).channel(CHANNEL, since="oldest").subscribe(self._hear)

    def knows(self, group: str, version: int) -> bool:
        return self.told[group][-1:] == [version]

    def _tell(self, said: Notification) -> None:
        if said.version is not None:
            self.told[said.group].append(said.version)

    def _hear(self, message: Message) -> None:
        self.messages[message.group].append(message.payload)


class Groups:
    """Two groups, and a client of both."""

    def __init__(self, up: Up, path: Path, end: ExitStack) -> None:
        self.up, self.path, self._end = up, path, end
        self.names = [f"{kind}-{uuid4().hex[:5]}" for kind in ("region", "solar")]

    def connected(self, connection: Connection | Link | None = None, save_interval_s: float = 0.1) -> Unit:
        host, port = self.up.gateway
        self.state = CountedState(self.path)
        unit = Unit(self.state, connection or Connection(host, port), self.names, save_interval_s)
        self._end.callback(unit.notify.disconnect)
        assert unit.notify.connect(LIMIT_S)
        return unit

    def publish(self, version: int) -> None:
        with HttpPublisher(self.up.http_url) as publisher:
            for group in self.names:
                publisher.publish(DOMAIN, group, OBJECT, {"of": group}, version=version)

    def learns(self, unit: Unit, version: int) -> None:
        """Publishes in both groups, and waits until both are told."""
        self.publish(version)
        for group in self.names:
            wait_for(partial(unit.knows, group, version), f"version {version} in {group}")

    def saved(self) -> dict[str, list[int]]:
        content = json.loads(self.path.read_bytes())
        return {one["group"]: one["applied"].get(OBJECT) for one in content.get("groups", [content])}


@pytest.fixture
def groups(up: Up, tmp_path: Path) -> Iterator[Groups]:
    with ExitStack() as end:
        yield Groups(up, tmp_path / "state.json", end)


def test_both_groups_are_told_over_one_connection_and_kept_in_one_file(up: Up, groups: Groups) -> None:
    with counted(up) as (proxy, passed):
        unit = groups.connected(Connection(f"127.0.0.1:{proxy.port}"))
        groups.learns(unit, 1)
        assert passed.connections == 1
        one, two = (unit.notify.group(name) for name in groups.names)
        current = one.register(OBJECT).current
        assert current is not None
        assert (current.group, current.payload) == (groups.names[0], {"of": groups.names[0]})
        two.send(CHANNEL, "to solar")
        wait_for(lambda: unit.messages[groups.names[1]] == ["to solar"], "the message")
        unit.notify.disconnect()
        # In memory of the file alone: nothing that was told is told again.
        again = groups.connected()
        assert not again.told
        assert not again.messages
        groups.learns(again, 2)
        again.notify.disconnect()
        assert not unit.errors
        assert not again.errors
        assert sorted(one.name for one in groups.path.parent.iterdir()) == ["state.json", "state.json.lock"]


def test_deliveries_to_both_share_one_write(groups: Groups) -> None:
    unit = groups.connected(save_interval_s=SAVE_INTERVAL_S)
    groups.learns(unit, 1)
    wait_for(lambda: all(floor == [0, 1] for floor in groups.saved().values()), "the file")
    before = groups.state.writes
    # The interval since that write has just begun.
    groups.learns(unit, 2)
    assert groups.state.writes == before
    wait_for(lambda: groups.state.writes > before, "the next write")
    assert [floor[1] for floor in groups.saved().values()] == [2, 2]
    groups.learns(unit, 3)
    assert groups.state.writes == before + 1


def test_a_client_of_one_group_becomes_one_of_two_and_back(up: Up, groups: Groups) -> None:
    host, port = up.gateway
    groups.publish(1)
    told: list[Notification] = []
    with Notify(DOMAIN, groups.names[0], CLIENT, State(groups.path), Connection(host, port)) as alone:
        alone.register(OBJECT).subscribe(told.append)
        wait_for(lambda: told, "the first version")
    assert told[0].group == groups.names[0]
    unit = groups.connected()
    assert unit.told == {groups.names[1]: [1]}, "the first group's is known"
    unit.notify.disconnect()
    groups.names.pop()
    again = groups.connected()
    assert not again.told
    groups.learns(again, 2)
    again.notify.disconnect()
    with Notify(DOMAIN, groups.names[0], CLIENT, State(groups.path), Connection(host, port)) as alone:
        assert alone.wait_caught_up(LIMIT_S)


def test_without_its_file_it_begins_again_in_both(groups: Groups) -> None:
    unit = groups.connected()
    groups.learns(unit, 1)
    unit.notify.disconnect()
    groups.path.unlink()
    again = groups.connected()
    wait_for(lambda: all(again.told[name] == [1] for name in groups.names), "both again")


def test_a_displaced_session_leaves_the_other_group_alone(up: Up, groups: Groups) -> None:
    unit = groups.connected()
    host, port = up.gateway
    displaced, other = groups.names
    with Notify(DOMAIN, displaced, CLIENT, State(None), Connection(host, port)) as clone:
        assert clone.wait_caught_up(LIMIT_S)
        first = unit.notify.group(displaced)
        wait_for(lambda: "DISPLACED" in (first.status.last_problem or "").upper(), "the end of the first one")
        groups.publish(1)
        wait_for(lambda: unit.told[other] == [1], "the other group's version")
        assert unit.notify.group(other).connected


def test_both_come_back_where_the_gateway_is_killed(up: Up, groups: Groups) -> None:
    unit = groups.connected()
    groups.learns(unit, 1)
    before = up.kill("gateway")
    up.wait_ready(other_than=before)
    groups.learns(unit, 2)
    assert all(unit.told[name] == [1, 2] for name in groups.names)


async def test_in_an_event_loop(up: Up, groups: Groups) -> None:
    host, port = up.gateway
    groups.publish(1)
    told: dict[str, int | None] = {}

    async def tell(said: Notification) -> None:
        told[said.group] = said.version

    async with aio.NotifyGroups(DOMAIN, groups.names, CLIENT, State(groups.path), Connection(host, port)) as notify:
        for name in groups.names:
            notify.group(name).register(OBJECT).subscribe(tell)
        assert await notify.wait_caught_up(LIMIT_S)
    assert told == dict.fromkeys(groups.names, 1)
    assert groups.saved() == {name: [0, 1] for name in groups.names}


PROGRAM = """
import os, sys, time
from coldnotify import Connection, NotifyGroups, State
path, host, port, *names = sys.argv[1:]
notify = NotifyGroups("animal.observer", names, "unit", State(path), Connection(host, int(port)), save_interval_s=0.05)
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # a line at once: each group has a thread of its own
for name in names:
    notify.group(name).channel("tasks", since="oldest").subscribe(lambda m: say("told", m.group, m.payload))
    notify.group(name).register("camera").subscribe(lambda n: say("version", n.group, n.version))
notify.connect()
time.sleep(1000)
"""
KILLS = 6


def shown(child: Child, *lines: str) -> bool:
    return all(f"{line}\n" in child.output for line in lines)


def test_nothing_is_lost_where_the_process_is_killed_at_any_moment(up: Up, groups: Groups, tmp_path: Path) -> None:
    draw, host, number = Random(7), up.gateway[0], 0
    args = [sys.executable, "-c", PROGRAM, str(groups.path), host, str(up.gateway[1]), *groups.names]
    heard: defaultdict[str, set[str]] = defaultdict(set)
    with HttpPublisher(up.http_url) as publisher:
        for life in range(KILLS + 1):
            with Child(args, tmp_path / f"{life}.log") as child:
                for _ in range(draw.randrange(3, 12)):
                    number += 1
                    for group in groups.names:
                        publisher.send(DOMAIN, group, CHANNEL, number)
                        publisher.publish(DOMAIN, group, OBJECT, version=number)
                if life < KILLS:
                    awaited = [f"told {draw.choice(groups.names)} {number - draw.randrange(3)}"]
                else:
                    awaited = [f"{kind} {group} {number}" for kind in ("told", "version") for group in groups.names]
                child.wait_for(partial(shown, child, *awaited), " and ".join(awaited))
                child.kill()
            for line in (tmp_path / f"{life}.log").read_text().splitlines():
                kind, group, *rest = line.split()
                if kind == "told":
                    heard[group].add(rest[0])
    for group in groups.names:
        assert heard[group] == {str(one) for one in range(1, number + 1)}
