"""A parameter that an operation does not know is refused by its name, at each port and for each operation."""

import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from coldnotify_common.http.known_parameters import BEGINNING, known_parameters, of_operations
from coldnotify_common.http.openapi import PORTS, document
from coldnotify_common.http.web import json_errors


def client_of(kind: str, *operations: tuple[str, str]) -> TestClient[web.Request, web.Application]:
    async def handled(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[json_errors, known_parameters(kind)])
    app.add_routes([web.route(method, path, handled) for method, path in operations])
    return TestClient(TestServer(app))


@pytest.mark.parametrize("kind", PORTS)
async def test_each_operation_refuses_what_it_does_not_know_and_takes_what_it_knows(kind: str) -> None:
    operations = {one: known for one, known in of_operations(kind).items() if one[1].startswith(BEGINNING)}
    async with client_of(kind, *operations) as client:
        for (method, path), known in operations.items():
            url = re.sub(r"\{\w+\}", "x", path)
            async with client.request(method, url, params=[*((n, "1") for n in known), ("versoin", "1")]) as answer:
                assert (answer.status, (await answer.json())["field"]) == (400, "versoin"), (method, path)
            async with client.request(method, url, params=dict.fromkeys(known, "1")) as answer:
                assert answer.status == 200, (method, path)


async def test_a_head_is_judged_as_its_get() -> None:
    async with client_of("http", ("HEAD", "/v1/clients")) as client:
        assert (await client.head("/v1/clients?limit=1")).status == 200
        assert (await client.head("/v1/clients?none=1")).status == 400


async def test_pages_and_probes_take_anything() -> None:
    async with client_of("http", ("GET", "/healthz"), ("GET", "/")) as client:
        for path in ("/healthz?a=1", "/?utm=1"):
            assert (await client.get(path)).status == 200


@pytest.mark.parametrize("kind", PORTS)
def test_the_answer_is_documented(kind: str) -> None:
    for path, operations in document("a port", kind)["paths"].items():
        for method, operation in operations.items():
            assert not path.startswith(BEGINNING) or "400" in operation["responses"], (method, path)
