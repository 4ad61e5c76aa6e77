"""Nodes as operators and Prometheus are shown them."""

from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.web import Handler
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.nodes import SILENT_S
from coldnotify_common.security.identity import Identity
from coldnotify_http.nodes_endpoints import NodesEndpoints, targets
from coldnotify_testkit.nodes_double import NodesDouble
from coldnotify_testkit.served_routes import served_alone

OPERATOR = Identity(name="eve", publishes=("*",))
BACK_END = Identity(name="shop", publishes=("shop",))


def nodes() -> NodesDouble:
    known = NodesDouble()
    known.add("matcher", "m-1", inside="m:1", age_s=SILENT_S)
    known.add("gateway", "g-1", inside="g:1", web="https://g:3", age_s=1.26)
    known.add("http", "h-1", http="https://h:2", ready=False)
    return known


async def ask(path: str, identity: Identity | None) -> tuple[int, Any]:
    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity
        return await handler(request)

    routes = NodesEndpoints(nodes(), inside_scheme="http").routes()
    async with served_alone(routes, known) as url, ClientSession() as client, client.get(url + path) as response:
        return response.status, await response.json()


async def test_all_nodes_are_shown_with_their_ages() -> None:
    status, shown = await ask("/v1/nodes", OPERATOR)
    assert status == 200
    assert [(one["role"], one["state"], one["age_s"]) for one in shown["items"]] == [
        ("gateway", "ready", 1.3),
        ("http", "not_ready", 0),
        ("matcher", "silent", SILENT_S),
    ]
    assert shown["items"][0]["addresses"] == {"inside": "g:1", "web": "https://g:3"}
    assert (shown["unknown"], shown["passed_over"], shown["passed_over_why"]) == (None, 0, None)


async def test_prometheus_is_shown_targets_silent_ones_too() -> None:
    assert (await ask("/v1/prometheus-targets", None))[1] == [
        {"targets": [address], "labels": {"job": job, "__scheme__": scheme, "__meta_coldnotify_id": name,
                                          "__meta_coldnotify_label_zone": "a"}}
        for address, job, scheme, name in (("g:1", "gateway", "http", "g-1"), ("h:2", "http", "https", "h-1"),
                                           ("m:1", "matcher", "http", "m-1"))
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/prometheus-targets"])
async def test_they_are_for_operators(path: str) -> None:
    status, shown = await ask(path, BACK_END)
    assert (status, "shop is no operator" in shown["error"]) == (403, True)


def test_an_address_is_one_target_of_the_node_that_wrote_last() -> None:
    known = NodesDouble()
    known.add("gateway", "killed", inside="g:1", age_s=SILENT_S)
    known.add("gateway", "runs", inside="g:1")
    (one,) = targets(known.seen(), "https")
    assert (one["labels"]["__meta_coldnotify_id"], one["labels"]["__scheme__"]) == ("runs", "https")
