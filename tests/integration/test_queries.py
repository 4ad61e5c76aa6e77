"""Queries as people meet them: descriptions from any Kafka client, members by sync and events, whatever is killed."""

import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notification, Notify, State
from coldnotify.errors import RegistrationRefused
from coldnotify_kafka.broker import console_tool
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import QUERIES_MAX, REGISTRATIONS_MAX
from coldnotify_testkit.server_sent_events import events_of
from coldnotify_testkit.stack import PARTITIONS, Up
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "queries.test", "building-1"
HOME = partition_of(DOMAIN, GROUP, PARTITIONS)
LAMPS = 'Kind = lamp AND Room = "410"'
_ANSWER_BYTES_MAX = 4_000_000
"""Whatever comes behind it, the answer is none."""


class Backend:
    """Writes what objects are, and what is new of them, with no library of ours."""

    def __init__(self, up: Up) -> None:
        self._producer, self._objects = Producer({"bootstrap.servers": up.kafka}), up.topics.objects

    def describe(self, name: str, **description: object) -> None:
        self._write(f"describe:{DOMAIN}/{GROUP}/{name}", {"description": description or None})

    def publish(self, name: str, version: int, **more: object) -> None:
        self._write(f"{DOMAIN}/{GROUP}/{name}", {"version": version, "payload": version, **more})

    def _write(self, key: str, value: object) -> None:
        # Elsewhere it would be moved here, later.
        self._producer.produce(self._objects, key=key, value=json.dumps(value), partition=HOME)
        assert self._producer.flush(WAIT_S) == 0

    def close(self) -> None:
        self._producer.close()


