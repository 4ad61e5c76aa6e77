"""Lists at an HTTP node: the pages of played matchers and gateways make one; who does not answer is named."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.sorted_lists import KINDS, Place, listed
from coldnotify_common.http.web import Handler
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_http import lists_endpoints
from coldnotify_http.lists_endpoints import ListsEndpoints
from coldnotify_http.node_client import NodeClient
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.nodes_double import NodesDouble
from coldnotify_testkit.served_routes import served, served_alone

NOWHERE = "127.0.0.1:1"
OPERATOR, OURS = Identity("ada", publishes=("*",)), Identity("ours", publishes=("d", "e.*"))


def client(name: str, session: int | None = None) -> dict[str, Any]:
    where = {"gateway": None if session is None else "ab", "session": session}
    return {"domain": "d", "group": "g", "client": name, "state": "live", **where}


def matcher(number: int, names: str, *, partial: bool = False) -> list[web.RouteDef]:
    """A matcher of two that serves one partition, with clients of these names. What it was asked is in its rows."""
    rows = [client(name, ord(name)) for name in names]

    async def clients(request: web.Request) -> web.Response:
        body = await request.json()
        asked = KINDS["clients"].request(request.query)
        found = [(Place(row["client"], row["client"]), row | {"asked": body}) for row in rows]
        page = listed(found, asked)
        items = [{"place": list(place), **row} for place, row in page.items]
        more = {"more": page.more, "count": page.total, "partial": partial}
        return web.json_response({"items": items, "partitions": [number], "partitions_count": 2, **more})

    async def partitions(_request: web.Request) -> web.Response:
        row = {"clients": len(names), "online": 1, "objects": 4}
        return web.json_response(
            {"items": [{"partition": number, "phase": "owned", **row}, {"partition": 7, "phase": "following", **row}]}
        )

    return [web.post("/v1/clients", clients), web.get("/v1/partitions", partitions)]


def gateway(addresses: dict[int, str]) -> list[web.RouteDef]:
    def rows(numbers: list[int]) -> list[dict[str, Any]]:
        return [client(chr(one), one) | {"address": addresses[one]} for one in numbers if one in addresses]

    async def sessions(request: web.Request) -> web.Response:
        if request.method == "POST":
            wanted = (await request.json())["gateways"].get("ab", [])
            return web.json_response({"gateway": "ab", "items": rows(wanted)})
        return web.json_response({"items": rows(list(addresses)), "next": None})

    async def itself(_request: web.Request) -> web.Response:
        shown = {"gateway": "ab", "connections": 9, "ready": True, "partitions": [{"sessions": 2}, {"sessions": 3}]}
        return web.json_response(shown)

    return [web.route("*", "/v1/sessions", sessions), web.get("/v1/gateway", itself)]


@asynccontextmanager
async def node(
    *matchers: list[web.RouteDef], gateways: list[list[web.RouteDef]] | None = None, identity: Identity | None = None
) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """(its URL, addresses of its matchers, of its gateways)."""

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(served(*one)) if one else NOWHERE for one in matchers]
        others = [await stack.enter_async_context(served(*one)) if one else NOWHERE for one in gateways or []]
        asking = NodeClient(HttpSettings(matcher=",".join(places), gateway_http=",".join(others)))
        stack.push_async_callback(asking.close)
        routes = ListsEndpoints(asking, overdue_s=77).routes()
        yield await stack.enter_async_context(served_alone(routes, known)), places, others


async def ask(url: str, path: str, **query: object) -> tuple[int, Any]:
    async with ClientSession() as client, client.get(f"{url}/v1/{path}?{urlencode(query)}") as response:
        return response.status, json.loads(await response.read())


def names(shown: Any) -> str:
    return "".join(one["client"] for one in shown["items"])


async def test_pages_of_all_matchers_are_one_list() -> None:
    async with node(matcher(0, "ace"), matcher(1, "bdf")) as (url, places, _):
        pages: list[str] = []
        after: dict[str, object] = {}
        for _ in range(3):
            status, shown = await ask(url, "clients", limit=2, **after)
            pages.append(names(shown))
            after = {"after": shown["next"]}
            assert (status, shown["count"], shown["partial"]) == (200, 6, False)
    assert pages == ["ab", "cd", "ef"]
    assert shown["next"] is None
    assert shown["partitions"] == {"counted": 2, "missing": [], "since_ms": None}
    assert shown["matchers"] == [{"address": one, "error": None} for one in places]
    assert "place" not in shown["items"][0]


async def test_a_matcher_without_an_answer_is_named_and_one_of_an_older_release_too() -> None:
    async def partitions(_request: web.Request) -> web.Response:
        return web.json_response({"items": []})

    old = [web.get("/v1/partitions", partitions)]
    async with node(matcher(0, "a", partial=True), old, []) as (url, _, _):
        status, shown = await ask(url, "clients")
    assert (status, names(shown), shown["partial"]) == (200, "a", True)
    errors = [one["error"] for one in shown["matchers"]]
    assert errors[:2] == [None, "is of a release without lists"]
    assert "connect" in errors[2]
    assert shown["partitions"] == {"counted": 1, "missing": [1], "since_ms": None}
    async with node([]) as (url, _, _):
        status, shown = await ask(url, "clients")
        assert (status, f"matcher {NOWHERE}: " in shown["error"]) == (503, True)
    asking = NodeClient(HttpSettings(), nodes=NodesDouble())
    async with served_alone(ListsEndpoints(asking, overdue_s=77).routes()) as url:
        assert (await ask(url, "groups"))[1]["error"].startswith("no matcher is known")


@pytest.mark.parametrize("identity", [None, OPERATOR, OURS])
async def test_groups_of_a_domain_are_those_of_no_other(identity: Identity | None) -> None:
    async def groups(request: web.Request) -> web.Response:
        row = {"place": ["d/g", "d/g"], "domain": "d", "group": "g", "asked": await request.json()}
        counts = {"more": False, "count": 1, "partial": False, "partitions": [0], "partitions_count": 1}
        return web.json_response({"items": [row], **counts})

    async with node([web.post("/v1/groups", groups)], identity=identity) as (url, _, _):
        status, shown = await ask(url, "domains/d/groups", limit=1)
        assert (status, shown["items"][0]["asked"]) == (200, {"overdue_s": 77, "domains": ["d"]})
        assert (await ask(url, "domains/d%20e/groups"))[0] == 400


async def test_others_than_operators_see_their_domains_and_no_addresses() -> None:
    for identity, bounds, sees in ((OURS, {"domains": ["d", "e.*"]}, False), (OPERATOR, {}, True), (None, {}, True)):
        gateways = [gateway({ord("a"): "10.0.0.1:5"})]
        async with node(matcher(0, "a"), [], gateways=gateways, identity=identity) as (url, places, _):
            _, shown = await ask(url, "clients")
            (row,) = shown["items"]
            assert (row["asked"], row["address"]) == (bounds, "10.0.0.1:5" if sees else None)
            assert shown["matchers"][0]["address"] == (places[0] if sees else "#1")
            assert (shown["matchers"][1]["error"] == "no answer") is not sees
            for path in ("gateways", "matchers"):
                assert (await ask(url, path))[0] == (200 if sees else 403)
            status, shown = await ask(url, "clients", address="10.")
            assert (status, shown.get("field")) == ((200, None) if sees else (403, "address"))


async def test_clients_of_an_address_are_those_that_gateways_name(monkeypatch: pytest.MonkeyPatch) -> None:
    gateways = [gateway({ord("a"): "10.0.0.1:5", ord("b"): "10.0.0.2:5"}), []]
    async with node(matcher(0, "ab"), gateways=gateways) as (url, _, others):
        _, shown = await ask(url, "clients", address="10.0.0.2")
        assert shown["items"][0]["asked"] == {"clients": ["d/g/b"]}
        assert [one["error"] is None for one in shown["gateways"]] == [True, False]
        assert (shown["partial"], [one["address"] for one in shown["gateways"]]) == (False, others)
        monkeypatch.setattr(lists_endpoints, "CLIENTS_ASKED_MAX", 1)
        _, shown = await ask(url, "clients", address="10.")
        assert (shown["items"][0]["asked"], shown["partial"]) == ({"clients": ["d/g/a"]}, True)
    async with node(matcher(0, "ab"), gateways=[[]]) as (url, _, _):
        assert (await ask(url, "clients", address="10."))[0] == 503


async def test_processes_are_listed_and_what_they_do_not_say_is_null() -> None:
    async with node(matcher(0, "abc"), [], gateways=[gateway({}), []]) as (url, places, others):
        _, shown = await ask(url, "gateways")
        silent, here = sorted(shown["items"], key=lambda one: one["state"] != "silent")
        assert (here["address"], here["state"], here["error"]) == (others[0], "ready", None)
        assert (here["gateway"], here["connections"], here["sessions"]) == ("ab", 9, 5)
        assert here["version"]
        assert here["uptime_s"] >= 0
        assert (silent["address"], silent["connections"], silent["version"]) == (NOWHERE, None, None)
        assert "connect" in silent["error"]
        _, shown = await ask(url, "matchers", state="ready", sort="clients", order="desc")
        (row,) = shown["items"]
        assert (row["partitions"], row["following"], row["clients"], row["objects"]) == ([0], 1, 3, 4)
        for query, found in (
            ({"address": places[0]}, 1),
            ({"state": "silent"}, 1),
            ({"since_ms": here["started_ms"] - 60_000}, 1),
            ({"until_ms": 5}, 0),
            ({"limit": 1, "sort": "started"}, 2),
        ):
            assert (await ask(url, "matchers", **query))[1]["count"] == found
        assert (await ask(url, "gateways", id="AB"))[1]["count"] == 1
        first = (await ask(url, "matchers", limit=1, sort="clients"))[1]
        assert first["items"][0]["state"] == "silent"
        second = (await ask(url, "matchers", limit=1, sort="clients", after=first["next"]))[1]
        assert (second["items"][0]["address"], second["next"]) == (places[0], None)


async def test_a_process_of_release_0_1_0_is_there_without_version_and_uptime(monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(_request: web.Request) -> web.Response:
        return web.Response()

    monkeypatch.setattr("coldnotify_common.http.admin.ProcessFacts.route", lambda _: web.get("/v1/other", other))
    async with node(matcher(0, "a"), gateways=[gateway({})]) as (url, _, _):
        for kind in ("gateways", "matchers"):
            (row,) = (await ask(url, kind, sort="version"))[1]["items"]
            assert (row["state"], row["version"], row["uptime_s"], row["cpu"]) == ("ready", None, None, None)


async def test_an_error_names_the_parameter() -> None:
    async with node(matcher(0, "a")) as (url, _, _):
        for path, query, field in (
            ("clients", {"state": "gone"}, "state"), ("groups", {"since_ms": "x"}, "since_ms"),
            ("search", {}, "text"), ("search", {"text": " "}, "text"), ("gateways", {"sort": "x"}, "sort"),
            ("clients", {"address": "x", "sort": "x"}, "sort"), ("matchers", {"id": "x"}, "id"),
        ):  # fmt: skip
            status, shown = await ask(url, path, **query)
            assert (status, shown["field"]) == (400, field)
            assert shown["error"].startswith(f"{field}: ")


async def test_only_some_lists_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_endpoints, "LISTS_MAX", 0)
    monkeypatch.setattr(lists_endpoints, "LIST_TURN_S", 0)
    async with node(matcher(0, "a")) as (url, _, _):
        assert (await ask(url, "clients"))[0] == 503
