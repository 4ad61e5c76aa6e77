"""Resets at an HTTP node, with a played matcher and publisher: only of what was seen, and with the next incarnation."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify.publisher import Outcome, Published, PublishError
from coldnotify_http.bodies import Named
from coldnotify_http.metrics import Metrics
from coldnotify_http.node_client import NodeClient
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.resetting import Resetting
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

PATH = "/v1/domains/d/groups/g/resets"
SEEN = {"object": "a/b", "newest": {"version": 17, "incarnation": 2}}


class Publisher:
    def __init__(self) -> None:
        self.records: list[Named] = []

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> Sequence[Published | PublishError]:
        self.records += records
        return [Published(version=record.version or 0, partition=1, offset=5) for _, record in records]


class Outcomes:
    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> Sequence[Outcome]:
        return [Outcome("published") for _ in published]

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> str:
        return "nobody is asked"


@asynccontextmanager
async def node(publisher: Publisher, known: dict[str, object], status: int = 200) -> AsyncIterator[str]:
    async def show(request: web.Request) -> web.Response:
        assert request.rel_url.raw_path.endswith("/objects/a%2Fb")
        return web.json_response(known, status=status)

    async with AsyncExitStack() as stack:
        settings = HttpSettings(matcher=await stack.enter_async_context(served(web.get("/{any:.*}", show))))
        asking, metrics = NodeClient(settings), Metrics(CollectorRegistry())
        stack.push_async_callback(asking.close)
        publishing = PublishEndpoints(publisher, settings, metrics, Outcomes())
        pages = Resetting(publishing, asking, metrics)
        yield await stack.enter_async_context(served_alone(pages.routes()))


async def ask(url: str, body: object) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with ClientSession() as client, client.post(url + PATH, data=data) as response:
        return response.status, json.loads(await response.read())


async def test_the_record_has_the_next_incarnation_and_the_log_says_so() -> None:
    publisher = Publisher()
    async with node(publisher, {"version": 17, "incarnation": 2}) as url:
        with capture_logs() as logs:
            status, shown = await ask(url, {**SEEN, "version": 3, "payload": {"fps": 5}})
    assert (status, shown["outcome"], shown["object"], shown["version"]) == (200, "published", "a/b", 3)
    ((name, record),) = publisher.records
    assert (name, record.version, record.incarnation, record.payload_bytes) == ("a/b", 3, 3, b'{"fps": 5}')
    assert [(one["object"], one["incarnation"]) for one in logs if one["event"] == "object reset"] == [("a/b", 3)]


@pytest.mark.parametrize("newest", [{"version": 18, "incarnation": 2}, {"version": None, "incarnation": 0}])
async def test_an_outdated_view_is_not_reset(newest: dict[str, object]) -> None:
    publisher = Publisher()
    async with node(publisher, newest) as url:
        status, shown = await ask(url, SEEN)
    assert (status, shown["field"], shown["newest"]) == (409, "newest", newest)
    assert publisher.records == []


async def test_an_unknown_object_is_not_reset() -> None:
    async with node(Publisher(), {"error": "object: is not known"}, 404) as url:
        assert (await ask(url, SEEN))[0] == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        ({"newest": {"version": 1}}, "record"),
        ({**SEEN, "object": ""}, "object"),
        ({**SEEN, "version": -1}, "version"),
        ({**SEEN, "version": "1"}, "version"),
        ({**SEEN, "payload": "x" * 5000}, "payload"),
        ({**SEEN, "incarnation": 9}, "record"),
        ({"object": "a/b"}, "record"),
    ],
)
async def test_the_wrong_field_is_named(body: object, field: str) -> None:
    publisher = Publisher()
    async with node(publisher, {"version": 17, "incarnation": 2}) as url:
        status, shown = await ask(url, body)
    assert (status, shown.get("field")) == (400, field), shown
    assert publisher.records == []
