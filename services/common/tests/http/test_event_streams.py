"""Streams of events, and what stands for an answer after which a browser would never come back."""

import json
import re

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify_common.http.event_streams import HEADERS, come_back, event_stream, passes, retry, unavailable
from coldnotify_common.http.web import HttpNotNow, error_response, json_errors


@pytest.mark.parametrize(
    ("status", "expected"), [(200, False), (400, False), (401, False), (403, False), (404, False), (405, False)]
)
def test_what_will_never_work_stays_a_status(status: int, expected: bool) -> None:
    assert passes(status) is expected


@pytest.mark.parametrize("status", [409, 429, 500, 502, 503, 504])
def test_what_passes_by_itself_passes(status: int) -> None:
    assert passes(status)


def parts(event: bytes) -> tuple[int, str, object]:
    """When to come back (ms), the event's name, its data."""
    match = re.fullmatch(rb"retry: ([0-9]+)\nevent: (\w+)\ndata: ([^\r\n]*)\n\n", event)
    assert match, event
    return int(match[1]), match[2].decode(), json.loads(match[3])


def test_the_last_event_says_why_and_when_to_come_back_not_all_at_once() -> None:
    answer = error_response(429, "too many", close="ABOVE_AGREEMENT")
    answer.headers["Retry-After"] = "10"
    all_ = [parts(unavailable(answer)) for _ in range(50)]
    assert {one[1] for one in all_} == {"unavailable"}
    assert [one[2] for one in all_] == [{"error": "too many", "close": "ABOVE_AGREEMENT"}] * 50
    assert all(10_000 <= one[0] <= 20_000 for one in all_)
    assert len({one[0] for one in all_}) > 10


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(status=503), "status 503"),
        (web.Response(status=502, text="Bad\r\n\r\nGateway"), "Bad\r\n\r\nGateway"),
        (web.Response(status=502, body=b"\xff[]"), "�[]"),
        (web.Response(status=500, text="[" * 10_000), "status 500"),
        (web.Response(status=500, text='{"a":' * 3000), "status 500"),
        (web.StreamResponse(status=503), "status 503"),
    ],
)
def test_words_that_are_no_json_are_words(answer: web.StreamResponse, said: str) -> None:
    assert parts(unavailable(answer))[2] == {"error": said}


async def test_only_a_page_that_looks_is_answered_so() -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        raise HttpNotNow("busy")

    async def breaks(request: web.Request) -> web.StreamResponse:
        raise RuntimeError("inside")

    async def wrong(request: web.Request) -> web.StreamResponse:
        return error_response(400, "wrong")

    async def streams(request: web.Request) -> web.StreamResponse:
        response = event_stream()
        await response.prepare(request)
        await response.write(retry())
        return response

    paths = {"/busy": busy, "/breaks": breaks, "/wrong": wrong, "/streams": streams}
    app = web.Application(middlewares=[come_back(paths), json_errors])
    app.add_routes([web.get(path, handler) for path, handler in paths.items()])
    app.add_routes([web.post("/busy", busy), web.get("/other", busy)])
    async with TestServer(app) as server, ClientSession(server.make_url("/")) as client:
        for path, words in (("/busy", "busy"), ("/breaks", "internal error, see the service's log")):
            async with client.get(path, headers={"Origin": "https://a.test"}) as answer:
                assert answer.status == 200
                assert {name: answer.headers[name] for name in HEADERS} == HEADERS
                assert answer.headers["Access-Control-Allow-Origin"] == "https://a.test"
                assert answer.headers["X-Request-Id"]
                assert parts(await answer.read())[1:] == ("unavailable", {"error": words})
        async with client.get("/streams") as answer:
            assert (answer.status, await answer.read()) == (200, b"retry: 1000\n\n")
        for method, path, status in (("GET", "/wrong", 400), ("POST", "/busy", 503), ("GET", "/other", 503)):
            async with client.request(method, path) as answer:
                assert answer.status == status
