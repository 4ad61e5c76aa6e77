"""Webhooks over HTTP, without Kafka. With a real one they are in services/hooks/tests/test_webhooks.py."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify_common.http.web import json_errors
from coldnotify_http import hook_endpoints
from coldnotify_http.hook_endpoints import HookEndpoints
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings

HOOKS = "/v1/domains/d/groups/g/hooks"
Ask = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
async def ask(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ask]:
    monkeypatch.setattr(hook_endpoints, "_KAFKA_S", 0.5)
    key = tmp_path / "hooks.key"
    key.write_bytes(40 * b"k")
    settings = HttpSettings(kafka="127.0.0.1:1", hooks_key_file=str(key) if getattr(request, "param", True) else "")
    app = web.Application(middlewares=[json_errors])
    app.add_routes(HookEndpoints(settings, Bodies(settings)).routes())
    async with TestServer(app) as server, ClientSession() as client:

        async def asked(method: str, path: str, body: object = None) -> tuple[int, Any]:
            url = f"http://{server.host}:{server.port}{HOOKS}{path}"
            async with client.request(method, url, json=body) as response:
                return response.status, await response.json()

        yield asked


@pytest.mark.parametrize("ask", [False], indirect=True)
@pytest.mark.parametrize(("method", "path"), [("GET", "/n"), ("PUT", "/n"), ("DELETE", "/n"), ("POST", "/n/rotate")])
async def test_without_a_key_there_are_none(ask: Ask, method: str, path: str) -> None:
    status, shown = await ask(method, path, {})
    assert status == 409
    assert "--hooks-key-file" in shown["error"]


@pytest.mark.parametrize("ask", [False], indirect=True)
async def test_without_a_key_the_list_says_so(ask: Ask) -> None:
    assert await ask("GET", "") == (200, {"items": [], "enabled": False})


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/n"), ("DELETE", "/n"), ("POST", "/n/test")])
async def test_a_kafka_that_is_away_is_said(ask: Ask, method: str, path: str) -> None:
    status, shown = await ask(method, path)
    assert status == 503, shown


async def test_an_invalid_name_is_named(ask: Ask) -> None:
    status, shown = await ask("PUT", f"/{55 * 'n'}", {})
    assert (status, shown["field"]) == (400, "hook")
