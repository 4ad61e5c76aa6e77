"""Partitions and removals at an HTTP node: the rows of all matchers, and which of them did not answer."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_http.matchers_endpoints import MatchersEndpoints
from coldnotify_http.node_client import NodeClient
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOWHERE = "127.0.0.1:1"


@asynccontextmanager
async def node(*matchers: web.RouteDef, identity: Identity | None = None) -> AsyncIterator[tuple[str, list[str]]]:
    """(its URL, addresses of its matchers): these, and one where nobody listens."""

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(served(one)) for one in matchers] + [NOWHERE]
        asking = NodeClient(HttpSettings(matcher=",".join(addresses)))
        stack.push_async_callback(asking.close)
        routes = MatchersEndpoints(asking, Bodies(HttpSettings())).routes()
        yield await stack.enter_async_context(served_alone(routes, known)), addresses


async def ask(url: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    async with ClientSession() as client, client.request(method, url, data=data) as response:
        return response.status, json.loads(await response.read())


def matcher(partitions: list[int], *, apart: bool = False) -> web.RouteDef:
    async def handle(request: web.Request) -> web.Response:
        if request.method == "PATCH" and apart:
            return web.json_response({"error": "clocks are apart"}, status=409)
        rows = [{"partition": one, "confirmed": (await request.text())} for one in partitions]
        return web.json_response({"items": rows, "now_ms": 7})

    return web.route("*", "/v1/{any:.*}", handle)


async def test_the_rows_of_all_matchers_come_in_the_order_of_partitions_and_a_silent_one_is_named() -> None:
    async with node(matcher([0, 3]), matcher([1, 3])) as (url, (one, other, _)):
        status, shown = await ask(f"{url}/v1/partitions")
    rows = [(row["partition"], row["matcher"]) for row in shown["items"]]
    assert (status, rows) == (200, [(0, one), (1, other), *((3, at) for at in sorted((one, other)))])
    assert [row["address"] for row in shown["matchers"]] == [one, other, NOWHERE]
    assert [row["error"] is None for row in shown["matchers"]] == [True, True, False]
    assert [row.get("now_ms") for row in shown["matchers"]] == [7, 7, None]


async def test_a_confirmation_goes_to_every_matcher_and_one_that_refuses_is_named() -> None:
    said = {"confirmed": True}
    async with node(matcher([0]), matcher([1], apart=True)) as (url, _):
        status, shown = await ask(f"{url}/v1/removals", "PATCH", said)
    assert (status, json.loads(shown["items"][0]["confirmed"])) == (200, said)
    assert shown["matchers"][1]["error"] == "clocks are apart"
    async with node(matcher([0], apart=True)) as (url, _):
        assert await ask(f"{url}/v1/removals", "PATCH", said) == (409, {"error": "clocks are apart"})


async def test_without_an_answer_it_says_why_and_others_than_operators_are_refused() -> None:
    async with node() as (url, _):
        status, shown = await ask(f"{url}/v1/partitions")
    assert (status, f"matcher {NOWHERE}: " in shown["error"]) == (503, True)
    for publishes, expected in ((("d",), 403), (("*",), 200)):
        async with node(matcher([0]), identity=Identity("ours", publishes=publishes)) as (url, _):
            for path in ("partitions", "removals"):
                assert (await ask(f"{url}/v1/{path}"))[0] == expected
