"""The history of an object at an HTTP node, with a played matcher and a played reading: what is shown and refused."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_http.history_endpoints import READINGS_MAX, HistoryEndpoints
from coldnotify_http.node_client import NodeClient
from coldnotify_http.object_history import FoundRecord, ObjectHistory
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from coldnotify_testkit.waiting import until

PATH = "/v1/domains/d/groups/g/objects/a%2Fb/history"


class Reading:
    """Stands for read_history."""

    def __init__(self, history: ObjectHistory) -> None:
        self.history = history
        self.asked: list[tuple[tuple[str, ...], int | None, int]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None

    def __call__(
        self, _settings: object, names: tuple[str, ...], *, newest_offset: int | None, records_max: int
    ) -> ObjectHistory:
        self.asked.append((names, newest_offset, records_max))
        assert self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        return self.history


@asynccontextmanager
async def node(reading: Reading, status: int = 200, turn_s: float = 30) -> AsyncIterator[str]:
    async def known(_request: web.Request) -> web.Response:
        return web.json_response({"error": "object: is not known"} if status == 404 else {"offset": 5}, status=status)

    async with AsyncExitStack() as stack:
        matcher = await stack.enter_async_context(served(web.get("/{any:.*}", known)))
        settings = HttpSettings(matcher=matcher)
        asking = NodeClient(settings)
        stack.push_async_callback(asking.close)
        pages = HistoryEndpoints(asking, settings, read=reading, turn_s=turn_s)
        yield await stack.enter_async_context(served_alone(pages.routes()))


async def ask(url: str, path: str = PATH) -> tuple[int, Any]:
    async with ClientSession() as client, client.get(url + path) as response:
        return response.status, json.loads(await response.read())


LONG = b'{"version":7,"source":"oslo","incarnation":1,"payload":"' + b"x" * 300 + b'"}'
RECORDS = [
    FoundRecord(9, 1_000, None, (("coldnotify-removes", b"0/7"),)),
    FoundRecord(8, 900, None, ()),
    FoundRecord(7, 800, b'{"verson":1}', ()),
    FoundRecord(6, 700, LONG, (("coldnotify-since", b"0000004d/2"),)),
    FoundRecord(5, 600, b'{"deleted":true}', (("coldnotify-moved", b"1@2"),)),
]


async def test_each_record_is_shown_as_what_it_is() -> None:
    reading = Reading(ObjectHistory(3, 2, 10, RECORDS, [(2, 10)]))
    async with node(reading) as url:
        status, shown = await ask(url, PATH + "?limit=6")
    assert status == 200
    assert reading.asked == [(("d", "g", "a/b"), 5, 6)]
    assert [(one["offset"], one["kind"], one["version"]) for one in shown["items"]] == [
        (9, "null", 7), (8, "null", None), (7, "invalid", None), (6, "version", 7), (5, "version", 600),
    ]  # fmt: skip
    assert "verson" in shown["items"][2]["reason"]
    long = shown["items"][3]
    assert (long["source"], long["incarnation"], long["rewritten"], long["payload_bytes"]) == ("oslo", 1, True, 302)
    assert len(long["payload_begins"]) == 200
    assert (shown["items"][4]["deleted"], shown["items"][4]["moved"]) == (True, True)
    assert (shown["older"], shown["looked"]) == ("compacted", [{"from": 2, "to": 10}])
    assert "older versions, if there were any, were compacted away" in shown["words"]


@pytest.mark.parametrize(
    ("history", "query", "older"),
    [
        (ObjectHistory(0, 0, 10, RECORDS, [(5, 10)]), "?limit=5", "more"),
        (ObjectHistory(0, 0, 10, RECORDS, [(5, 10)], "records"), "", "not_looked"),
        (ObjectHistory(0, 0, 0), "", "compacted"),
    ],
)
async def test_it_says_whether_there_may_be_more(history: ObjectHistory, query: str, older: str) -> None:
    async with node(Reading(history)) as url:
        assert (await ask(url, PATH + query))[1]["older"] == older


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (PATH + "?limit=0", "limit"),
        (PATH + "?limit=101", "limit"),
        (PATH + "?limit=many", "limit"),
        (PATH.replace("/g/", "/not a name/"), "group"),
        (PATH.replace("a%2Fb", "x" * 300), "object"),
    ],
)
async def test_the_wrong_field_is_named(path: str, field: str) -> None:
    async with node(Reading(ObjectHistory(0, 0, 0))) as url:
        status, shown = await ask(url, path)
    assert (status, shown["field"]) == (400, field)


async def test_an_unknown_object_is_not_searched_for() -> None:
    reading = Reading(ObjectHistory(0, 0, 0))
    async with node(reading, 404) as url:
        assert (await ask(url))[0] == 404
    assert reading.asked == []


async def test_so_many_are_read_at_once_and_kafkas_absence_is_said() -> None:
    reading = Reading(ObjectHistory(0, 0, 0))
    reading.go_on.clear()
    async with node(reading, turn_s=0.1) as url:
        domains = [f"d{number}" for number in range(READINGS_MAX)]
        busy = [asyncio.create_task(ask(url, PATH.replace("/d/", f"/{domain}/"))) for domain in domains]
        await until(lambda: len(reading.asked) == READINGS_MAX, "they are being read")
        status, shown = await ask(url)
        assert (status, shown["error"]) == (503, "other histories are being read")
        reading.go_on.set()
        assert [status for status, _ in await asyncio.gather(*busy)] == [200] * READINGS_MAX
        reading.error = KafkaUnavailable("Kafka (k): away")
        assert await ask(url) == (503, {"error": "Kafka (k): away"})


async def test_a_domain_reads_one_history_at_a_time_and_does_not_block_other_domains() -> None:
    reading = Reading(ObjectHistory(0, 0, 0))
    reading.go_on.clear()
    async with node(reading) as url:
        own = [asyncio.create_task(ask(url)) for _ in range(4)]
        await until(lambda: len(reading.asked) == 1, "one of them is being read")
        other = asyncio.create_task(ask(url, PATH.replace("/d/", "/other/")))
        await until(lambda: len(reading.asked) == 2, "the other one is being read")
        assert [names[0] for names, *_ in reading.asked] == ["d", "other"]
        reading.go_on.set()
        assert [status for status, _ in await asyncio.gather(*own, other)] == [200] * 5
