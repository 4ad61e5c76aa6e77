"""Descriptions at an HTTP node in front of played matchers, over real ports."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_http import ledger_endpoints
from coldnotify_http.describing import DescribingEndpoints
from coldnotify_http.metrics import Metrics
from coldnotify_http.node_client import NodeClient
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from prometheus_client import CollectorRegistry

PATH = "/v1/domains/d/groups/g/objects/a%2Fb%20c/description"
OURS = Identity("ours", publishes=("d",))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Node:
    def __init__(self, url: str, registry: CollectorRegistry) -> None:
        self._url, self._registry = url, registry

    async def ask(self, method: str, path: str = PATH, body: object = None) -> tuple[int, Any, str | None]:
        data = json.dumps(body) if isinstance(body, dict) else body
        async with ClientSession() as client, client.request(method, self._url + path, data=data) as response:
            return response.status, json.loads(await response.read()), response.headers.get("Retry-After")

    def counted(self, outcome: str) -> float | None:
        return self._registry.get_sample_value(
            "coldnotify_http_changes_total", {"change": "description", "outcome": outcome}
        )

    @property
    def bad_requests(self) -> float | None:
        return self._registry.get_sample_value("coldnotify_http_bad_requests_total")


@asynccontextmanager
async def node(matchers: list[str], *, timeout_s: float = 30, identity: Identity | None = None) -> AsyncIterator[Node]:
    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    settings = HttpSettings(matcher=",".join(matchers), http_look_timeout_s=timeout_s)
    asking, registry = NodeClient(settings), CollectorRegistry()
    routes = [
        *DescribingEndpoints(asking, asking, Metrics(registry), Bodies(HttpSettings(http_body_timeout_s=0.5))).routes(),
        *ledger_endpoints.routes(asking),
    ]
    try:
        async with served_alone(routes, known) as url:
            yield Node(url, registry)
    finally:
        await asking.close()


def answering(body: dict[str, object], status: int = 200) -> web.RouteDef:
    async def handle(request: web.Request) -> web.Response:
        seen = {"method": request.method, "raw": request.rel_url.raw_path_qs, "body": await request.text()}
        return web.json_response({**body, **seen}, status=status)

    return web.route("*", "/{any:.*}", handle)


NOT_MINE = answering({"error": "d/g is not served by this matcher (now)"}, 503)


@pytest.mark.parametrize(
    ("method", "body"), [("GET", None), ("PUT", {"a": 1}), ("PATCH", {"a": None}), ("DELETE", None)]
)
async def test_the_matcher_that_serves_the_object_is_asked(method: str, body: Any) -> None:
    async with AsyncExitStack() as stack:
        matchers = [await stack.enter_async_context(served(one)) for one in (NOT_MINE, answering({"version": 7}))]
        here = await stack.enter_async_context(node([*matchers, "127.0.0.1:1"]))
        path = f"{PATH}?if_revision=0000004d.7"
        status, answer, _ = await here.ask(method, path, body)
        assert (status, answer["version"], answer["method"], answer["raw"]) == (200, 7, method, path)
        assert answer["body"] == ("" if body is None else json.dumps(body))
        assert here.counted("acknowledged") == (0 if method == "GET" else 1)


@pytest.mark.parametrize(("status", "outcome"), [(400, "refused"), (409, "conflict")])
async def test_errors_of_the_matcher_are_passed_on(status: int, outcome: str) -> None:
    async with served(answering({"error": "so", "field": "f"}, status)) as matcher, node([matcher]) as here:
        got, answer, _ = await here.ask("PATCH", body={"a": 1})
        assert (got, answer["field"], here.counted(outcome)) == (status, "f", 1)


async def test_nothing_is_written_if_no_matcher_serves_the_object() -> None:
    async with served(NOT_MINE) as matcher, node([matcher, "127.0.0.1:1"]) as here:
        status, answer, retry_after = await here.ask("PUT", body={"a": 1})
        assert (status, answer["outcome"], retry_after) == (503, "not written", "1")
        assert "d/g is not served" in answer["error"]
        assert here.counted("refused") == 1
        assert (await here.ask("GET"))[0] == 503


async def test_a_matcher_of_an_older_release_is_passed_over() -> None:
    """It knows no PATCH, and whether it serves the object it does not say."""
    async with AsyncExitStack() as stack:
        older = await stack.enter_async_context(served(web.get("/{any:.*}", _never)))
        ours = await stack.enter_async_context(served(answering({"version": 7})))
        here = await stack.enter_async_context(node([older, ours]))
        assert (await here.ask("PATCH", body={"a": 1}))[0] == 200
        alone = await stack.enter_async_context(node([older]))
        status, answer, _ = await alone.ask("PATCH", body={"a": 1})
        assert (status, answer["outcome"], "405" in answer["error"]) == (503, "not written", True)


async def _never(_request: web.Request) -> web.Response:
    raise AssertionError


async def test_a_change_that_may_be_written_is_reported_as_unknown() -> None:
    async def silent(_request: web.Request) -> web.Response:
        await asyncio.sleep(300)
        raise AssertionError

    maybe = answering({"error": "given up", "outcome": "unknown: it may be written"}, 503)
    for route in (maybe, web.route("*", "/{any:.*}", silent)):
        async with served(NOT_MINE) as other, served(route) as matcher, node([other, matcher], timeout_s=0.5) as here:
            status, answer, retry_after = await here.ask("DELETE")
            assert (status, answer["outcome"], retry_after) == (503, "unknown: it may be written", "1")
            assert here.counted("indeterminate") == 1


async def test_only_operators_see_which_matcher_does_not_answer() -> None:
    async with node(["127.0.0.1:1"], identity=OURS) as here:
        assert (await here.ask("DELETE"))[1] == {
            "error": "no matcher serves this group at the moment", "outcome": "not written",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", PATH, b"[1]", "description"),
        ("PUT", PATH, {"9": 1}, "description"),
        ("PATCH", PATH, b"{", "patch"),
        ("PATCH", PATH, b"{" + b" " * 65536 + b"}", "patch"),
        ("DELETE", "/v1/domains/d/groups/g/objects/%FF/description", None, "object"),
        ("DELETE", "/v1/domains/a%20b/groups/g/objects/o/description", None, "domain"),
        ("DELETE", "/v1/domains/d/groups/a%20b/objects/o/description", None, "group"),
    ],
)
async def test_invalid_requests_are_refused_without_asking_a_matcher(
    method: str, path: str, body: Any, field: str
) -> None:
    async with node([]) as here:
        status, answer, _ = await here.ask(method, path, body)
        assert (status, answer["field"], here.bad_requests) == (400, field, 1)
