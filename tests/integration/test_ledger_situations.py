"""Situations that a client may be in, and what the ledger's ways to ask say of each: they agree with its callbacks."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from coldnotify import Connection, Message, Notification, Notify, State
from coldnotify.publisher import Applied
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.child import Child
from coldnotify_testkit.looks import Looks
from coldnotify_testkit.matcher_process import records_of
from coldnotify_testkit.release_before import python_path, unpacked
from coldnotify_testkit.stack import PARTITIONS, Stacks, Up, get_json
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "ledger.test", "situations"
OBJECT = "camera"
HALF_A_YEAR_MS = 181 * 86_400_000
"""A day more than a client is remembered that is away."""
BUSY_UNIT = f"""
import sys, threading
from coldnotify import Connection, Notify, State
address, state = sys.argv[1:]
def hear(told):
    print("told", told.version, flush=True)
    threading.Event().wait()
client = Notify("{DOMAIN}", "{GROUP}", "of-0.1.0", State(state), Connection(address, backoff_max_s=1))
client.register("{OBJECT}").subscribe(hear)
client.connect()
threading.Event().wait()
"""
"""A unit of release 0.1.0 whose callback never returns."""


class Said(NamedTuple):
    """What is said of one client and the object."""

    explain: str
    who_lacks: str
    """applied, nobody (it is not counted), lacks, or the state of its callbacks."""
    console: str
    """The cell of the console's table."""


class Unit:
    """A client whose callback does what `behave` does: it returns, waits, or raises."""

    def __init__(self, name: str, path: Path, behave: Callable[[Notification], None]) -> None:
        self.name, self.behave = name, behave
        self.taken: list[int | None] = []
        """Versions from whose callback it returned."""
        self.begun: list[int | None] = []
        self._path = path / name
        self._notify: Notify | None = None

    @property
    def notify(self) -> Notify:
        """Of now, or as it was last."""
        assert self._notify is not None
        return self._notify

    def connect(self, up: Up) -> None:
        """A new Notify over the state of before."""
        connection = Connection(*up.gateway, backoff_max_s=1)
        self._notify = Notify(
            DOMAIN, GROUP, self.name, State(self._path), connection, retry_min_s=0.05, retry_max_s=0.1, tries_max=3
        )
        self.notify.register(OBJECT).subscribe(self._hear)
        self.notify.connect()

    def disconnect(self) -> None:
        if self._notify is not None:
            self._notify.disconnect()

    def _hear(self, told: Notification) -> None:
        self.begun.append(told.version)
        self.behave(told)
        self.taken.append(told.version)


class AllLooks(Looks):
    """All ways to ask."""

    def __init__(self, up: Up) -> None:
        super().__init__(up, DOMAIN, GROUP, OBJECT)
        self._http_url = up.http_url

    def of(self, client: str) -> Said:
        explained, rows = self.verdict(client), self.lackers()
        shown = self.get("matrix")
        cells = {
            one["client"]: dict(zip((o["object"] for o in shown["objects"]), one["cells"], strict=True))
            for one in shown["items"]
        }
        cell = cells.get(client, {}).get(OBJECT)
        callbacks = rows.get(client)
        if client in rows:
            lacks = "lacks" if callbacks is None else callbacks["state"]
        else:
            lacks = "applied" if cell else "nobody"
        return Said(explained, lacks, "nobody" if cell is None else cell or "not registered")

    def get(self, path: str) -> Any:
        return get_json(f"{self._http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/{path}")

    def subscriber(self, channel: str, client: str) -> dict[str, Any]:
        shown = self.get(f"channels/{quote(channel, safe='')}")["subscriptions"]["items"]
        return next(one for one in shown if one["client"] == client)


def returns(_: Notification) -> None:
    pass


def raises(_: Notification) -> None:
    raise ValueError("no such lens")


