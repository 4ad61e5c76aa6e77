"""Query parameters that a route does not know are refused by their names."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from coldnotify_common.http import openapi
from coldnotify_common.http.known_parameters import known_parameters, parameters_of
from coldnotify_common.http.web import json_errors

GROUP = "/v1/domains/animal.observer/groups/region-1"


async def _answer(_request: web.Request) -> web.Response:
    return web.json_response({})


async def asked(method: str, path: str, *, passed_on: tuple[str, ...] = ()) -> tuple[int, dict[str, str]]:
    """Returns status and body of the answer of a port that has each described route of the HTTP service."""
    app = web.Application(middlewares=[json_errors, known_parameters("http", passed_on=passed_on)])
    for described, operations in openapi.document("http", "http")["paths"].items():
        for one in operations:
            getattr(app.router, f"add_{one}")(described.replace("{object}", "{object:.+}"), _answer)
    async with TestClient(TestServer(app)) as client, client.request(method, path) as answer:
        return answer.status, {} if method == "HEAD" else await answer.json()


@pytest.mark.parametrize("kind", openapi.STRICT)
async def test_every_operation_says_which_parameters_it_knows(kind: str) -> None:
    known = parameters_of(kind)
    for path, operations in openapi.document(kind, kind)["paths"].items():
        for method, operation in operations.items():
            assert (method, path) in known
            assert path in openapi.LENIENT or "400" in operation["responses"], f"{method} {path}"


async def test_every_route_refuses_a_parameter_that_it_does_not_know() -> None:
    for path, operations in openapi.document("http", "http")["paths"].items():
        if path in openapi.LENIENT:
            continue
        filled = path.replace("{", "").replace("}", "")
        for method in operations:
            status, body = await asked(method.upper(), f"{filled}?zzz=1")
            assert (status, body["field"]) == (400, "zzz"), f"{method} {path}"


async def test_a_known_parameter_is_taken_and_a_near_one_is_suggested() -> None:
    assert (await asked("GET", f"{GROUP}/objects?limit=5"))[0] == 200
    status, body = await asked("GET", f"{GROUP}/objects?limits=5")
    assert (status, body["field"]) == (400, "limits")
    assert body["error"].endswith("has no such parameter; did you mean limit?")
    assert (await asked("POST", f"{GROUP}/objects/camera?if_version=99"))[1]["field"] == "if_version"


async def test_a_head_is_as_its_get() -> None:
    assert (await asked("HEAD", f"{GROUP}/objects?after=a"))[0] == 200
    assert (await asked("HEAD", f"{GROUP}/objects?before=a"))[0] == 400


@pytest.mark.parametrize("path", ["/readyz?x=1", "/v1/gateway?x=1"])
async def test_lenient_paths_take_any(path: str) -> None:
    assert (await asked("GET", path))[0] == 200


async def test_paths_that_are_passed_on_are_checked_elsewhere() -> None:
    assert (await asked("GET", "/v1/events?x=1"))[0] == 400
    assert (await asked("GET", "/v1/events?x=1", passed_on=("/v1/events",)))[0] == 200
