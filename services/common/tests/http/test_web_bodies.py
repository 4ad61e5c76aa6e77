"""Bodies are bounded one by one, and together; small ones come through beside many that are held up."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_bodies import SMALL_BYTES, BodyReader

LIMIT_S = 60
Client = TestClient[web.Request, web.Application]


class Reading:
    """A handler that says how long the body was, once it may."""

    def __init__(self) -> None:
        self.bodies = BodyReader(bytes_max=3 * SMALL_BYTES, small_s=0.2, s=LIMIT_S, together_bytes_max=3 * SMALL_BYTES)
        self.may_end = asyncio.Event()
        self.outcome = ""

    async def post(self, request: web.Request) -> web.Response:
        async with self.bodies.read(request, outcome=self.outcome) as body:
            if len(body) > SMALL_BYTES:
                await self.may_end.wait()
            return web.Response(text=str(len(body)))


@pytest.fixture
def reading() -> Reading:
    return Reading()


@pytest.fixture
async def client(reading: Reading) -> AsyncIterator[Client]:
    app = web.Application(middlewares=[json_errors])
    app.add_routes([web.post("/", reading.post), web.post("/{domain}", reading.post)])
    async with TestClient(TestServer(app)) as running:
        yield running


async def post(client: Client, body: bytes, path: str = "/") -> tuple[int, str]:
    async with client.post(path, data=body) as answer:
        return answer.status, await answer.text()


async def test_bodies_under_way_are_bounded_together_and_small_ones_are_not_kept_out(
    client: Client, reading: Reading
) -> None:
    long = b"x" * 2 * SMALL_BYTES  # half of each counts
    async with asyncio.timeout(LIMIT_S):
        under_way = [asyncio.create_task(post(client, long)) for _ in range(3)]
        while reading.bodies.under_way_bytes < 3 * SMALL_BYTES:  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0.01)
        async with client.post("/", data=long) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert await post(client, b"x" * SMALL_BYTES) == (200, str(SMALL_BYTES))
        reading.may_end.set()
        assert await asyncio.gather(*under_way) == [(200, str(len(long)))] * 3
        assert reading.bodies.under_way_bytes == 0
        assert await post(client, long) == (200, str(len(long)))


async def test_one_body_is_bounded_in_bytes_said_beforehand_or_not(client: Client, reading: Reading) -> None:
    too_long = 3 * SMALL_BYTES + 1

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * SMALL_BYTES

    assert (await post(client, b"x" * too_long))[0] == 413
    async with client.post("/", data=pieces()) as answer:
        assert answer.status == 413
    assert reading.bodies.under_way_bytes == 0


async def test_a_small_body_has_less_time(client: Client) -> None:
    never = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield b"x"
        await never.wait()

    async with asyncio.timeout(LIMIT_S / 2), ClientSession() as session:
        async with session.post(client.make_url("/"), data=half(), headers={"Content-Length": "2"}) as answer:
            assert answer.status == 408
            assert await answer.json() == {"error": "the body did not arrive within 0.2 s; nothing was done"}
        never.set()


async def test_one_has_a_share_of_what_may_be_under_way_together(client: Client, reading: Reading) -> None:
    """Eight bodies of one publisher kept everybody else's out."""
    reading.bodies = BodyReader(
        bytes_max=3 * SMALL_BYTES, small_s=LIMIT_S, s=LIMIT_S, together_bytes_max=6 * SMALL_BYTES
    )
    long = b"x" * 2 * SMALL_BYTES  # half of each counts
    async with asyncio.timeout(LIMIT_S):
        one = [asyncio.create_task(post(client, long, "/one")) for _ in range(3)]
        while reading.bodies.under_way_bytes < 3 * SMALL_BYTES:  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0.01)
        reading.outcome = "not done"
        status, words = await post(client, long, "/one")
        assert (status, "of your bodies" in words, '"outcome": "not done"' in words) == (503, True, True)
        other = asyncio.create_task(post(client, long, "/other"))
        while reading.bodies.under_way_bytes < 4 * SMALL_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        reading.may_end.set()
        assert await asyncio.gather(*one, other) == [(200, str(len(long)))] * 4
