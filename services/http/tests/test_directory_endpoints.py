"""GET /v1/gateway: the address, what it may be, and for whom."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession
from coldnotify_common.nodes import SILENT_S
from coldnotify_common.placement.allowed_addresses import AllowedAddresses
from coldnotify_common.security.authentication import Authenticator, AuthSettings
from coldnotify_http.directory_endpoints import DirectoryEndpoints
from coldnotify_testkit.nodes_double import NodesDouble
from coldnotify_testkit.served_routes import served_alone

ANYBODY = Authenticator(AuthSettings())
SECRET = "s" * 40
WHO = {"domain": "animal.observer", "group": "region-1", "client": "ou-1"}


def endpoints(
    nodes: NodesDouble, allowed: str = "*.example", authenticator: Authenticator = ANYBODY
) -> DirectoryEndpoints:
    return DirectoryEndpoints(nodes, AllowedAddresses(allowed), authenticator, lambda: 100.0)


async def ask(directory: DirectoryEndpoints, token: str = "", **query: str) -> tuple[int, Any, str | None]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        served_alone(directory.routes()) as url,
        ClientSession(headers=headers) as client,
        client.get(f"{url}/v1/gateway", params=query) as response,
    ):
        return response.status, await response.json(), response.headers.get("Retry-After")


def three() -> NodesDouble:
    nodes = NodesDouble()
    for name in "abc":
        nodes.add("gateway", name, device=f"{name}.example:55000", web=f"https://{name}.example:55003")
    return nodes


async def test_a_gateway_that_is_ready_is_given() -> None:
    nodes = NodesDouble()
    nodes.add("gateway", "ready", device="a.example:55000")
    nodes.add("gateway", "starts", device="b.example:55000", ready=False)
    nodes.add("gateway", "died", device="c.example:55000", age_s=SILENT_S)
    nodes.add("gateway", "elsewhere", device="a.evil:55000")
    nodes.add("matcher", "m", device="d.example:1")
    directory = endpoints(nodes)
    for _ in range(10):
        assert await ask(directory, **WHO) == (200, {"address": "a.example:55000", "home_ready": False}, None)


async def test_clients_are_spread_and_websocket_has_its_own_addresses() -> None:
    directory = endpoints(three())
    given = Counter([(await ask(directory))[1]["address"] for _ in range(30)])
    assert len(given) == 3
    assert max(given.values()) - min(given.values()) <= 4
    _, answer, _ = await ask(directory, listener="web")
    assert answer["address"].startswith("https://")
    status, answer, _ = await ask(directory, listener="udp")
    assert (status, answer["field"]) == (400, "listener")


async def test_home_is_given_if_it_is_ready_else_when_to_try_it() -> None:
    directory = endpoints(three())
    _, answer, _ = await ask(directory, home="b.example:55000")
    assert answer == {"address": "b.example:55000", "home_ready": True}
    before_ms = time.time_ns() // 1_000_000
    _, answer, _ = await ask(directory, home="gone.example:55000")
    assert answer["home_ready"] is False
    assert before_ms + 59_000 <= answer["until"] <= before_ms + 70_000


@pytest.mark.parametrize(("allowed", "words"), [("", "--directory-addresses"), ("*.example", "no gateway is ready")])
async def test_nothing_to_give_is_a_503_with_a_time(allowed: str, words: str) -> None:
    status, answer, retry_after = await ask(endpoints(NodesDouble() if allowed else three(), allowed))
    assert (status, retry_after) == (503, "5")
    assert words in answer["error"]


async def test_without_the_topic_it_says_so() -> None:
    status, answer, _ = await ask(endpoints(NodesDouble("the nodes topic does not exist")))
    assert (status, answer["error"]) == (503, "the nodes topic does not exist")


async def test_gateways_at_one_address_are_one() -> None:
    nodes = three()
    nodes.add("gateway", "beside-a", device="a.example:55000")
    directory = endpoints(nodes)
    given = Counter([(await ask(directory))[1]["address"] for _ in range(40)])
    assert len(given) == 3
    assert 17 <= given["a.example:55000"] <= 23, "twice the weight of the others"


async def test_names_that_cannot_be_are_refused() -> None:
    for field in WHO:
        status, answer, _ = await ask(endpoints(three()), **{field: "a/b"})
        assert (status, answer["field"]) == (400, field)
    status, answer, _ = await ask(endpoints(three()), home="h" * 301)
    assert (status, answer["field"]) == (400, "home")


async def test_with_authentication_a_client_asks_for_itself(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(SECRET)
    settings = AuthSettings(auth="token", auth_token_algorithm="HS256", auth_token_key=str(key))
    directory = endpoints(three(), authenticator=Authenticator(settings))
    own = jwt.encode({"sub": "animal.observer/region-1/ou-1", "exp": time.time() + 600}, SECRET, "HS256")
    publisher = jwt.encode({"publish": "animal.observer", "exp": time.time() + 600}, SECRET, "HS256")
    assert (await ask(directory, **WHO))[0] == 401
    assert (await ask(directory, "wrong", **WHO))[0] == 401
    assert (await ask(directory, own, **WHO))[0] == 200
    assert (await ask(directory, own, **{**WHO, "client": "ou-2"}))[0] == 403
    assert (await ask(directory, own))[0] == 403
    assert (await ask(directory, publisher, **WHO))[0] == 200
