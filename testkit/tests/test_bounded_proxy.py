"""The proxy that ends streams: after the first event with data; all else passes as it is."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from coldnotify_common.http.admin import bound_port, listen
from coldnotify_testkit import bounded_proxy
from coldnotify_testkit.bounded_proxy import STREAM, in_front_of


@pytest.fixture
async def port() -> AsyncIterator[str]:
    """Streams and answers."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": STREAM, "X-Said": "yes"})
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n:\n\n")
        if request.path == "/endless":
            await response.write(b"id: 1\ndata: {}\n\ndata: 2\n\n")
            while True:  # until the proxy goes
                await response.write(b":\n\n")
        if request.path == "/long":
            await response.write(b"data: " + b"x" * bounded_proxy.FIRST_EVENT_BYTES_MAX + b"\n\n")
        return response

    async def echo(request: web.Request) -> web.Response:
        said = request.headers.get("X-Asked", "")
        return web.Response(status=409, body=await request.read(), headers={"X-Said": said + request.query_string})

    app = web.Application()
    for path in ("/endless", "/ended", "/long"):
        app.router.add_get(path, stream)
    app.router.add_route("*", "/echo", echo)
    runner = await listen(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{bound_port(runner)}"
    finally:
        await runner.cleanup()


async def test_a_stream_ends_behind_its_first_event(port: str) -> None:
    with in_front_of(port) as proxy:
        async with ClientSession() as session, session.get(f"{proxy.url}/endless") as answer:
            assert (answer.status, answer.content_type, answer.headers["X-Said"]) == (200, STREAM, "yes")
            assert await answer.read() == b"retry: 1000\n\n:\n\nid: 1\ndata: {}\n\n"
        assert proxy.answers == {("/endless", 200): 1}


@pytest.mark.parametrize("path", ["/ended", "/long"])
async def test_a_stream_without_an_event_is_an_error_that_no_document_has(port: str, path: str) -> None:
    with in_front_of(port) as proxy:
        async with ClientSession() as session, session.get(proxy.url + path) as answer:
            assert answer.status == 504
            assert "ValueError" in (answer.reason or "")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"])
async def test_an_answer_that_ends_by_itself_passes_unchanged(port: str, method: str) -> None:
    with in_front_of(port) as proxy:
        asked = {"X-Asked": "a"}
        async with (
            ClientSession() as session,
            session.request(method, f"{proxy.url}/echo?b=%20c", data=b"body", headers=asked) as answer,
        ):
            assert (answer.status, answer.headers["X-Said"]) == (409, "ab= c")
            assert await answer.read() == (b"" if method == "HEAD" else b"body")


async def test_nobody_behind_it_is_said() -> None:
    with in_front_of("http://127.0.0.1:1") as proxy:
        async with ClientSession() as session, session.get(f"{proxy.url}/echo") as answer:
            assert answer.status == 504
