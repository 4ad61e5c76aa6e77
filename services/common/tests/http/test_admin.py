"""Every service's HTTP port, in its own thread or in the test's loop."""

import asyncio
import json
from collections.abc import Callable
from urllib.request import Request

import pytest
from aiohttp import ClientSession, TCPConnector, web
from coldnotify_common.http.admin import AdminServer, AdminThread
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.listening import ListenError
from coldnotify_common.security.inside import Inside, InsideSettings
from coldnotify_common.security.revocation import lists_usable
from coldnotify_schemas.names import check_name
from coldnotify_testkit.fetching import fetch
from prometheus_client import CollectorRegistry, Counter

HOST = "127.0.0.1"


def get(port: int, path: str) -> tuple[int, str]:
    answer = fetch(f"http://{HOST}:{port}{path}")
    return answer.status, answer.text


def thread(readiness: Callable[[], str | None] = lambda: None, **more: object) -> AdminThread:
    return AdminThread(AdminServer(HOST, 0, readiness=readiness, **more))  # type: ignore[arg-type]


def test_health_readiness_and_metrics_are_answered() -> None:
    registry = CollectorRegistry()
    Counter("lamps_lit", "Lamps lit.", registry=registry).inc(3)
    reason: list[str | None] = ["Kafka is away"]
    admin = thread(lambda: reason[0], registry=registry)
    admin.start()
    try:
        status, text = get(admin.port, "/")
        assert status == 200
        assert {"  GET /healthz", "  GET /readyz", "  GET /metrics"} <= set(text.splitlines())
        assert get(admin.port, "/healthz") == (200, "ok\n")
        assert get(admin.port, "/readyz") == (503, "Kafka is away\n")
        reason[0] = None
        assert get(admin.port, "/readyz") == (200, "ready\n")
        assert fetch(f"http://{HOST}:{admin.port}/nothing").headers["Server"] == "coldnotify"
        status, text = get(admin.port, "/metrics")
        assert status == 200
        assert "lamps_lit_total 3.0" in text
        assert lists_usable() is not None or "\ncoldnotify_auth_revoked_list_usable" not in text, "there is no list"
    finally:
        admin.stop()
    with pytest.raises(OSError):
        get(admin.port, "/healthz")


def test_a_port_in_use_is_an_error_that_names_setting_and_address() -> None:
    first = thread()
    first.start()
    try:
        setting = "COLDNOTIFY_LAMP_PORT / --lamp-port"
        second = AdminThread(AdminServer(HOST, first.port, readiness=lambda: None, setting=setting))
        with pytest.raises(ListenError) as caught:
            second.start()
        assert str(caught.value) == (
            f"COLDNOTIFY_LAMP_PORT / --lamp-port: cannot listen on {HOST}:{first.port}: Address already in use"
        )
        second.stop()
    finally:
        first.stop()


def test_stop_may_come_before_start_and_twice() -> None:
    admin = thread()
    admin.stop()
    admin.start()
    admin.stop()
    admin.stop()


def test_routes_page_and_their_errors_name_the_parameter() -> None:
    async def clients(request: web.Request) -> web.Response:
        check_name("domain", request.match_info["domain"])
        limit, after = page_request(request.query)
        return web.json_response(page(["a", "b", "c"], limit, after, show=lambda key: {"client": key}))

    async def broken(_request: web.Request) -> web.Response:
        raise RuntimeError("secret")

    admin = thread(routes=[web.get("/v1/{domain}/clients", clients), web.get("/broken", broken)])
    admin.start()
    try:
        assert get(admin.port, "/v1/d/clients?limit=2") == (
            200,
            '{"items": [{"client": "a"}, {"client": "b"}], "next": "b"}',
        )
        assert get(admin.port, "/v1/d/clients?limit=2&after=b") == (200, '{"items": [{"client": "c"}], "next": null}')
        for path, field in (("/v1/d/clients?limit=1001", "limit"), ("/v1/a%20b/clients", "domain")):
            status, text = get(admin.port, path)
            assert (status, json.loads(text)["field"]) == (400, field)
            assert json.loads(text)["error"].startswith(f"{field}: ")
        status, text = get(admin.port, "/broken")
        assert status == 500
        assert "secret" not in text
        assert get(admin.port, "/nothing") == (404, '{"error": "404: Not Found"}')
    finally:
        admin.stop()


