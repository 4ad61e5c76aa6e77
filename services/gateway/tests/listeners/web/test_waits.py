"""How long an answer may take while the matcher is away: the core is played, and says Wait for ever."""

import asyncio
from contextlib import asynccontextmanager
from itertools import count

import pytest
from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.test_utils import TestServer
from coldnotify_common.http.event_streams import come_back
from coldnotify_common.http.web import json_errors
from coldnotify_common.security.identity import ANYBODY
from coldnotify_gateway.core import JSON, encoding
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web import event_stream
from coldnotify_gateway.listeners.web.event_stream import EventsEndpoint
from coldnotify_gateway.listeners.web.sync import FRAMES_TYPE, Sync
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Notification, Ping, Welcome
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
            connection.send([encoding.wait(30, JSON.encode)])

    def on_bytes(self, connection, data):
        pass

    def on_disconnected(self, connection):
        self._sessions.pop(connection).cancel()


class SilentCore(WaitingCore):
    """Says nothing at all."""

    async def _say(self, connection):
        await asyncio.Event().wait()


class RefusingCore(WaitingCore):
    """Closes the session, for good, as soon as it begins."""

    async def _say(self, connection):
        connection.send([encoding.close(CloseCode.NOT_ALLOWED, "not for you", JSON.encode)])
        connection.finish()


class BusyCore(WaitingCore):
    """Tells of a publish again and again; notes what the session says."""

    said = b""

    async def _say(self, connection):
        connection.send([encoding.plain(GatewayFrame(welcome=Welcome(in_sync=True, epoch=1)), JSON.encode)])
        for version in count():
            told = Notification(name="a", version=version, offset=version)
            connection.send([encoding.plain(GatewayFrame(notification=told), JSON.encode)])
            await asyncio.sleep(0.01)

    def on_bytes(self, connection, data):
        BusyCore.said += data


@asynccontextmanager
async def site(core_type=WaitingCore):
    settings = GatewaySettings(gateway_sync_s=1)
    core = core_type()
    app = web.Application(middlewares=[come_back(["/v1/events"]), json_errors])
    app.add_routes(
        [web.post("/v1/sync", Sync(core, settings).post), web.get("/v1/events", EventsEndpoint(core, settings).get)]
    )
    async with TestServer(app) as server, ClientSession(server.make_url("/"), timeout=ClientTimeout(20)) as client:
        yield client


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "POST", "url": "/v1/sync", "json": ASKED},
        {"method": "POST", "url": "/v1/sync", "data": hello(), "headers": {"Content-Type": FRAMES_TYPE}},
    ],
    ids=["json", "frames"],
)
async def test_a_wait_is_no_part_of_an_answer(asked):
    async with site() as client, client.request(**asked) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), await answer.text()


async def test_a_stream_begins_and_goes_on_while_nothing_can_be_said(monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.05)
    async with site() as client, client.get("/v1/events", params=LOOK) as answer:
        assert (answer.status, answer.headers["X-Accel-Buffering"]) == (200, "no")
        assert await answer.content.readuntil(b"\n\n") == b"retry: 1000\n\n"
        assert await answer.content.readuntil(b"\n\n") == b"event: waiting\ndata: {}\n\n"
        for _ in range(3):
            assert await answer.content.readuntil(b"\n\n") == b"event: heartbeat\ndata: {}\n\n"


async def test_a_session_that_hears_nothing_ends_so_that_the_page_comes_back(monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(event_stream, "_JUDGED_S", 0.05)
    async with site(SilentCore) as client, client.get("/v1/events", params=LOOK) as answer:
        said = await answer.text()
    assert answer.status == 200
    assert said.startswith("retry: 1000\n\nevent: heartbeat\n")
    assert said.endswith('event: unavailable\ndata: {"error": "the service did not answer in time, ask again"}\n\n')


async def test_what_is_refused_for_good_has_a_status():
    async with site(RefusingCore) as client, client.get("/v1/events", params=LOOK) as answer:
        assert (answer.status, await answer.json()) == (403, {"error": "not for you", "close": "NOT_ALLOWED"})


async def test_a_session_that_is_told_all_the_time_says_something_too(monkeypatch):
    """Otherwise it would be given up as silent, after an hour and a half."""
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.2)
    async with site(BusyCore) as client, client.get("/v1/events", params=LOOK) as answer:
        while encode(ClientFrame(ping=Ping())) not in BusyCore.said:
            await answer.content.readuntil(b"\n\n")
