"""What publishes have changed, asked of played matchers over real ports."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web
from coldnotify.publisher import Newest, Outcome, Published
from coldnotify_common.http.admin import bound_port, listen
from coldnotify_common.http.web import json_errors
from coldnotify_http.outcome_client import OTHER_RECORD, OutcomeClient
from coldnotify_http.settings import HttpSettings
from coldnotify_schemas.records import PublicRecord
from coldnotify_testkit.nodes_double import NodesDouble
from coldnotify_testkit.served_routes import served

NEWEST = {"version": 9, "incarnation": 1, "published_ms": 1000}


class Repeat(Published):
    written = False  # type: ignore[assignment]


class Matcher:
    """Answers for domain d, group g; `asked` are the questions."""

    def __init__(self, items: Callable[[int], dict[str, Any]]) -> None:
        self.items = items
        self.asked: list[str] = []

    async def outcomes(self, request: web.Request) -> web.Response:
        self.asked.append(request.rel_url.raw_path_qs)
        offsets = [int(offset) for offset in request.query["offsets"].split(",")]
        items = [{"offset": offset, **self.items(offset)} for offset in offsets]
        return web.json_response({"partition": 3, "position": 100, "items": items})

    async def object(self, request: web.Request) -> web.Response:
        self.asked.append(request.rel_url.raw_path_qs)
        return web.json_response({"object": request.match_info["object"], **NEWEST})


def routes(outcomes: Callable[[web.Request], Awaitable[web.Response]], matcher: Matcher) -> list[web.AbstractRouteDef]:
    base = "/v1/domains/d/groups/g"
    return [web.get(f"{base}/outcomes", outcomes), web.get(f"{base}/objects/{{object:.+}}", matcher.object)]


@asynccontextmanager
async def asking(*matchers: str, timeout_s: float = 10) -> AsyncIterator[OutcomeClient]:
    one = OutcomeClient(HttpSettings(matcher=",".join(matchers), http_look_timeout_s=timeout_s), NodesDouble())
    try:
        yield one
    finally:
        await one.close()


def published(name: str, offset: int, version: int = 5, partition: int = 3) -> tuple[Any, Published]:
    return (name, PublicRecord(version=version)), Published(version, partition, offset)


async def test_the_matcher_that_serves_the_group_says_it() -> None:
    async def not_mine(_request: web.Request) -> web.Response:
        return web.json_response({"error": "d/g is not served by this matcher (now)"}, status=503)

    matcher = Matcher(lambda _: {"object": "a b/c", "outcome": "stale", "newest": NEWEST})
    async with (
        served(*routes(not_mine, matcher)) as other,
        served(*routes(matcher.outcomes, matcher)) as owner,
        asking(other, owner, "127.0.0.1:1") as outcomes,
    ):
        found = await outcomes.of("d", "g", [published("a b/c", 40)])
    assert found == [Outcome("stale", Newest(9, 1, 1000))]
    assert matcher.asked == ["/v1/domains/d/groups/g/outcomes?partition=3&offsets=40&wait_s=9.000"]


async def test_a_record_at_its_offset_with_another_id_is_of_a_topic_that_is_gone() -> None:
    ids = {40: "a", 41: "b", 42: None}
    matcher = Matcher(lambda offset: {"object": "o", "outcome": "published", "id": ids[offset], "newest": NEWEST})
    async with served(*routes(matcher.outcomes, matcher)) as owner, asking(owner) as outcomes:
        ours, other, plain = [await outcomes.decided("d", "g", Published(5, 3, offset), "a") for offset in ids]
    assert not isinstance(ours, str)
    assert ours["newest"] == NEWEST
    assert other == plain == OTHER_RECORD


async def test_many_are_asked_for_in_few_questions_each_in_its_place() -> None:
    matcher = Matcher(
        lambda offset: {"object": f"o{offset}", "outcome": "published", "newest": {"version": 5, "published_ms": 1}}
    )
    async with served(*routes(matcher.outcomes, matcher)) as owner, asking(owner) as outcomes:
        many = [published(f"o{offset}", offset) for offset in range(450)]
        many[7] = published("o7", -1)
        many[8] = (many[8][0], Repeat(9, 3, 8))
        many[9] = (many[9][0], Repeat(5, 3, 9))
        found = await outcomes.of("d", "g", many)
    assert [one.outcome for one in found[:7] + found[10:]] == ["published"] * 447
    assert [one.outcome for one in found[7:10]] == ["unknown", "repeated", "stale"]
    assert "Kafka did not say" in found[7].reason
    assert sum("/outcomes?" in one for one in matcher.asked) == 3
    assert sum("/objects/" in one for one in matcher.asked) == 2


async def test_questions_that_arrive_during_a_request_are_asked_together() -> None:
    over, came = asyncio.Event(), asyncio.Semaphore(0)
    matcher = Matcher(lambda offset: {"object": f"o{offset}", "outcome": "published", "newest": {"version": 5}})

    async def held(request: web.Request) -> web.Response:
        answer = await matcher.outcomes(request)
        came.release()
        await over.wait()
        return answer

    async with served(*routes(held, matcher)) as owner, asking(owner) as outcomes:
        waiting = []
        for offset in range(100):
            waiting.append(asyncio.ensure_future(outcomes.of("d", "g", [published(f"o{offset}", offset)])))
            if offset < 2:
                await came.acquire()
        over.set()
        assert [one.outcome for (one,) in await asyncio.gather(*waiting)] == ["published"] * 100
        assert len(matcher.asked) == 3


async def test_a_question_queued_behind_unanswered_ones_is_answered_in_time() -> None:
    over = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        matcher.asked.append(request.rel_url.raw_path_qs)
        await over.wait()
        return web.json_response({})

    matcher = Matcher(lambda _: {})
    begin_s = time.monotonic()
    async with served(*routes(silent, matcher)) as owner, asking(owner, timeout_s=1) as outcomes:
        waiting = []
        for offset in range(20):
            waiting.append(asyncio.ensure_future(outcomes.of("d", "g", [published("o", offset)])))
            await asyncio.sleep(0)
        found = await asyncio.gather(*waiting)
        assert {one.outcome for (one,) in found} == {"unknown"}
        assert time.monotonic() - begin_s < 25
        over.set()


async def test_an_offset_of_another_object_or_version_is_unknown() -> None:
    matcher = Matcher(lambda offset: {"object": f"o{offset}", "outcome": "published", "newest": {"version": 5}})
    async with served(*routes(matcher.outcomes, matcher)) as owner, asking(owner) as outcomes:
        asked = [published("x", 1), published("o2", 2, version=6), published("o3", 3)]
        assert [one.outcome for one in await outcomes.of("d", "g", asked)] == ["unknown", "unknown", "published"]


async def test_an_outcome_that_no_matcher_gives_in_time_is_unknown_with_a_reason() -> None:
    async def silent(_request: web.Request) -> web.Response:
        await over.wait()
        return web.json_response({})

    async def older(_request: web.Request) -> web.Response:
        raise web.HTTPNotFound

    over = asyncio.Event()
    matcher = Matcher(lambda _: {})
    begin_s = time.monotonic()
    async with served(*routes(silent, matcher)) as one, served(*routes(older, matcher)) as of_before:
        async with asking(one, "127.0.0.1:1", timeout_s=0.5) as outcomes:
            (found,) = await outcomes.of("d", "g", [published("o", 1)])
            assert f"matcher {one}: no answer within 0.5 s; matcher 127.0.0.1:1: " in found.reason
        async with asking(timeout_s=0.5) as outcomes:
            assert "--matcher" in (await outcomes.of("d", "g", [published("o", 1)]))[0].reason
        async with asking(of_before, timeout_s=30) as outcomes:
            assert (await outcomes.of("d", "g", [published("o", 1)]))[0] == Outcome.unknown("404: Not Found")
        assert time.monotonic() - begin_s < 25
        over.set()


async def test_a_publisher_to_kafka_may_ask_any_node() -> None:
    matcher = Matcher(lambda _: {"outcome": "published"})
    async with served(*routes(matcher.outcomes, matcher)) as owner, asking(owner) as outcomes:
        app = web.Application(middlewares=[json_errors])
        app.add_routes(outcomes.routes())
        runner = await listen(app, "127.0.0.1", 0)
        base = f"http://127.0.0.1:{bound_port(runner)}/v1/domains/d/groups"
        try:
            async with ClientSession() as client:

                async def get(path: str) -> tuple[int, Any]:
                    async with client.get(base + path) as response:
                        return response.status, await response.json()

                status, body = await get("/g/outcomes?partition=3&offsets=4,5&wait_s=600")
                assert (status, [item["offset"] for item in body["items"]]) == (200, [4, 5])
                assert matcher.asked == ["/v1/domains/d/groups/g/outcomes?partition=3&offsets=4%2C5&wait_s=9.000"]
                assert (await get("/g/outcomes?partition=3&offsets=4&wait_s=x"))[1]["field"] == "wait_s"
                assert (await get("/a%20b/outcomes?partition=3&offsets=4"))[1]["field"] == "group"
        finally:
            await runner.cleanup()
