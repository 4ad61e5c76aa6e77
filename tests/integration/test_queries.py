"""Queries as people meet them: descriptions from any Kafka client, members by sync and events, whatever is killed."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "queries.test", "building-1"
LAMPS = 'Kind = lamp AND Room = "410"'


class Backend:
    """Writes what objects are, and what is new of them, with no library of ours."""

    def __init__(self, kafka: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka})

    def describe(self, name: str, **description: object) -> None:
        self._write(f"describe:{DOMAIN}/{GROUP}/{name}", {"description": description or None})

    def publish(self, name: str, version: int, **more: object) -> None:
        self._write(f"{DOMAIN}/{GROUP}/{name}", {"version": version, "payload": version, **more})

    def _write(self, key: str, value: object) -> None:
        self._producer.produce("coldnotify.objects", key=key, value=json.dumps(value))
        assert self._producer.flush(WAIT_S) == 0


class Device:
    """Wakes by sync, and keeps what docs/protocol.md says that it keeps."""

    def __init__(self, up: Up, client: str, *queries: str, registrations: tuple[str, ...] = ()) -> None:
        self._up = up
        self._who = {"domain": DOMAIN, "group": GROUP, "client": client, "registrations": list(registrations)}
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
            answer: dict[str, Any] = json.loads(response.read())
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


@pytest.fixture(scope="module")
def backend(up: Up) -> Backend:
    return Backend(up.kafka)


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
    assert device.wake() == {"notifications": [], "cursor": device.cursor, "in_sync": True}

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


@contextmanager
def events(up: Up, *queries: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a page is told."""
    asked = urllib.parse.urlencode([("domain", DOMAIN), ("group", GROUP), *(("query", text) for text in queries)])
    with urllib.request.urlopen(f"{up.http_url}/v1/events?{asked}", timeout=WAIT_S) as response:
        yield (json.loads(line[6:]) for line in response if line.startswith(b"data: "))


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
    home = partition_of(DOMAIN, GROUP, 8)
    wait_for(lambda: "book-2" not in (device.wake() and device.members[query]), f"book-2 left (partition {home})")
    assert device.whole == []