class Device:
    """Wakes by sync, and keeps what docs/protocol.md says that it keeps."""

    def __init__(
        self, up: Up, client: str, *queries: str, registrations: tuple[str, ...] = (), group: str = GROUP
    ) -> None:
        self._up = up
        self._who = {"domain": DOMAIN, "group": group, "client": client, "registrations": list(registrations)}
        self.queries = list(queries)
        self.members: dict[str, set[str]] = {query: set() for query in queries}
        self.versions: dict[str, int | None] = {}
        self.cursor: str | None = None
        self.whole: list[str] = []

    def wake(self, **more: object) -> dict[str, Any]:
        asked = {**self._who, "queries": self.queries, "cursor": self.cursor, **more}
        request = urllib.request.Request(
            f"{self._up.http_url}/v1/sync", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            answer: dict[str, Any] = json.loads(response.read(_ANSWER_BYTES_MAX))
        for one in answer["notifications"]:
            self._take(one)
        self.cursor = answer["cursor"]
        return answer

    def _take(self, one: dict[str, Any]) -> None:
        for text in one.get("begun", ()):
            self.members[text] = set()
        self.whole += one.get("answered", ())
        if "object" not in one:
            return
        if "version" in one:
            self.versions[one["object"]] = one["version"]
        for text in one.get("entered", ()):
            self.members[text].add(one["object"])
        for text in one.get("left", ()):
            self.members[text].discard(one["object"])


class Unit:
    """An application over the Python client, and what it was told."""

    def __init__(self, up: Up, client: str, state: Path, *queries: str, descriptions: bool = False) -> None:
        self.errors: list[Exception] = []
        connection = Connection(*up.gateway, backoff_max_s=2)
        self.notify = Notify(DOMAIN, GROUP, client, State(state), connection, on_error=self.errors.append)
        self.told: list[tuple[str, object]] = []
        self.described: dict[str, tuple[int | None, object]] = {}
        self.queries = {text: self.notify.register_query(text, descriptions=descriptions) for text in queries}
        for query in self.queries.values():
            query.subscribe_members(lambda added, removed: self.told.append(("members", (added, removed))))
            query.subscribe(self._hear)
        self.notify.connect()

    def _hear(self, told: Notification) -> None:
        self.told.append((told.object_id, told.version))
        self.described[told.object_id] = told.version, told.description

    def caught_up(self) -> None:
        assert self.notify.wait_caught_up(timeout_s=WAIT_S)

    def __enter__(self) -> "Unit":
        return self

    def __exit__(self, *_: object) -> None:
        self.notify.disconnect()


@pytest.fixture(scope="module")
def backend(up: Up) -> Iterator[Backend]:
    with closing(Backend(up)) as backend:
        yield backend


def test_a_device_is_told_what_came_and_went_while_it_slept(up: Up, backend: Backend) -> None:
    backend.describe("lamp-1", Kind="lamp", Room="410")
    backend.publish("lamp-1", 3)
    backend.describe("lamp-2", Kind="lamp", Room="411")
    backend.describe("lamp-3", Kind="lamp", Room="410")
    device = Device(up, "sleeper", LAMPS, "NAME STARTS WITH 'lamp-'")

    device.wake()

    assert device.members[LAMPS] == {"lamp-1", "lamp-3"}
    assert device.members[device.queries[1]] == {"lamp-1", "lamp-2", "lamp-3"}
    assert device.versions == {"lamp-1": 3, "lamp-2": None, "lamp-3": None}
    nothing = device.wake()
    assert (nothing["notifications"], nothing["cursor"], nothing["in_sync"]) == ([], device.cursor, True)

    backend.describe("lamp-1", Kind="lamp", Room="411")
    backend.describe("lamp-2", Kind="lamp", Room="410")
    backend.publish("lamp-2", 7)
    backend.publish("lamp-3", 8)
    backend.publish("lamp-3", 9, deleted=True)
    device.whole.clear()
    device.wake()

    assert device.members == {LAMPS: {"lamp-2"}, device.queries[1]: {"lamp-1", "lamp-2"}}
    assert (device.versions["lamp-2"], device.versions["lamp-3"]) == (7, 9)
    assert device.whole == [], "what changed is told, and nothing whole"


def test_a_wrong_query_is_refused_with_its_place(up: Up) -> None:
    device = Device(up, "misspelt", "Room = 410 AND", "has Room")
    answer = device.wake()
    assert answer["refused"] == {"Room = 410 AND": answer["refused"]["Room = 410 AND"]}
    assert answer["refused"]["Room = 410 AND"].startswith("query: line 1, column 15: expected ")


def test_more_queries_than_a_client_may_have_are_refused_with_the_reason(up: Up, tmp_path: Path) -> None:
    texts = [f"Level = {number}" for number in range(QUERIES_MAX)]
    with Unit(up, "greedy", tmp_path / "state", *texts) as unit:
        unit.caught_up()
        assert unit.errors == []
        unit.notify.register_query("Level = -1")
        wait_for(lambda: bool(unit.errors), "an error")
        (error,) = unit.errors
        assert isinstance(error, RegistrationRefused)
        assert (error.query, error.reason) == ("Level = -1", f"query: at most {QUERIES_MAX} queries a client")
    with pytest.raises(urllib.error.HTTPError) as refused:
        Device(up, "greedy-by-sync", *texts, "Level = -1").wake()
    assert json.loads(refused.value.read())["field"] == "queries"


def test_a_query_with_too_many_members_is_refused_with_the_reason(up: Up) -> None:
    group, total = "crowded-building", REGISTRATIONS_MAX + 1
    producer = Producer({"bootstrap.servers": up.kafka})
    partition = partition_of(DOMAIN, group, PARTITIONS)
    for number in range(total):
        key, value = f"describe:{DOMAIN}/{group}/many-{number:05}", json.dumps({"description": {"Number": number}})
        producer.produce(up.topics.objects, key=key, value=value, partition=partition)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    device = Device(up, "crowd", "has Number", "Number < 5", group=group)
    reason = f"query: it has {total} members, with 5 of others at most {REGISTRATIONS_MAX} are allowed"
    assert device.wake()["refused"] == {"has Number": reason}
    assert device.members["Number < 5"] == {f"many-{number:05}" for number in range(5)}


@contextmanager
def events(up: Up, *queries: str, **more: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a page is told."""
    wanted = [*(("query", text) for text in queries), *more.items()]
    asked = urllib.parse.urlencode([("domain", DOMAIN), ("group", GROUP), *wanted])
    with urllib.request.urlopen(f"{up.http_url}/v1/events?{asked}", timeout=WAIT_S) as response:
        yield (event.data for event in events_of(response))


def test_a_page_is_told_at_once(up: Up, backend: Backend) -> None:
    query = "Floor >= 4 AND NOT Secret = true"
    backend.describe("door-1", Floor=4)
    with events(up, query) as told:
        assert next(told) == {"begun": [query]}
        assert next(told) == {"object": "door-1", "version": None, "entered": [query]}
        assert next(told) == {"answered": [query]}
        assert next(told) == {}  # caught up
        backend.describe("door-2", Floor=5)
        assert next(told) == {"object": "door-2", "version": None, "entered": [query]}
        backend.publish("door-2", 1)
        assert next(told) == {"object": "door-2", "version": 1, "payload": 1}
        backend.publish("door-3", 1)
        backend.describe("door-2", Floor=5, Secret=True)
        assert next(told) == {"object": "door-2", "left": [query]}
        backend.publish("door-2", 2)
        backend.publish("door-1", 1, deleted=True)
        assert next(told) == {"object": "door-1", "version": 1, "payload": 1, "deleted": True, "left": [query]}


def test_a_killed_matcher_loses_no_difference(up: Up, backend: Backend) -> None:
    query = "Shelf = 7"
    for number in range(20):
        backend.describe(f"book-{number}", Shelf=7)
    device = Device(up, "reader", query)
    device.wake()
    assert len(device.members[query]) == 20

    pids = up.kill("matcher")
    backend.describe("book-0")
    backend.describe("book-20", Shelf=7)
    up.wait_ready(other_than=pids)
    with events(up, query) as told:  # somebody wants the set before the device comes
        while next(told):
            pass
        backend.describe("book-1", Shelf=8)
        while next(told).get("left") != [query]:
            pass
        device.wake()

    assert device.members[query] == {f"book-{number}" for number in range(2, 21)}
    device.whole.clear()
    backend.describe("book-2", Shelf=8)
    device.wake()
    assert "book-2" not in device.members[query]
    assert device.whole == []


def test_an_answer_of_many_pages_ends_and_has_each_member_once(up: Up, backend: Backend) -> None:
    query, names = "Tray = 9", [f"leaf-{number:03}" for number in range(200)]
    for name in names:
        backend.describe(name, Tray=9)
        backend.publish(name, 1, payload="x" * 500)
    backend.publish("stone", 1)
    device = Device(up, "herbarium", query, registrations=("stone",))
    device.wake()

    for name in (*names, "stone"):
        backend.publish(name, 2, payload="x" * 500)
    pids = up.kill("matcher")  # so that nobody knows what changed in the set
    up.wait_ready(other_than=pids)
    told = [one for one in device.wake()["notifications"] if "object" in one]

    assert sorted(one["object"] for one in told) == [*names, "stone"], "each once"
    assert set(device.versions.values()) == {2}
    assert device.wake()["notifications"] == []


def test_a_unit_is_told_live_and_after_it_slept(up: Up, backend: Backend, tmp_path: Path) -> None:
    query = "Colour = green"
    backend.describe("plant-1", Colour="green")
    with Unit(up, "unit", tmp_path / "state", query) as unit:
        unit.caught_up()
        assert unit.queries[query].members == {"plant-1"}
        assert unit.told == [("members", ({"plant-1"}, set()))], "of what was never published there is no version"
        unit.told.clear()
        backend.publish("plant-2", 1)
        backend.describe("plant-2", Colour="green")
        backend.publish("plant-2", 2)
        backend.describe("plant-1", Colour="brown")
        backend.publish("plant-1", 1)
        backend.publish("plant-2", 3)
        wait_for(lambda: ("plant-2", 3) in unit.told, "the newest of what is a member")
        # Which is told first of two objects, is nowhere said.
        wait_for(lambda: unit.queries[query].members == {"plant-2"}, "what is no member any more")
        assert not [one for one in unit.told if one[0] == "plant-1"], "what is no member is not told"
        kind, moved = unit.told[0]
        assert kind == "members", "members before their versions"
        assert "plant-2" in moved[0]  # type: ignore[index]
    for name in ("plant-3", "plant-4"):
        backend.describe(name, Colour="green")
        backend.publish(name, 7)
    backend.describe("plant-2", Colour="brown")
    backend.describe("plant-4")
    with Unit(up, "unit", tmp_path / "state", query) as unit:
        unit.caught_up()
        assert unit.queries[query].members == {"plant-3"}
        assert ("plant-3", 7) in unit.told
        assert unit.errors == []
    with Unit(up, "unit", tmp_path / "state", query) as unit:
        unit.caught_up()
        assert unit.told == []


def test_a_unit_that_asks_is_told_how_members_are_described(up: Up, backend: Backend, tmp_path: Path) -> None:
    query = "Bed = 3"
    backend.describe("rose-1", Bed=3)
    backend.describe("rose-2", Bed=3, Water=1)
    backend.publish("rose-2", 1)

    def unit() -> Unit:
        return Unit(up, "gardener", tmp_path / "state", query, descriptions=True)

    with unit() as gardener:
        gardener.caught_up()
        assert gardener.described == {"rose-1": (None, {"Bed": 3}), "rose-2": (1, {"Bed": 3, "Water": 1})}
        backend.describe("rose-2", Bed=3, Water=2)
        wait_for(lambda: gardener.described["rose-2"] == (1, {"Bed": 3, "Water": 2}), "what it has become")
        backend.publish("rose-2", 2)
        wait_for(
            lambda: gardener.described["rose-2"] == (2, {"Bed": 3, "Water": 2}), "its description with its version"
        )
        assert gardener.queries[query].descriptions == {"rose-1": {"Bed": 3}, "rose-2": {"Bed": 3, "Water": 2}}
    backend.describe("rose-1", Bed=3, Water=7)
    with unit() as gardener:
        gardener.caught_up()
        assert gardener.told == [("rose-1", None)], "a change of the description alone"
        assert gardener.described == {"rose-1": (None, {"Bed": 3, "Water": 7})}
        assert gardener.queries[query].descriptions == {
            "rose-1": {"Bed": 3, "Water": 7},
            "rose-2": {"Bed": 3, "Water": 2},
        }
    with unit() as gardener:
        gardener.caught_up()
        assert gardener.told == []

    pids = up.kill("matcher")
    backend.describe("rose-2", Bed=3)
    up.wait_ready(other_than=pids)
    with unit() as gardener:
        gardener.caught_up()
        assert gardener.described["rose-2"] == (2, {"Bed": 3})
        assert gardener.errors == []


def test_who_asks_in_the_middle_of_a_session_is_told_all_descriptions(up: Up, backend: Backend, tmp_path: Path) -> None:
    query = "Bed = 4"
    backend.describe("lily-1", Bed=4)
    backend.publish("lily-1", 1)
    with Unit(up, "late", tmp_path / "state", query) as unit:
        unit.caught_up()
        assert unit.described == {"lily-1": (1, None)}
        unit.notify.register_query(query, descriptions=True)
        wait_for(lambda: unit.described == {"lily-1": (1, {"Bed": 4})}, "its description")
        unit.notify.register_query(query)
        assert unit.queries[query].descriptions == {}


def test_a_page_that_asks_is_told_descriptions(up: Up, backend: Backend) -> None:
    query = "Bed = 5"
    backend.describe("tulip-1", Bed=5)
    with events(up, query, descriptions="yes") as told:
        assert next(told) == {"begun": [query]}
        assert next(told) == {"object": "tulip-1", "version": None, "entered": [query], "description": {"Bed": 5}}
        assert next(told) == {"answered": [query]}
        assert next(told) == {}
        backend.describe("tulip-1", Bed=5, Cut=True)
        assert next(told) == {"object": "tulip-1", "version": None, "description": {"Bed": 5, "Cut": True}}
        backend.publish("tulip-1", 1)
        assert next(told) == {"object": "tulip-1", "version": 1, "payload": 1}
    with pytest.raises(urllib.error.HTTPError) as refused, events(up, query, descriptions="maybe"):
        pass
    assert json.loads(refused.value.read())["field"] == "descriptions"


def test_watched_from_the_command_line(up: Up, backend: Backend, tmp_path: Path) -> None:
    query = "Lane = 3"
    backend.describe("car-1", Lane=3)
    backend.publish("car-1", 5)
    at = ":".join(map(str, up.gateway))
    argv = [sys.executable, "-m", "coldnotify_cli.main", "watch", DOMAIN, GROUP, "watcher", "--query", query]
    argv += ["--once", f"--gateway={at}", f"--state={tmp_path / 'state'}", f"--timeout-s={WAIT_S:g}"]
    told = [subprocess.run(argv, capture_output=True, text=True, check=True, timeout=2 * WAIT_S).stdout]
    backend.describe("car-1", Lane=4)
    backend.describe("car-2", Lane=3)
    told.append(
        subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True, timeout=2 * WAIT_S).stdout
    )
    backend.describe("car-2", Lane=3, Full=True)
    argv.append("--descriptions")
    told.append(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=2 * WAIT_S).stdout)
    assert told[0] == "car-1  entered\ncar-1  version 5  5\n"
    assert told[2] == "car-2  unknown  Full=true Lane=3\n"
    assert json.loads(told[1]) == {"query": query, "entered": ["car-2"], "left": ["car-1"]}


def test_a_unit_is_told_why_its_query_is_refused(up: Up, tmp_path: Path) -> None:
    with Unit(up, "wrong", tmp_path / "state", "Colour green") as unit:
        wait_for(lambda: bool(unit.errors), "an error")
        (error,) = unit.errors
        assert isinstance(error, RegistrationRefused)
        assert "line 1, column 8: expected " in str(error)


def test_what_is_typed_into_kafkas_console_producer_moves_a_page_and_a_unit(up: Up, tmp_path: Path) -> None:
    """With its own partitioner: the record is moved to where the group is."""
    query = "Weather = rain"
    quiet = subprocess.DEVNULL
    asked = ["--bootstrap-server", up.kafka, "--topic", up.topics.objects]
    typed = console_tool("console-producer", [*asked, "--property", "parse.key=true", "--property", "key.separator=|"])
    with (
        events(up, query) as told,
        Unit(up, "typist", tmp_path / "state", query) as unit,
        subprocess.Popen(typed, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as producer,
    ):
        assert producer.stdin is not None
        for weather, entered in (("rain", True), ("sun", False)):
            line = f'describe:{DOMAIN}/{GROUP}/station-1|{{"description":{{"Weather":"{weather}"}}}}\n'
            producer.stdin.write(line.encode())
            producer.stdin.flush()
            what = "entered" if entered else "left"
            assert any(one.get("object") == "station-1" and one.get(what) == [query] for one in told)
            wait_for(lambda: ("station-1" in unit.queries[query].members) is entered, f"station-1 {what}")  # noqa: B023
        producer.stdin.close()
        # The set is there before its callback is called.
        wait_for(lambda: sum(one[0] == "members" for one in unit.told) >= 2, "both changes are told")
    assert [one for one in unit.told if one[0] == "members"] == [
        ("members", ({"station-1"}, set())),
        ("members", (set(), {"station-1"})),
    ]
