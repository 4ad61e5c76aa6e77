"""What is for a gateway reaches one, both ways; the gateway is a stand-in on a real socket."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import ClientPayloadError, ClientSession, ClientTimeout, WSMsgType, web
from aiohttp.test_utils import TestServer
from coldnotify_common.errors import SettingError
from coldnotify_common.http.event_streams import come_back
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_bodies import SMALL_BYTES
from coldnotify_http.gateway_proxy import EVENTS, GatewayProxy
from coldnotify_http.settings import HttpSettings
from coldnotify_kafka.broker import free_port
from coldnotify_testkit.waiting import until

LIMIT_S = 60
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


DIES = web.AppKey("DIES", asyncio.Event)


async def sync(request):
    if request.query.get("break"):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half an ans")
        request.transport.abort()
        return response
    if request.query.get("wait"):
        await asyncio.sleep(LIMIT_S)
    body = await request.json()
    return web.json_response(
        {
            "said": body,
            "token": request.headers.get("Authorization"),
            "host": request.host,
            "via": request.headers.get("Via"),
            "site": request.headers.get("Sec-Fetch-Site"),
        },
        status=409,
        headers={"Retry-After": "60", "Access-Control-Allow-Origin": "*", "X-Inner": "no"},
    )


async def connect(request):
    if request.headers.get("Origin") == "https://other.test":
        raise web.HTTPForbidden(text="pages of other.test may not", headers={"Retry-After": "7", "X-Inner": "no"})
    socket = web.WebSocketResponse(protocols=("mqtt",))
    await socket.prepare(request)
    if request.query.get("chosen"):
        await socket.send_str(str(socket.ws_protocol))
    if request.query.get("endless"):
        while True:
            await socket.send_bytes(bytes(64 * 1024))
    async for message in socket:
        await socket.send_bytes(message.data[::-1])
        if message.data == b"end":
            break
    await socket.close()
    return socket


async def events(request):
    if status := request.query.get("status"):
        return web.json_response({"error": "not now"}, status=int(status), headers={"Retry-After": "1"})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if request.query.get("dies"):
        await response.write(b'data: {}\n\ndata: {"half')
        await request.app[DIES].wait()
        request.transport.abort()
        return response
    if request.query.get("quiet"):
        await response.write(b"data: {}\n\n")
        await asyncio.sleep(LIMIT_S)
    while True:
        await response.write(bytes(64 * 1024))


@asynccontextmanager
async def passing(*gateways, **settings):
    passing_on = GatewayProxy(HttpSettings(http_gateways=",".join(gateways), **settings))
    app = web.Application(middlewares=[come_back([EVENTS]), json_errors])
    app.add_routes(passing_on.routes())
    async with TestServer(app) as front, client_of(front) as client:
        yield client, front, passing_on
        passing_on.stop()
        await passing_on.close()


def client_of(front):
    return ClientSession(str(front.make_url("/")), timeout=ClientTimeout(LIMIT_S))


@asynccontextmanager
async def gateway(dies=None):
    app = web.Application()
    app[DIES] = dies or asyncio.Event()
    app.add_routes([web.post("/v1/sync", sync), web.get("/v1/events", events)])
    app.add_routes([web.get(path, connect) for path in ("/v1/connect", "/mqtt")])
    async with TestServer(app) as running:
        yield f"127.0.0.1:{running.port}"


async def test_an_answer_comes_back_as_it_is_also_where_another_gateway_is_down():
    async with gateway() as up, passing(f"127.0.0.1:{free_port()}", up) as (client, front, _):
        for _ in range(3):  # whose turn it is does not matter
            headers = {"Authorization": "Bearer t", "Sec-Fetch-Site": "same-site"}
            async with client.post("/v1/sync", json={"a": 1}, headers=headers) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (409, "60")
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
                assert "X-Inner" not in answer.headers
                said = {"said": {"a": 1}, "token": "Bearer t", "host": f"{front.host}:{front.port}"}
                said["via"] = "1.1 coldnotify-http"
                said["site"] = "same-site"
                assert await answer.json() == said


async def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole():
    async with gateway() as up, passing(up) as (client, _, _), client.post("/v1/sync?break=1", json={}) as answer:
        with pytest.raises(ClientPayloadError):
            await answer.read()


async def test_messages_go_both_ways_and_the_end_too():
    async with gateway() as up, passing(up) as (client, _, _):
        async with client.ws_connect("/v1/connect") as socket:
            await socket.send_bytes(b"abc")
            assert (await socket.receive()).data == b"cba"
            await socket.send_bytes(b"end")
            assert (await socket.receive()).data == b"dne"
            assert (await socket.receive()).type is WSMsgType.CLOSE
        async with client.get("/v1/connect", headers=UPGRADE | {"Origin": "https://other.test"}) as refused:
            assert (refused.status, await refused.text()) == (403, "pages of other.test may not")
            assert refused.headers["Retry-After"] == "7"
            assert "X-Inner" not in refused.headers


async def test_mqtt_is_passed_on_with_its_subprotocol():
    async with gateway() as up, passing(up) as (client, _, _):
        async with client.ws_connect("/mqtt?chosen=1", protocols=("mqttv3.1", "mqtt")) as socket:
            assert socket.protocol == "mqtt"
            assert (await socket.receive()).data == "mqtt", "the gateway was offered it"
            await socket.send_bytes(b"abc")
            assert (await socket.receive()).data == b"cba"
        async with client.ws_connect("/v1/connect?chosen=1", protocols=("mqtt",)) as socket:
            assert (socket.protocol, (await socket.receive()).data) == (None, "None")
        offers = {"Sec-WebSocket-Protocol": "mqtt", "Origin": "https://other.test"}
        async with client.get("/mqtt", headers=UPGRADE | offers) as refused:
            assert refused.status == 403


async def test_mqtt_without_its_subprotocol_or_an_upgrade_is_refused_without_asking_a_gateway():
    async with passing(f"127.0.0.1:{free_port()}") as (client, _, _):
        for headers in (UPGRADE, UPGRADE | {"Sec-WebSocket-Protocol": "chat"}, {"Sec-WebSocket-Protocol": "mqtt"}):
            async with client.get("/mqtt", headers=headers) as answer:
                assert answer.status == 400


async def comes_back(client, words, path="/v1/events"):
    """A browser's EventSource would, and be told these words."""
    async with client.get(path, headers={"Origin": "https://a.test"}) as answer:
        said = (await answer.text()).splitlines()
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a.test"
    assert 1000 <= int(said[0].removeprefix("retry: ")) <= 2000
    assert (said[1], json.loads(said[2].removeprefix("data: "))["error"]) == ("event: unavailable", words)


