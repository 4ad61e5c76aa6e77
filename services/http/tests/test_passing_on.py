"""What is for a gateway reaches one, both ways; the gateway is a stand-in on a real socket."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientPayloadError, ClientSession, WSMsgType, WSServerHandshakeError, web
from aiohttp.test_utils import TestServer
from coldnotify_common.errors import SettingError
from coldnotify_http.passing_on import PassingOn
from coldnotify_http.settings import HttpSettings
from coldnotify_kafka.broker import free_port


async def sync(request):
    if request.query.get("break"):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half an ans")
        request.transport.abort()
        return response
    body = await request.json()
    return web.json_response(
        {"said": body, "token": request.headers.get("Authorization"), "host": request.host},
        status=409,
        headers={"Retry-After": "60", "Access-Control-Allow-Origin": "*", "X-Inner": "no"},
    )


async def connect(request):
    if request.headers.get("Origin") == "https://other.test":
        raise web.HTTPForbidden
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data[::-1])
        if message.data == b"end":
            break
    await socket.close()
    return socket


@asynccontextmanager
async def passing(*gateways):
    passing_on = PassingOn(HttpSettings(http_gateways=",".join(gateways)))
    app = web.Application()
    app.add_routes(passing_on.routes())
    async with TestServer(app) as front, ClientSession(str(front.make_url("/"))) as client:
        yield client, front
        await passing_on.stop()


@asynccontextmanager
async def gateway():
    app = web.Application()
    app.add_routes([web.post("/v1/sync", sync), web.get("/v1/connect", connect)])
    async with TestServer(app) as running:
        yield f"127.0.0.1:{running.port}"


async def test_an_answer_comes_back_as_it_is_also_where_another_gateway_is_down():
    async with gateway() as up, passing(f"127.0.0.1:{free_port()}", up) as (client, front):
        for _ in range(3):  # whose turn it is does not matter
            async with client.post("/v1/sync", json={"a": 1}, headers={"Authorization": "Bearer t"}) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (409, "60")
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
                assert "X-Inner" not in answer.headers
                said = {"said": {"a": 1}, "token": "Bearer t", "host": f"{front.host}:{front.port}"}
                assert await answer.json() == said


async def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole():
    async with gateway() as up, passing(up) as (client, _), client.post("/v1/sync?break=1", json={}) as answer:
        with pytest.raises(ClientPayloadError):
            await answer.read()


async def test_messages_go_both_ways_and_the_end_too():
    async with gateway() as up, passing(up) as (client, _):
        async with client.ws_connect("/v1/connect") as socket:
            await socket.send_bytes(b"abc")
            assert (await socket.receive()).data == b"cba"
            await socket.send_bytes(b"end")
            assert (await socket.receive()).data == b"dne"
            assert (await socket.receive()).type is WSMsgType.CLOSE
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect("/v1/connect", headers={"Origin": "https://other.test"})
        assert refused.value.status == 403


async def test_without_a_gateway_it_says_so():
    async with passing(f"127.0.0.1:{free_port()}") as (client, _):
        for method, path in (("POST", "/v1/sync"), ("GET", "/v1/connect"), ("GET", "/v1/events")):
            async with client.request(method, path) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    with pytest.raises(SettingError, match="HTTP_GATEWAYS"):
        PassingOn(HttpSettings(http_gateways=" "))
    with pytest.raises(SettingError, match="HTTP_GATEWAYS_CA"):
        PassingOn(HttpSettings(http_gateways_ca="/not/there"))