def make_old(up: Up, client: str) -> None:
    """The client's session record says that it was last seen half a year ago."""
    partition = partition_of(DOMAIN, GROUP, PARTITIONS)
    key = f"{DOMAIN}/{GROUP}/{client}".encode()

    def stored() -> dict[str, Any]:
        values = [value for at, value, _ in records_of(up.kafka, up.topics.sessions, partition) if at == key]
        return json.loads(values[-1] or b"{}") if values else {}

    wait_for(lambda: stored().get("online") is False, "it is stored that it has left")
    record = stored()
    record["last_seen"] = time.time_ns() // 1_000_000 - HALF_A_YEAR_MS
    producer = Producer({"bootstrap.servers": up.kafka, "acks": "all"})
    producer.produce(up.topics.sessions, json.dumps(record).encode(), key, partition)
    assert producer.flush(60) == 0
    producer.close()


@contextmanager
def stopped(units: list[Unit]) -> Iterator[None]:
    try:
        yield
    finally:
        for unit in units:
            unit.disconnect()


def test_what_is_said_agrees_with_what_callbacks_did(stacks: Stacks, tmp_path: Path) -> None:
    for name in ("release", "up"):
        (tmp_path / name).mkdir()
    release = unpacked(tmp_path / "release")
    goes_on = threading.Event()

    def waits(_: Notification) -> None:
        assert goes_on.wait(10 * WAIT_S)

    def waits_at_two(told: Notification) -> None:
        if told.version == 2:
            waits(told)

    failures = iter(range(1))

    def fails_once(told: Notification) -> None:
        if next(failures, None) is not None:
            raises(told)

    behaving = {
        "applied": returns, "new": waits, "pending": waits_at_two, "parked": raises, "failed-once": fails_once,
        "offline": returns, "unregistered": returns, "forgotten": returns,
    }  # fmt: skip
    units = {name: Unit(name, tmp_path, behave) for name, behave in behaving.items()}

    with ExitStack() as stack:
        up = stack.enter_context(stacks.running(tmp_path / "up", "--gateways=2", "--matchers=2"))
        looks = AllLooks(up)
        stack.enter_context(stopped(list(units.values())))
        stack.callback(goes_on.set)
        publisher = stack.enter_context(up.publisher(http=up.report["http"]))
        publisher.publish(DOMAIN, GROUP, OBJECT, version=1)

        # Who is away when the second version comes, and who comes when it is there.
        for name in ("applied", "pending", "failed-once", "offline", "unregistered", "forgotten"):
            units[name].connect(up)
        before = ("applied", "pending", "failed-once", "offline", "unregistered", "forgotten")
        wait_for(lambda: all(units[name].taken == [1] for name in before), "they have taken the first version")
        for name in ("offline", "forgotten"):
            wait_for(lambda name=name: looks.of(name).who_lacks == "applied", f"{name} has applied it")  # type: ignore[misc]
            units[name].disconnect()
        units["unregistered"].notify.unregister(OBJECT)
        wait_for(lambda: looks.of("unregistered").explain == "not_registered", "it is unregistered")
        second = publisher.publish(DOMAIN, GROUP, OBJECT, version=2)
        for name in ("new", "parked"):
            units[name].connect(up)
        environ_path = {"PYTHONPATH": python_path(release)}
        argv = [sys.executable, "-c", BUSY_UNIT, up.report["gateway"], str(tmp_path / "old-state")]
        old = stack.enter_context(Child(argv, tmp_path / "old.log", {**os.environ, **environ_path}))
        old.wait_for(lambda: "told 2" in old.output, "the old unit is told")
        wait_for(lambda: units["parked"].notify.status.parked == (OBJECT,), "it is parked")
        wait_for(lambda: units["new"].begun == [2] and units["pending"].begun == [1, 2], "callbacks are busy")
        wait_for(lambda: units["applied"].taken[-1:] == units["failed-once"].taken[-1:] == [2], "they have the second")

        wanted = {
            "applied": Said("applied", "applied", "has"),
            "new": Said("pending", "pending", "pending"),
            "pending": Said("sent", "lacks", "lacks"),
            "parked": Said("parked", "parked", "parked"),
            "failed-once": Said("applied", "applied", "has"),
            "offline": Said("asleep", "lacks", "lacks"),
            "unregistered": Said("not_registered", "nobody", "not registered"),
            "of-0.1.0": Said("told", "applied", "told"),
        }

        def agree(**more: Said) -> None:
            for name, said in {**wanted, **more}.items():
                try:
                    wait_for(lambda name=name, said=said: looks.of(name) == said, f"{name}: {said}")  # type: ignore[misc]
                except AssertionError as error:
                    raise AssertionError(f"{error}; it is {looks.of(name)}") from None

        agree()
        for name in wanted:
            taken = units[name].taken if name in units else []
            print(f"{name:<14} callbacks returned from {taken!s:<8} {looks.of(name)}")
        # A unit of 0.1.0 counts as having it: its callback has not returned, and it cannot say so.
        applied = second.applied_by(3, timeout_s=WAIT_S)
        counted = "1 of them cannot report callbacks, and count as applied once told"
        assert (applied, applied.counted) == (Applied(3, 5), counted)
        make_old(up, "forgotten")
        for part in ("matcher", "matcher-2", "gateway", "gateway-2"):
            pids = up.kill(part)
            up.wait_ready(other_than=pids)
            agree()
        wait_for(lambda: looks.of("forgotten") == Said("unknown_client", "nobody", "nobody"), "it is forgotten")
        goes_on.set()
        wait_for(lambda: units["new"].taken[-1:] == units["pending"].taken[-1:] == [2], "they have taken it")
        done = Said("applied", "applied", "has")
        agree(new=done, pending=done)


