"""How long an answer may take while the matcher is away: the core is played, and says Wait for ever."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.test_utils import TestServer
from coldnotify_common.identity import ANYBODY
from coldnotify_common.web import json_errors
from coldnotify_gateway.core import encoding
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web.event_stream import Events
from coldnotify_gateway.listeners.web.sync import FRAMES_TYPE, Sync
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_testkit.device_frames import hello

ASKED = {"domain": "d", "group": "g", "client": "c", "registrations": ["a"]}
LOOK = {"domain": "d", "group": "g", "object": "a"}


class WaitingCore(ConnectionEvents):
    """Says Wait again and again, more often than the answer's limit allows between two parts."""

    def __init__(self):
        self._sessions = {}

    def identify(self, proof):
        return ANYBODY

    def on_connect(self, connection, transport):
        self._sessions[connection] = asyncio.create_task(self._say(connection))

    async def _say(self, connection):
        while True:
            await asyncio.sleep(0.1)
            connection.send(encoding.wait(30))

    def on_bytes(self, connection, data):
        pass

    def on_disconnected(self, connection):
        self._sessions.pop(connection).cancel()


@asynccontextmanager
async def site():
    settings = GatewaySettings(gateway_sync_s=1)
    core = WaitingCore()
    app = web.Application(middlewares=[json_errors])
    app.add_routes([web.post("/v1/sync", Sync(core, settings).post), web.get("/v1/events", Events(core, settings).get)])
    async with TestServer(app) as server, ClientSession(server.make_url("/"), timeout=ClientTimeout(20)) as client:
        yield client


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "POST", "url": "/v1/sync", "json": ASKED},
        {"method": "POST", "url": "/v1/sync", "data": hello(), "headers": {"Content-Type": FRAMES_TYPE}},
        {"method": "GET", "url": "/v1/events", "params": LOOK},
    ],
    ids=["json", "frames", "events"],
)
async def test_a_wait_is_no_part_of_an_answer(asked):
    async with site() as client, client.request(**asked) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), await answer.text()