async def test_without_a_gateway_it_says_so():
    async with passing(f"127.0.0.1:{free_port()}") as (client, _, _):
        for method, path in (("POST", "/v1/sync"), ("GET", "/v1/connect")):
            async with client.request(method, path, headers=UPGRADE if "connect" in path else {}) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        await comes_back(client, "no gateway can be reached, see COLDNOTIFY_HTTP_GATEWAYS / --http-gateways")
    with pytest.raises(SettingError, match="HTTP_GATEWAYS"):
        GatewayProxy(HttpSettings(http_gateways=" "))
    with pytest.raises(SettingError, match="HTTP_GATEWAYS_CA"):
        GatewayProxy(HttpSettings(http_gateways_ca="/not/there"))


@pytest.mark.parametrize("path", ["/v1/events", "/v1/connect?endless=1"])
async def test_a_viewer_that_does_not_read_loses_its_place(path, monkeypatch):
    monkeypatch.setattr("coldnotify_http.gateway_proxy._WRITE_TIMEOUT_S", 0.5)
    monkeypatch.setattr("coldnotify_http.gateway_proxy._CLOSE_TIMEOUT_S", 0.5)
    async with gateway() as up, passing(up, http_passed_on_max=1) as (client, front, _):
        reader, writer = await asyncio.open_connection(front.host, front.port, limit=1024)
        upgrade = (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" if "endless" in path else ""
        )
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" if upgrade else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{upgrade}{key}\r\n".encode())
        async with asyncio.timeout(LIMIT_S):
            assert (await reader.readline()).split()[1] in (b"101", b"200")  # it has the place
            status = 503
            while status == 503:
                await asyncio.sleep(0.02)
                async with client.post("/v1/sync", json={}) as answer:
                    status = answer.status
            assert status == 409
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_endless_responses_end_when_the_service_stops():
    async with gateway() as up, passing(up) as (client, _, passing_on), client.ws_connect("/v1/connect") as socket:
        quiet, busy = await client.get("/v1/events?quiet=1"), await client.get("/v1/events")
        assert (await quiet.content.readany()).startswith(b"data")
        waiting = asyncio.create_task(client.post("/v1/sync?wait=1", json={}))
        await until(lambda: passing_on._under_way.taken == 4)
        passing_on.stop()
        assert (await socket.receive()).type is WSMsgType.CLOSE
        assert await quiet.read() == b"", "its end is one, and no break"
        assert await busy.read()
        async with await waiting as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert await answer.json() == {"error": "the service is stopping"}


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_transient_gateway_errors_do_not_end_a_page(status):
    """A gateway of the release before answers so."""
    async with gateway() as up, passing(up) as (client, _, _):
        await comes_back(client, "not now", f"/v1/events?status={status}")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_permanent_errors_are_passed_on_unchanged(status):
    async with gateway() as up, passing(up) as (client, _, _), client.get(f"/v1/events?status={status}") as answer:
        assert (answer.status, await answer.json()) == (status, {"error": "not now"})