async def test_it_answers_to_addresses_localhost_and_names_it_was_told() -> None:
    server = AdminServer(HOST, 0, readiness=lambda: None, inside=Inside(InsideSettings(http_hosts="matcher-1")))
    await server.start()
    try:
        for path in ("/healthz", "/metrics", "/v1/partitions"):
            request = Request(f"http://{HOST}:{server.port}{path}", headers={"Host": "evil.example"})
            answer = await asyncio.to_thread(fetch, request)
            assert (answer.status, answer.json()["field"]) == (421, "Host")
            assert "COLDNOTIFY_HTTP_HOSTS / --http-hosts" in answer.text
        for host in (f"matcher-1:{server.port}", "localhost", f"{HOST}:{server.port}", "[::1]:1"):
            request = Request(f"http://{HOST}:{server.port}/metrics", headers={"Host": host})
            assert (await asyncio.to_thread(fetch, request)).status == 200
        foreign = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
        for headers in (foreign, {"Origin": "http://evil.example"}):
            request = Request(f"http://{HOST}:{server.port}/v1/partitions", headers=headers)
            assert (await asyncio.to_thread(fetch, request)).status == 403
    finally:
        await server.stop()


async def test_connections_that_ask_nothing_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_common.http.admin._SILENT_MAX", 4)
    monkeypatch.setattr("coldnotify_common.http.admin._SILENT_S", 3.0)
    server = AdminServer(HOST, 0, readiness=lambda: None)
    await server.start()
    silent = []
    try:
        async with asyncio.timeout(60):
            for _ in range(8):
                silent.append(await asyncio.open_connection(HOST, server.port))
                silent[-1][1].write(b"GET /healthz HT")
            ends = [await end(reader) for reader, _ in silent]
        assert ends == [b""] * 8
        assert await asyncio.to_thread(get, server.port, "/healthz") == (200, "ok\n")
    finally:
        for _, writer in silent:
            writer.close()
        await server.stop()


async def end(reader: asyncio.StreamReader) -> bytes:
    """What comes before the connection is closed."""
    try:
        return await reader.read(1)
    except ConnectionResetError:
        return b""


async def test_the_server_lives_in_a_loop_that_is_there_already() -> None:
    server = AdminServer(HOST, 0, readiness=lambda: None)
    await server.start()
    assert await asyncio.to_thread(get, server.port, "/healthz") == (200, "ok\n")
    await server.stop()
    await server.stop()


async def test_it_is_healthy_while_as_many_as_it_takes_send_heads_and_no_bodies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each held its connection for as long as it liked: the 257th was closed, and who asked for health was that."""
    monkeypatch.setattr("coldnotify_common.http.admin._SILENT_S", 2.0)

    async def put(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    server = AdminServer(HOST, 0, readiness=lambda: None, routes=[web.put("/v1/thing", put)])
    await server.start()
    silent = []
    try:
        async with asyncio.timeout(60):
            for _ in range(256):
                silent.append(await asyncio.open_connection(HOST, server.port))
                silent[-1][1].write(b"PUT /v1/thing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            assert await asyncio.to_thread(get, server.port, "/healthz") == (200, "ok\n")
            ends = [await end(reader) for reader, _ in silent]
        assert set(ends) <= {b"", b"H"}, "each is closed, or told that it took too long"
        assert await asyncio.to_thread(get, server.port, "/healthz") == (200, "ok\n")
        whole = Request(f"http://{HOST}:{server.port}/v1/thing", data=b"x" * 9, method="PUT")
        assert (await asyncio.to_thread(fetch, whole)).text == "9"
    finally:
        for _, writer in silent:
            writer.close()
        await server.stop()


async def test_it_is_healthy_while_requests_take_as_long_as_they_like_and_one_has_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coldnotify_common.http.admin._ASKING_MAX", 6)
    monkeypatch.setattr("coldnotify_common.http.admin._ASKING_OF_ONE_MAX", 4)
    ends = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await ends.wait()
        return web.Response(text="done")

    server = AdminServer(HOST, 0, readiness=lambda: None, routes=[web.get("/v1/slow", slow)])
    await server.start()

    async def ask(address: str, path: str = "/v1/slow") -> tuple[int, str | None]:
        async with (
            ClientSession(connector=TCPConnector(local_addr=(address, 0))) as http,
            http.get(f"http://{HOST}:{server.port}{path}") as answer,
        ):
            return answer.status, answer.headers.get("Retry-After")

    # As if they were no loopback, all of which may be one.
    monkeypatch.setattr(server._web, "_shared", lambda _address: False)
    try:
        async with asyncio.timeout(60):
            one = [asyncio.create_task(ask("127.0.0.2")) for _ in range(5)]
            done, under_way = await asyncio.wait(one, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [(503, "1")]
            others = [asyncio.create_task(ask("127.0.0.3")) for _ in range(3)]
            done, more = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [(503, "1")]
            assert await ask("127.0.0.2", "/healthz") == (200, None)
            ends.set()
            assert await asyncio.gather(*under_way, *more) == [(200, None)] * 6
    finally:
        ends.set()
        await server.stop()
