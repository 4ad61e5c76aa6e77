"""The ledger at an HTTP node in front of played matchers and gateways, over real ports.

Stands for: node_client
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.web import error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_common.settings import SettingError
from coldnotify_http import ledger_endpoints
from coldnotify_http.node_client import NodeClient, addresses, path
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from coldnotify_testkit.waiting import until

OBJECT = "/v1/domains/d/groups/g/objects/a%2Fb%20c"
OURS = Identity("ours", publishes=("d",))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def node(
    matchers: list[str], gateways: list[str] | None = None, timeout_s: float = 30, identity: Identity | None = None
) -> AsyncIterator[str]:
    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    settings = HttpSettings(
        matcher=",".join(matchers), gateway_http=",".join(gateways or []), http_look_timeout_s=timeout_s
    )
    asking = NodeClient(settings)
    try:
        async with served_alone(ledger_endpoints.routes(asking), known) as url:
            yield url
    finally:
        await asking.close()


async def get(url: str) -> tuple[int, Any, str | None]:
    async with ClientSession() as client, client.get(url) as response:
        return response.status, json.loads(await response.read()), response.headers.get("Retry-After")


def answering(body: object, status: int = 200) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        shown = {**body, "raw": request.rel_url.raw_path_qs} if isinstance(body, dict) else body
        return web.json_response(shown, status=status)

    return handle


NOT_MINE = web.get("/v1/{any:.*}", answering({"error": "d/g is not served by this matcher (now)"}, 503))


async def test_the_matcher_that_serves_the_group_answers() -> None:
    async with AsyncExitStack() as stack:
        ours = web.get("/v1/{any:.*}", answering({"lacking": 1}))
        matchers = [await stack.enter_async_context(served(one)) for one in (NOT_MINE, ours, NOT_MINE)]
        url = await stack.enter_async_context(node([*matchers, "127.0.0.1:1"]))
        status, body, _ = await get(f"{url}{OBJECT}/lacking?version=5&limit=2")
        assert (status, body["lacking"]) == (200, 1)
        assert body["raw"] == f"{OBJECT}/lacking?version=5&limit=2"


async def test_a_takeover_is_waited_for() -> None:
    asked = 0

    async def takes_over(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked <= 2:
            return web.json_response({"error": "d/g is not served by this matcher (now)"}, status=503)
        return web.json_response({"lacking": 1})

    async with AsyncExitStack() as stack:
        matcher = await stack.enter_async_context(served(web.get("/v1/{any:.*}", takes_over)))
        url = await stack.enter_async_context(node([matcher, "127.0.0.1:1"]))
        assert await get(f"{url}{OBJECT}/lacking") == (200, {"lacking": 1}, None)
        assert asked == 3


async def test_a_matcher_whose_new_address_is_still_to_be_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.node_client._TAKEOVER_S", 30.0)
    async with served(web.get("/v1/{any:.*}", answering({"lacking": 1}))) as matcher, node([]) as url:
        known = iter([[], ["127.0.0.1:1"]])
        monkeypatch.setattr(NodeClient, "matchers", property(lambda _: next(known, [matcher])))
        assert (await get(f"{url}{OBJECT}/lacking"))[0] == 200


@pytest.mark.parametrize(
    "path",
    ["channels?limit=2", "channels/site/tasks?after=a", "queries", "clients/c", "objects/a/o/subscribers?limit=2"],
)
async def test_lists_are_the_matchers_own(path: str) -> None:
    listing = web.get("/v1/{any:.*}", answering({"items": []}))
    async with served(listing) as matcher, node([matcher]) as url:
        status, body, _ = await get(f"{url}/v1/domains/d/groups/g/{path}")
        assert (status, body["raw"]) == (200, f"/v1/domains/d/groups/g/{path}")


async def test_a_matcher_that_does_not_know_queries_has_not_answered_one() -> None:
    """One of an older release would list all objects."""
    path = "/v1/domains/d/groups/g/objects"
    listing = web.get("/v1/{any:.*}", answering({"items": [], "next": None}))
    async with served(listing) as matcher, node([matcher]) as url:
        status, body, retry_after = await get(f"{url}{path}?query=a%20%3D%201")
        assert (status, "without queries" in body["error"], retry_after) == (503, True, "1")
        assert (await get(f"{url}{path}"))[0] == 200
    found = web.get("/v1/{any:.*}", answering({"query": "a = 1", "items": [], "next": None}))
    async with served(found) as matcher, node([matcher]) as url:
        assert (await get(f"{url}{path}?query=a%20%3D%201"))[1]["query"] == "a = 1"


async def test_a_matcher_that_does_not_know_names_has_not_answered_for_them() -> None:
    path = "/v1/domains/d/groups/g/objects?names=a,b"
    for body, expected in (({"items": []}, 503), ({"items": [], "as_of": 3}, 200)):
        async with served(web.get("/v1/{any:.*}", answering(body))) as matcher, node([matcher]) as url:
            assert (await get(url + path))[0] == expected


async def test_unknown_names_and_errors_are_passed_on_from_the_matcher() -> None:
    unknown = web.get("/v1/{any:.*}", answering({"error": "object: is not known"}, 404))
    async with served(unknown) as matcher, node([matcher]) as url:
        assert (await get(f"{url}{OBJECT}/lacking"))[:2] == (
            404,
            {"error": "object: is not known", "raw": f"{OBJECT}/lacking"},
        )
        assert (await get(f"{url}/v1/domains/d/groups/a%20b/objects/o/lacking"))[0] == 400
        assert (await get(f"{url}{OBJECT}/lacking?limit=0"))[1]["field"] == "limit"


async def test_if_no_matcher_answers_the_reasons_and_retry_after_are_returned() -> None:
    async def silent(_request: web.Request) -> web.Response:
        await asyncio.sleep(300)
        raise AssertionError

    async with AsyncExitStack() as stack:
        matchers = [await stack.enter_async_context(served(web.get("/v1/{any:.*}", silent)))]
        matchers += [await stack.enter_async_context(served(NOT_MINE)), "127.0.0.1:1"]
        url = await stack.enter_async_context(node(matchers, timeout_s=0.5))
        begin_s = time.monotonic()
        status, body, retry_after = await get(f"{url}{OBJECT}/lacking")
        assert time.monotonic() - begin_s < 60
        assert (status, retry_after) == (503, "1")
        silent_, not_mine, nobody = body["error"].split("; ")
        assert silent_ == f"matcher {matchers[0]}: no answer within 0.5 s"
        assert not_mine == f"matcher {matchers[1]}: d/g is not served by this matcher (now)"
        assert "Cannot connect" in nobody


async def test_only_operators_see_which_matcher_does_not_answer() -> None:
    asked = f"{OBJECT}/lacking"
    async with node(["127.0.0.1:1"], identity=OURS) as url:
        assert (await get(url + asked)) == (503, {"error": "no matcher serves this group at the moment"}, "1")
    async with node(["127.0.0.1:1"], identity=Identity("operator", publishes=("*",))) as url:
        assert "127.0.0.1:1" in (await get(url + asked))[1]["error"]


@pytest.mark.parametrize("identity", [None, OURS])
async def test_an_explanation_joins_matcher_and_gateways(identity: Identity | None) -> None:
    client = {
        "client": "c", "online": True, "gateway": "ab", "session": 7, "session_state": "live", "registered": 1,
        "cursor": 3, "last_seen_ms": 5, "gateway_heard_ms": 6,
    }  # fmt: skip
    obj = {
        "object": "o", "version": 9, "incarnation": 0, "offset": 4, "published_ms": 4, "source": None, "held": False,
        "client_registered": True, "client_applied": False, "client_is_source": False, "since_ms": 4,
    }  # fmt: skip
    known = {
        "partition": 1, "generation": 2, "position": 5, "requests_waiting": 0, "now_ms": 9, "client": client,
        "object": obj, "lacking": [{"object": "o", "version": 9, "since_ms": 4}], "rejected": [],
    }  # fmt: skip
    session = {"session": 7, "state": "live", "complete": 4, "since_ms": 2, "address": "10.0.0.1:5"}

    async def no_session(_request: web.Request) -> web.Response:
        return error_response(404, "has no session at this gateway")

    async with AsyncExitStack() as stack:
        matcher = await stack.enter_async_context(served(web.get("/v1/{any:.*}", answering(known))))
        gateways = [
            await stack.enter_async_context(
                served(web.get("/v1/gateway", answering({"gateway": id_})), web.get("/v1/domains/{any:.*}", shown))
            )
            for id_, shown in (("cd", no_session), ("ab", answering({"sessions": [session]})))
        ]
        url = await stack.enter_async_context(node([matcher], [*gateways, "127.0.0.1:1"], identity=identity))
        status, body, _ = await get(f"{url}/v1/domains/d/groups/g/clients/c/explanation?object=o")
    assert (status, body["verdict"]) == (200, "sent")
    assert [event["step"] for event in body["timeline"]] == ["publish", "match", "match", "gateway", "acknowledgement"]
    if identity is None:
        assert [one.partition(" ")[0] for one in body["gateways_silent"]] == ["127.0.0.1:1:"]
        assert "session 7 of 10.0.0.1:5 at gateway ab (127.0.0.1:" in body["timeline"][3]["text"]
    else:
        assert body["gateways_silent"] == ["#1: no answer"]
        assert "session 7 at gateway ab is live" in body["timeline"][3]["text"]
        assert "127.0.0.1" not in str(body), "addresses are for operators"
        assert "10.0.0.1" not in str(body)


@pytest.mark.parametrize("wrong", ["nohost", "h:0", "h:65536", ":1", "h:x", "a:1,b"])
def test_an_address_that_is_none_is_named_with_its_setting(wrong: str) -> None:
    with pytest.raises(SettingError, match=r"COLDNOTIFY_GATEWAY_HTTP / --gateway-http: .* (is not host:|has no )port"):
        addresses(wrong, "gateway_http")


def test_paths_are_quoted_and_what_is_none_is_left_out() -> None:
    assert path("objects", "a/b c", limit=2, after=None) == "/v1/objects/a%2Fb%20c?limit=2"
    assert path("gateway") == "/v1/gateway"


async def test_a_tenant_that_asks_constantly_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred questions of one tenant, each of which takes its time, held all connections to the matchers."""
    monkeypatch.setattr("coldnotify_http.node_client._CONNECTIONS_MAX", 3)
    monkeypatch.setattr("coldnotify_http.node_client._CONNECTIONS_OF_ONE_MAX", 2)
    asked: list[str] = []
    goes_on = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        domain = request.match_info["domain"]
        asked.append(domain)
        if domain == "d":
            await goes_on.wait()
        return web.json_response({"query": request.query.get("query")})

    async with served(web.get("/v1/domains/{domain}/groups/g/{rest:.*}", slow)) as matcher, node([matcher]) as url:
        clients, objects = "/v1/domains/{}/groups/g/clients", "/v1/domains/{}/groups/g/objects?query=a%3D1"
        greedy = [asyncio.create_task(get(url + clients.format("d"))) for _ in range(9)]
        async with asyncio.timeout(60):
            await until(lambda: asked.count("d") == 2, "they are asked")
            assert (await get(url + clients.format("other")))[0] == 200
            assert asked.count("d") == 2
            goes_on.set()
            assert {status for status, *_ in await asyncio.gather(*greedy)} == {200}
            goes_on.clear()
            monkeypatch.setattr("coldnotify_http.ledger_endpoints.QUERY_TURN_S", 0.1)
            query = asyncio.create_task(get(url + objects.format("d")))
            await until(lambda: asked.count("d") == 10, "they are asked")
            status, refused, retry_after = await get(url + objects.format("d"))
            assert (status, "your other queries" in refused["error"], retry_after) == (503, True, "1")
            assert (await get(url + objects.format("other")))[0] == 200
            goes_on.set()
            assert (await query)[0] == 200
