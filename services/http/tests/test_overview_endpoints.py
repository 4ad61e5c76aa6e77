"""The overview over played matchers and gateways: added up, asked once for all who look, as events, and by identity."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.admin import AdminServer, bound_port, listen
from coldnotify_common.http.web import Handler, json_errors
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import ANYBODY, Identity
from coldnotify_http.node_client import NodeAnswer, NodeClient
from coldnotify_http.overview_endpoints import AnsweredPartitions, HttpOverview
from coldnotify_http.settings import HttpSettings
from yarl import URL

LIMIT_S = 60
ROW = {"domain": "d", "group": "g", "since_ms": 5, "publishes": 1}
OF_MATCHER: dict[str, Any] = {
    "partial": False, "clients": 3, "online": 2, "lacking": 1, "overdue": 1, "objects": 4, "groups_count": 1,
    "domains": {
        "d": {"clients": 2, "online": 2, "lacking": 1, "overdue": 0, "objects": 1, "groups_count": 1},
        "secret": {"clients": 1, "online": 0, "lacking": 0, "overdue": 1, "objects": 3, "groups_count": 0},
    },
    "groups": [ROW], "slowest": [ROW | {"client": "c"}], "oldest": [ROW | {"object": "o", "domain": "secret"}],
}  # fmt: skip


OURS = Identity("ours", publishes=("d",))


@asynccontextmanager
async def node(
    identity: Identity | Callable[[], Identity] | None = None,
    of_first: dict[str, Any] = OF_MATCHER,
    of_second: dict[str, Any] = OF_MATCHER,
) -> AsyncIterator[tuple[str, list[str], HttpOverview]]:
    """(its URL, what the matchers were asked, its overview): two matchers, one that is gone, one gateway."""
    asked: list[str] = []

    async def of_matcher(request: web.Request) -> web.Response:
        asked.append(request.rel_url.raw_path_qs)
        return web.json_response(of_first if request.host == first else of_second)

    async def of_gateway(_request: web.Request) -> web.Response:
        return web.json_response({"gateway": "ab", "connections": 7, "ready": True})

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        if identity is not None:
            request[IDENTITY] = identity if isinstance(identity, Identity) else identity()
        return await handler(request)

    routes = [web.get("/v1/overview", of_matcher), web.get("/v1/gateway", of_gateway)]
    servers = [AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes) for _ in range(3)]
    for server in servers:
        await server.start()
    first, second, gateway = (f"127.0.0.1:{server.port}" for server in servers)
    asking = NodeClient(HttpSettings(matcher=f"{first},{second},127.0.0.1:1", gateway_http=gateway))
    overview = HttpOverview(asking, overdue_s=77)
    app = web.Application(middlewares=[json_errors, known])
    app.add_routes(overview.routes())
    runner = await listen(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{bound_port(runner)}", asked, overview
    finally:
        overview.stop()
        await runner.cleanup()
        await asking.close()
        for server in servers:
            await server.stop()


async def read_event(response: Any) -> Any:
    line = await asyncio.wait_for(response.content.readline(), LIMIT_S)
    assert await asyncio.wait_for(response.content.readline(), LIMIT_S) == b"\n"
    assert line.startswith(b"data: ")
    return json.loads(line[6:])


async def test_it_is_added_up_and_who_cannot_be_asked_is_named() -> None:
    async with node() as (url, asked, _), ClientSession() as client, client.get(f"{url}/v1/overview") as response:
        body = await response.json()
    assert (body["clients"], body["online"], body["lacking"], body["overdue"], body["objects"]) == (6, 4, 2, 2, 8)
    assert [one["error"] is None for one in body["matchers"]] == [True, True, False]
    assert [one["connections"] for one in body["gateways"]] == [7]
    assert len(body["groups"]) == 2
    assert asked == ["/v1/overview?overdue_s=77"] * 2
    assert "history" not in body


def serving(*partitions: int, of: int | None = 4) -> dict[str, Any]:
    return OF_MATCHER | {"partitions": list(partitions), "partitions_count": of}


@pytest.mark.parametrize(
    ("first", "second", "counted", "missing"),
    [
        (serving(0, 2), serving(1, 3), 4, []),
        (serving(0, 2), serving(), 2, [1, 3]),
        (serving(0), serving(1, of=None), 2, [2, 3]),
        (serving(of=None), serving(of=None), 0, None),
        # Of the release before: one of the three matchers is gone, and what it served is not known.
        (OF_MATCHER, serving(0), None, None),
    ],
)
async def test_the_overview_lists_the_counted_partitions(
    first: dict[str, Any], second: dict[str, Any], counted: int | None, missing: list[int] | None
) -> None:
    async with node(None, first, second) as (url, _, _), ClientSession() as client:
        async with client.get(f"{url}/v1/overview") as response:
            assert (await response.json())["partitions"] == {"counted": counted, "missing": missing, "since_ms": None}
        async with client.get(f"{url}/v1/console/events") as stream:
            online, overdue = (await read_event(stream))["history"][0][-2:]
    assert (online, overdue) == ((4, 2) if missing == [] else (None, None)), "a sum over a part is no point of a line"


def test_the_last_answer_for_missing_partitions_is_remembered() -> None:
    answered = AnsweredPartitions()
    both = [NodeAnswer("m:1", 200, serving(0, 2)), NodeAnswer("m:2", 200, serving(1, 3))]
    silent = [NodeAnswer(one, 0, {"error": "no answer within 3 s"}) for one in ("m:1", "m:2")]
    assert answered.counted(both, 1000) == {"counted": 4, "missing": [], "since_ms": None}
    assert answered.counted([both[0], silent[1]], 2000) == {"counted": 2, "missing": [1, 3], "since_ms": 1000}
    assert answered.counted([both[0], silent[1]], 3000) == {"counted": 2, "missing": [1, 3], "since_ms": 1000}
    assert answered.counted(silent, 4000) == {"counted": 0, "missing": [0, 1, 2, 3], "since_ms": 1000}
    assert answered.counted([silent[0], both[1]], 5000) == {"counted": 2, "missing": [0, 2], "since_ms": 3000}
    assert answered.counted([NodeAnswer("m:1", 200, serving(0, of=6))], 6000)["since_ms"] is None, "4 and 5: never"


async def test_a_point_has_no_numbers_if_nobody_answers() -> None:
    asking = NodeClient(HttpSettings(matcher="127.0.0.1:1", gateway_http="127.0.0.1:1"))
    shown = await HttpOverview(asking, overdue_s=77)._now()
    await asking.close()
    assert shown["partitions"] == {"counted": 0, "missing": None, "since_ms": None}
    assert shown["history"][0][1:] == [None] * 7


async def test_all_who_look_share_one_asking_and_the_streams_end_when_it_stops() -> None:
    async with node() as (url, asked, overview), ClientSession() as client:
        streams = [await client.get(f"{url}/v1/console/events") for _ in range(5)]
        events = [await read_event(stream) for stream in streams]
        assert all(event == events[0] for event in events)
        assert len(events[0]["history"]) == 1
        assert len(asked) == 2
        later = await read_event(streams[0])
        assert len(later["history"]) == 1
        assert later["now_ms"] > events[0]["now_ms"]
        overview.stop()
        for stream in streams:
            await asyncio.wait_for(stream.content.read(), LIMIT_S)
            stream.close()


async def test_a_stream_is_not_silent_for_as_long_as_matchers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints._LOOKING_EVERY_S", 0.01)
    async with node() as (url, _, overview), ClientSession() as client:
        answer, now = asyncio.Event(), overview._now

        async def late() -> dict[str, Any]:
            await answer.wait()
            return await now()

        monkeypatch.setattr(overview, "_now", late)
        async with asyncio.timeout(LIMIT_S), client.get(f"{url}/v1/console/events") as stream:
            assert await stream.content.readuntil(b"\n\n") == b": looking\n\n"
            answer.set()
            while not (event := await stream.content.readuntil(b"\n\n")).startswith(b"data: "):
                assert event == b": looking\n\n"


async def test_the_rows_and_sums_of_others_domains_are_left_out() -> None:
    async with (
        node(OURS) as (url, _, _),
        ClientSession() as client,
        client.get(f"{url}/v1/overview") as response,
    ):
        body = await response.json()
        async with client.get(f"{url}/v1/console/events") as stream:
            live = await read_event(stream)
    assert (len(body["groups"]), len(body["slowest"]), body["oldest"]) == (2, 2, [])
    assert (body["clients"], body["online"], body["lacking"], body["overdue"], body["objects"]) == (4, 4, 2, 0, 2)
    assert live["history"][0][-2:] == [None, None]
    assert "secret" not in str(body) + str(live)
    assert "127.0.0.1" not in str(body) + str(live), "addresses are for operators"
    assert [one["address"] for one in body["matchers"]] == ["#1", "#2", "#3"]
    assert [one["error"] for one in live["matchers"]] == [None, None, "no answer"]
    assert [one["connections"] for one in body["gateways"]] == [7]


async def test_a_matcher_of_the_release_before_shows_nothing_to_who_sees_some_domains_only() -> None:
    former = {name: value for name, value in OF_MATCHER.items() if name != "domains"}
    of_ours = OF_MATCHER | {"domains": {"d": OF_MATCHER["domains"]["d"]}}  # so that all domains known are theirs
    for second, clients in ((former, 0), (of_ours, 2)):
        async with (
            node(OURS, former, second) as (url, _, _),
            ClientSession() as client,
            client.get(f"{url}/v1/overview") as response,
        ):
            body = await response.json()
        assert (response.status, body["clients"]) == (200, clients)
        assert "secret" not in str(body)
    async with (
        node(ANYBODY, former, former) as (url, _, _),
        ClientSession() as client,
        client.get(f"{url}/v1/overview") as response,
    ):
        body = await response.json()
    assert (body["clients"], len(body["oldest"])) == (6, 2), "who sees everything goes on to"


async def test_there_is_an_end_to_how_many_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints.VIEWERS_MAX", 1)
    async with node() as (url, _, _), ClientSession() as client:
        stream = await client.get(f"{url}/v1/console/events")
        await read_event(stream)
        async with client.get(f"{url}/v1/console/events") as refused:
            assert refused.status == 503
        stream.close()


async def test_one_identity_cannot_take_all_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints.VIEWERS_PER_IDENTITY_MAX", 2)
    asks = [OURS]
    async with node(lambda: asks[-1]) as (url, _, _), ClientSession(url) as client:

        async def look() -> Any:
            return await client.get("/v1/console/events")

        streams = [await look(), await look()]
        assert [one.status for one in streams] == [200, 200]
        asks.append(replace(OURS, expires_at_s=time.time() + 1e6, proofs=("jti 2",)))
        async with await look() as refused:
            assert refused.status == 429, "a token of the same one that was renewed counts as the same one"
            assert "ours is looking 2 times already" in await refused.text()
        asks.append(replace(OURS, name="others"))
        streams.append(await look())
        assert streams[-1].status == 200
        asks.append(OURS)
        streams.pop(0).close()
        async with asyncio.timeout(LIMIT_S):
            while (again := await look()).status != 200:
                again.close()
                await asyncio.sleep(0.02)
        for one in [*streams, again]:
            one.close()


async def test_without_identities_only_the_total_bound_of_viewers_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints.VIEWERS_PER_IDENTITY_MAX", 1)
    async with node(ANYBODY) as (url, _, _), ClientSession(url) as client:
        streams = [await client.get("/v1/console/events") for _ in range(3)]
        assert [one.status for one in streams] == [200] * 3
        for one in streams:
            one.close()


async def test_a_viewer_that_does_not_read_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints.VIEWERS_MAX", 1)
    monkeypatch.setattr("coldnotify_http.overview_endpoints._WRITE_TIMEOUT_S", 0.5)
    monkeypatch.setattr("coldnotify_http.overview_endpoints.REFRESH_S", 0.01)
    async with node() as (url, _, overview), ClientSession(url) as client:

        async def large() -> dict[str, Any]:
            return {
                "history": ["x" * 1_000_000],
                "groups": [],
                "slowest": [],
                "oldest": [],
                "domains": {},
                "domains_whole": True,
            }

        monkeypatch.setattr(overview, "_now", large)
        address = URL(url)
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=1024)
        writer.write(b"GET /v1/console/events HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(LIMIT_S):
            assert b" 200 " in await reader.readline()  # it has the place
            status = 0
            while status != 200:
                async with client.get("/v1/console/events") as answer:
                    status = answer.status
                    assert status in (200, 503)
                await asyncio.sleep(0.02)
        writer.close()
        async with client.head("/v1/console/events") as answer:
            assert answer.status == 405


async def test_a_stream_ends_when_the_token_it_was_begun_with_expires() -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        node(replace(OURS, expires_at_s=time.time() + 1)) as (url, _, _),
        ClientSession(url) as client,
        client.get("/v1/console/events") as stream,
    ):
        assert stream.status == 200
        await stream.content.read()


async def test_a_stream_ends_when_what_it_was_begun_with_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.overview_endpoints.REFRESH_S", 0.01)
    async with (
        asyncio.timeout(LIMIT_S),
        node(OURS) as (url, _, overview),
        ClientSession(url) as client,
        client.get("/v1/console/events") as stream,
    ):
        await read_event(stream)
        monkeypatch.setattr(overview, "_holds", lambda identity: False)
        await stream.content.read()