def test_of_a_channel_it_is_said_how_many_messages_are_lacking_and_whether_some_are_gone(
    up: Up, tmp_path: Path
) -> None:
    looks, goes_on = AllLooks(up), threading.Event()
    told: list[object] = []

    def hear(message: Message) -> None:
        told.append(message.payload)
        assert len(told) == 1 or goes_on.wait(WAIT_S)

    def unit() -> Notify:
        connection = Connection(*up.gateway, backoff_max_s=1)
        notify = Notify(DOMAIN, GROUP, "subscriber", State(tmp_path / "state"), connection)
        notify.channel("news").subscribe(hear)
        return notify

    def said() -> tuple[Any, ...]:
        row = looks.subscriber("news", "subscriber")
        return row["behind"], row["behind_at_least"], row["since_ms"] is not None, row["missed"], row["callbacks"]

    with up.publisher() as publisher:
        with unit() as notify:
            assert notify.wait_caught_up(WAIT_S)
            sent = [publisher.send(DOMAIN, GROUP, "news", number) for number in range(4)]
            wait_for(lambda: told == [0, 1], "it has taken one, and is busy with the next")
            wait_for(lambda: said()[:4] == (3, False, True, False), "it lacks three of four")
            goes_on.set()
            wait_for(lambda: told == [0, 1, 2, 3], "it takes them")
            wait_for(lambda: said() == (0, False, False, False, None), "it lacks nothing")
        sent += [publisher.send(DOMAIN, GROUP, "news", number) for number in range(4, 8)]
        wait_for(lambda: said()[:4] == (4, False, True, False), "it is away, and lacks four")
        admin = AdminClient({"bootstrap.servers": up.kafka})
        place = TopicPartition(up.topics.channels_1d, sent[-1].partition, sent[-2].offset)
        (removed,) = admin.delete_records([place]).values()
        removed.result(WAIT_S)
        pids = up.kill("matcher")  # what it has in memory it could still tell
        up.wait_ready(other_than=pids)
        wait_for(lambda: said()[3], "some are gone")
        with unit() as notify:
            assert notify.wait_caught_up(WAIT_S)
            wait_for(lambda: told[-1] == 7, "it is told what there is")
            wait_for(lambda: said() == (0, False, False, False, None), "it lacks nothing")
