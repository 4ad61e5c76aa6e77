"""Disconnecting and forgetting at an HTTP node in front of played matchers: what is asked, answered, noted."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_http import ledger_endpoints
from coldnotify_http.client_changes import ClientChanges
from coldnotify_http.metrics import Metrics
from coldnotify_http.node_client import NodeClient
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

PATH = "/v1/domains/d/groups/g/clients/c"
OURS = Identity("ours", publishes=("d",))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def node(
    *matchers: web.RouteDef, identity: Identity | None = None
) -> AsyncIterator[tuple[str, CollectorRegistry]]:
    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(served(one)) for one in matchers]
        asking, registry = NodeClient(HttpSettings(matcher=",".join(addresses))), CollectorRegistry()
        stack.push_async_callback(asking.close)
        routes = [
            *ClientChanges(asking, Metrics(registry), Bodies(HttpSettings())).routes(),
            *ledger_endpoints.routes(asking),
        ]
        yield await stack.enter_async_context(served_alone(routes, known)), registry


async def ask(url: str, method: str, path: str = PATH, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    async with ClientSession() as client, client.request(method, url + path, data=data) as response:
        return response.status, json.loads(await response.read())


def answering(body: dict[str, object], status: int = 200) -> web.RouteDef:
    async def handle(request: web.Request) -> web.Response:
        seen = {"method": request.method, "raw": request.rel_url.raw_path_qs, "body": await request.text()}
        return web.json_response({**body, **seen}, status=status)

    return web.route("*", "/{any:.*}", handle)


NOT_MINE = answering({"error": "d/g is not served by this matcher (now)", "outcome": "not done"}, 503)


async def _only_shows(_request: web.Request) -> web.Response:
    return web.json_response({})


OLD = web.get("/{any:.*}", _only_shows)
LATE: dict[str, object] = {"error": "late", "outcome": "unknown: it may be done"}


@pytest.mark.parametrize(
    ("method", "body", "change"), [("PATCH", {"online": False}, "disconnect"), ("DELETE", None, "forget")]
)
async def test_the_matcher_that_serves_the_client_is_asked_and_the_log_says_who_did_it(
    method: str, body: object, change: str
) -> None:
    async with node(OLD, NOT_MINE, answering({"outcome": "done"}), identity=OURS) as (url, registry):
        with capture_logs() as logs:
            status, shown = await ask(url, method, f"{PATH}?reason=a%20b", body)
        assert (status, shown["method"], shown["raw"]) == (200, method, f"{PATH}?reason=a%20b")
        assert shown["body"] == ("" if body is None else json.dumps(body))
        (line,) = [one for one in logs if one["event"] == "client changed by an operator"]
        said = {
            name: line[name] for name in ("change", "domain", "group", "client", "by", "reason", "status", "outcome")
        }
        assert said == {
            "change": change, "domain": "d", "group": "g", "client": "c", "by": "ours", "reason": "a b", "status": 200,
            "outcome": "done",
        }  # fmt: skip
        labels = {"change": change, "outcome": "acknowledged"}
        assert registry.get_sample_value("coldnotify_http_changes_total", labels) == 1


@pytest.mark.parametrize(
    ("matcher", "status", "outcome", "counted"),
    [
        (NOT_MINE, 503, "not done", "refused"),
        (OLD, 503, "not done", "refused"),
        (answering(LATE, 503), 503, "unknown: it may be done", "indeterminate"),
        (answering({"error": "client: d/g/c is not known"}, 404), 404, None, "refused"),
    ],
)  # fmt: skip
async def test_a_change_that_failed_or_is_indeterminate_is_reported(
    matcher: web.RouteDef, status: int, outcome: str | None, counted: str
) -> None:
    async with node(matcher, identity=OURS) as (url, registry):
        got, shown = await ask(url, "DELETE")
        assert (got, shown.get("outcome")) == (status, outcome)
        labels = {"change": "forget", "outcome": counted}
        assert registry.get_sample_value("coldnotify_http_changes_total", labels) == 1


async def test_a_name_that_is_none_is_refused_here() -> None:
    async with node(NOT_MINE) as (url, registry):
        status, shown = await ask(url, "DELETE", f"{PATH}%20no")
        assert status == 400
        assert shown["field"] == "client"
        assert registry.get_sample_value("coldnotify_http_bad_requests_total") == 1


SHARE = "/v1/domains/d/groups/g/channels/a%2Fb/shares/w"


async def test_a_share_is_forgotten_or_refused_as_its_matcher_says_and_the_log_says_who_asked() -> None:
    for answer, expected in (
        (answering({"outcome": "forgotten"}), 200),
        (answering({"error": "has members"}, 409), 409),
    ):
        async with node(NOT_MINE, answer, identity=OURS) as (url, _):
            with capture_logs() as logs:
                status, shown = await ask(url, "DELETE", f"{SHARE}?reason=a%20b")
            assert (status, shown["method"], shown["raw"]) == (expected, "DELETE", f"{SHARE}?reason=a%20b")
            (line,) = [one for one in logs if one["event"] == "share changed by an operator"]
            assert [line[name] for name in ("change", "channel", "share", "by", "reason", "status")] == [
                "forget_share", "a/b", "w", "ours", "a b", expected,
            ]  # fmt: skip


async def test_a_share_of_no_name_is_refused_here() -> None:
    async with node(NOT_MINE) as (url, _):
        status, shown = await ask(url, "DELETE", SHARE.replace("/w", "/w%20w"))
        assert (status, shown["field"]) == (400, "share")
