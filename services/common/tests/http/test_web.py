"""Errors as JSON that name the field."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from coldnotify_common.http import web as web_module
from coldnotify_common.http.web import BadRequest, Handler, error_response, field_of, json_errors
from coldnotify_common.paced import Paced
from coldnotify_schemas.names import check_name
from coldnotify_schemas.records import InvalidRecord
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

Client = TestClient[web.Request, web.Application]


async def _bad(_request: web.Request) -> web.Response:
    raise BadRequest("limit", "'x' is not a number")


async def _name(_request: web.Request) -> web.Response:
    return web.Response(text=check_name("domain", "no name"))


async def _broken(_request: web.Request) -> web.Response:
    raise RuntimeError("a secret of ours")


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half an ans")
    raise TimeoutError if request.query else RuntimeError("a secret of ours")


async def _elsewhere(_request: web.Request) -> web.Response:
    raise web.HTTPFound("/fine")


async def _fine(_request: web.Request) -> web.Response:
    return web.Response(text="fine")


async def _gone(_request: web.Request) -> web.Response:
    return error_response(404, "object: d/g/o is not known", hint="register")


@pytest.fixture(autouse=True)
def _at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    # The pace is that of the whole process: another test may have logged such a line just now, or left a level.
    structlog.reset_defaults()
    monkeypatch.setattr(web_module, "_paced", Paced(web_module.log))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    app = web.Application(middlewares=[json_errors])
    handlers: dict[str, Handler] = {
        "/bad": _bad,
        "/name": _name,
        "/broken": _broken,
        "/begun": _begun,
        "/fine": _fine,
        "/elsewhere": _elsewhere,
        "/gone": _gone,
    }
    app.add_routes([web.get(path, handler) for path, handler in handlers.items()])
    async with TestClient(TestServer(app, host="127.0.0.1")) as one:
        yield one


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/bad", 400, {"error": "limit: 'x' is not a number", "field": "limit"}),
        ("GET", "/gone", 404, {"error": "object: d/g/o is not known", "hint": "register"}),
        ("GET", "/nowhere", 404, {"error": "404: Not Found"}),
        ("POST", "/fine", 405, {"error": "405: Method Not Allowed"}),
        ("GET", "/broken", 500, {"error": "internal error, see the service's log"}),
    ],
)
async def test_errors_are_json(client: Client, method: str, path: str, status: int, body: dict[str, str]) -> None:
    async with client.request(method, path) as answer:
        assert (answer.status, await answer.json()) == (status, body)


async def test_a_bad_name_is_the_requests_fault(client: Client) -> None:
    async with client.get("/name") as answer:
        assert answer.status == 400
        assert (await answer.json())["field"] == "domain"


async def test_what_may_be_done_instead_is_said(client: Client) -> None:
    async with client.post("/fine") as answer:
        assert answer.headers["Allow"] == "GET,HEAD"


async def test_what_is_no_error_passes(client: Client) -> None:
    async with client.get("/fine") as answer:
        assert (answer.status, await answer.text()) == (200, "fine")


def test_the_field_of_an_error() -> None:
    assert field_of(InvalidRecord("version: Expected `int` >= 0")) == "version"


@pytest.mark.parametrize("path", ["/fine", "/bad", "/broken", "/nowhere", "/elsewhere"])
async def test_the_callers_request_id_is_in_the_answer(client: Client, path: str) -> None:
    async with client.get(path, headers={"X-Request-Id": "camera-7.1"}, allow_redirects=False) as answer:
        assert answer.headers["X-Request-Id"] == "camera-7.1"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "{}"])
async def test_without_a_usable_one_it_is_made(client: Client, given: str) -> None:
    async with client.get("/fine", headers={"X-Request-Id": given}) as one, client.get("/fine") as other:
        made = one.headers["X-Request-Id"]
        assert len(made) == 16
        assert made not in (given, other.headers["X-Request-Id"])


async def test_the_request_id_is_in_what_is_logged(client: Client) -> None:
    with capture_logs(processors=[merge_contextvars]) as logged:
        async with client.get("/broken", headers={"X-Request-Id": "camera-8"}):
            pass
    assert [(line["event"], line["request_id"]) for line in logged] == [
        ("request failed", "camera-8"),
        ("request answered", "camera-8"),
    ]
    assert logged[-1]["status"] == 500


@pytest.mark.parametrize(("path", "lines"), [("/begun", ["request failed"]), ("/begun?slow=1", [])])
async def test_what_fails_half_way_is_not_answered_a_second_time(client: Client, path: str, lines: list[str]) -> None:
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        said = bytearray()
        with suppress(ConnectionError):  # it is cut off
            while data := await asyncio.wait_for(reader.read(4096), 60):
                said += data
        writer.close()
    assert said.count(b"HTTP/1.1") == 1
    assert said.endswith(b"half an ans\r\n")
    assert [line["event"] for line in logs if line["log_level"] == "error"] == lines


async def test_what_anybody_can_repeat_fills_no_log(client: Client) -> None:
    with capture_logs() as logged:
        for _ in range(200):
            async with client.get("/broken") as answer:
                assert answer.status == 500
    for event in ("request failed", "request answered"):
        said = [line for line in logged if line["event"] == event and line["log_level"] != "debug"]
        assert len(said) < 100, "one, unless the machine stands still for seconds"
        assert said[0].get("exc_info") is not None or event == "request answered"


async def test_not_being_ready_is_no_failure() -> None:
    async def unready(_request: web.Request) -> web.Response:
        return error_response(503, "not ready")

    app = web.Application(middlewares=[json_errors])
    app.add_routes([web.get("/readyz", unready), web.get("/other", unready)])
    async with TestClient(TestServer(app)) as client:
        with capture_logs() as logs:
            for path in ("/readyz", "/other"):
                async with client.get(path) as answer:
                    assert answer.status == 503
    levels = {line["path"]: line["log_level"] for line in logs if line["event"] == "request answered"}
    assert levels == {"/readyz": "debug", "/other": "warning"}