async def test_events_end_with_their_gateway_and_are_not_held_back_on_the_way():
    dies = asyncio.Event()
    async with gateway(dies) as up, passing(up) as (client, _, _), client.get("/v1/events?dies=1") as answer:
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert await answer.content.readuntil(b"half") == b'data: {}\n\ndata: {"half'
        dies.set()
        assert await answer.read() == b"", "an end, and no break"


async def test_requests_during_the_stop_are_sent_away():
    async with gateway() as up, passing(up) as (client, _, passing_on):
        for before in (True, False):
            async with client.post("/v1/sync", json={}) as answer:
                assert answer.status == (409 if before else 503)
            passing_on.stop()
        async with client.get("/v1/connect", headers=UPGRADE) as answer:
            assert (answer.status, await answer.json()) == (503, {"error": "the service is stopping"})
        await comes_back(client, "the service is stopping")


async def test_requests_without_a_websocket_upgrade_are_refused_without_asking_a_gateway():
    async with passing(f"127.0.0.1:{free_port()}") as (client, _, _):
        for headers in ({}, UPGRADE | {"Upgrade": "h2c"}, UPGRADE | {"Sec-WebSocket-Version": "12"}):
            async with client.get("/v1/connect", headers=headers) as answer:
                assert (answer.status, "WebSocket" in await answer.text()) == (400, True)


async def test_nothing_is_begun_for_who_asks_for_the_head_only():
    async with gateway() as up, passing(up) as (client, _, _), client.head("/v1/events") as answer:
        assert answer.status == 405


async def test_bodies_of_strangers_are_bounded_in_bytes_one_by_one_and_together(monkeypatch):
    monkeypatch.setattr("coldnotify_http.gateway_proxy._BODIES_BYTES_MAX", SMALL_BYTES)
    never = asyncio.Event()

    async def trickled():
        yield b"x" * 2 * SMALL_BYTES
        await never.wait()

    bounds = {"http_sync_bytes_max": 4 * SMALL_BYTES}
    async with gateway() as up, passing(up, **bounds) as (client, _, passing_on), asyncio.timeout(LIMIT_S):
        async with client.post("/v1/sync", data=b"x" * (4 * SMALL_BYTES + 1)) as answer:
            assert answer.status == 413
        held_up = asyncio.create_task(client.post("/v1/sync", data=trickled()))
        while passing_on._bodies.under_way_bytes < SMALL_BYTES:  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0.01)
        body = json.dumps("x" * SMALL_BYTES)  # two bytes beyond what is not counted
        async with client.post("/v1/sync", data=body) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        async with client.post("/v1/sync", json={"a": 1}) as answer:
            assert answer.status == 409
        never.set()
        (await held_up).close()
        async with client.post("/v1/sync", data=body) as answer:
            assert answer.status == 409


async def test_one_address_has_a_share_of_what_is_passed_on(monkeypatch):
    """5,000 places, which one address could take with connections of which it may have 10,000."""
    monkeypatch.setattr("coldnotify_http.gateway_proxy.who_asks", lambda request, **_: request.headers.get("X-Who"))
    goes_on = asyncio.Event()

    async def waits(_request):
        await goes_on.wait()
        return web.json_response({})

    gateway = web.Application()
    gateway.add_routes([web.post("/v1/sync", waits)])
    async with (
        TestServer(gateway) as behind,
        passing(f"{behind.host}:{behind.port}", http_passed_on_max=4) as (
            client,
            front,
            passing_on,
        ),
    ):

        async def ask(who):
            async with client.post(front.make_url("/v1/sync"), data=b"{}", headers={"X-Who": who}) as answer:
                return answer.status, await answer.json(), answer.headers.get("Retry-After")

        async with asyncio.timeout(LIMIT_S):
            under_way = [asyncio.create_task(ask("one")) for _ in range(2)]
            await until(lambda: passing_on._under_way.taken == 2, "they are passed on")
            words = "2 requests of this address are passed on to gateways already"
            assert await ask("one") == (503, {"error": words}, "1")
            client.headers["X-Who"] = "one"
            await comes_back(client, words)
            under_way += [asyncio.create_task(ask("other")) for _ in range(2)]
            await until(lambda: passing_on._under_way.taken == 4, "they are passed on")
            words = "4 requests are passed on to gateways already"
            assert await ask("third") == (503, {"error": words}, "1")
            goes_on.set()
            assert [status for status, *_ in await asyncio.gather(*under_way)] == [200] * 4
